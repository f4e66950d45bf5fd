"""A node that is this machine itself, with any of the shells that a real one may have as /bin/sh."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from zlib import crc32

import pytest

from mgpu.core.launch import Launch
from mgpu.core.model import DeviceUuid
from mgpu.core.reconcile import NodeAnswer, PartAnswer
from mgpu.remote.channel import Channel, LocalConnection
from mgpu.remote.runner import Refusal, ShellRunner
from mgpu.remote.session import NodeSession

SHELLS = ("dash", "bash", "busybox")
QUICK = "perl"  # dash, and perl for what that does
KINDS = (*SHELLS, QUICK)
PATIENCE_S = 15.0  # a bound for machines under load, not a measurement


def wait_until(told: Callable[[], bool], what: str = "it") -> None:
    deadline = monotonic() + PATIENCE_S
    while not told():
        assert monotonic() < deadline, f"{what} did not come"
        sleep(0.02)


class ShellConnection(LocalConnection):
    """This machine, where `sh` is the shell of our choice."""

    def __init__(self, environ: Mapping[str, str], sh: Path) -> None:
        super().__init__(environ)
        self._sh = sh

    def open_channel(self, command: str) -> Channel:
        return super().open_channel(command.replace("/bin/sh", str(self._sh)))


class Workbench:
    """One node: start jobs on it by key, look, and leave nothing behind."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.quick = kind == QUICK
        self.shell = shell = "dash" if self.quick else kind
        self.folder = folder
        self.home = folder / "account"
        self.bin = folder / "bin"
        for made in (self.home, self.bin):
            made.mkdir()
        (self.bin / "sh").symlink_to(shutil.which(shell) or pytest.skip(f"no {shell} here"))
        self.environ = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.home)}
        self.tokens: dict[str, str] = {}
        self._leases: list[Path] = []
        self._sessions: list[NodeSession] = []
        self.session = self.login()
        self.runner = ShellRunner(self.session)
        if self.quick:
            self.place("1.1").parent.mkdir(parents=True)  # else a node's first job is the shell's

    def login(self, run_dir: str = "") -> NodeSession:
        run_dir = run_dir or str(self.folder / "run")
        connection = ShellConnection(self.environ, self.bin / "sh")
        self._sessions.append(NodeSession(lambda: connection, ("db", "node001", run_dir), 30.0, quick=self.quick))
        return self._sessions[-1]

    def devices(self, count: int) -> list[DeviceUuid]:
        made = [DeviceUuid(f"GPU-test-{secrets.token_hex(6)}-{number}") for number in range(count)]
        self._leases += [self.lease(uuid) for uuid in made]
        return made

    @staticmethod
    def lease(uuid: str) -> Path:
        return Path(f"/tmp/mgpu.lease.{uuid}")  # where node/job/leases.sh has it

    def place(self, key: str) -> Path:
        return self.folder / "run/db/node001" / key

    def start(
        self,
        key: str,
        script: str,
        uuids: Sequence[DeviceUuid] = (),
        runner: ShellRunner | None = None,
        **launch: object,
    ) -> Refusal | None:
        token = self.tokens.setdefault(key, secrets.token_hex(16))
        return (runner or self.runner).start(key, token, uuids, Launch(script + "\n", **launch))  # type: ignore[arg-type]

    def answer(self, key: str) -> NodeAnswer:
        return self.runner.look([key])

    def look(self, key: str) -> PartAnswer:
        return self.runner.look([key]).parts.get(key, PartAnswer())

    def record(self, key: str, name: str) -> str | None:
        return self.look(key).records.get(name)

    def wait(self, key: str, name: str) -> str:
        """Until that record is there; its content as the node tells it. Its file is watched: a look costs processes."""
        file = self.place(key) / name
        wait_until(lambda: os.path.lexists(file), f"{name} of {key}")
        return self.look(key).records[name]

    def exit_of(self, key: str) -> str:
        """The exit record without its time, once nothing of the job is left."""
        self.wait(key, "clean")
        return self.wait(key, "exit").rpartition(":")[0]

    def stop(self, key: str, grace_s: int = 1, reason: str = "CANCEL") -> tuple[str, ...]:
        reply = self.session.quick("stop", key, self.tokens[key], reason, str(grace_s))
        return (reply.status, *reply.words)

    def output(self, key: str, stream: str = "stdout") -> bytes:
        return self.runner.read(key, stream, 0)[0]

    def run(self, key: str, script: str, uuids: Sequence[DeviceUuid] = (), **launch: object) -> str:
        """Start and wait for the end; the exit record without its time."""
        assert self.start(key, script, uuids, **launch) is None
        return self.exit_of(key)

    def close(self) -> None:
        for key in self.tokens:
            records = self.look(key).records
            if records.get("pid") != "fenced" and "clean" not in records and self.stop(key) == ("ok", "stopping"):
                self.wait(key, "clean")
        for session in self._sessions:
            session.close()
        for lease in self._leases:
            if lease.is_dir() and not lease.is_symlink():
                lease.rmdir()
            else:
                lease.unlink(missing_ok=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of the node's half under one of the kinds, always the same; under all of them when thorough."""
    for fixture, kinds in (("bench", KINDS), ("shell_bench", SHELLS)):
        if fixture in metafunc.fixturenames:
            turn = crc32(metafunc.function.__name__.encode()) % len(kinds)
            chosen = kinds if metafunc.config.getoption("thorough") else kinds[turn : turn + 1]
            metafunc.parametrize(fixture, chosen, indirect=True)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    with closing(Workbench(tmp_path, request.param)) as made:
        yield made


@pytest.fixture
def shell_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """For what holds only where supervisor and runner are two."""
    with closing(Workbench(tmp_path, request.param)) as made:
        yield made


@pytest.fixture
def quick_bench(tmp_path: Path) -> Iterator[Workbench]:
    """With the machine's own sh, for what does not depend on the shell."""
    with closing(Workbench(tmp_path, "dash" if shutil.which("dash") else "sh")) as made:
        yield made


@pytest.fixture
def mark() -> str:
    """A number of seconds to sleep that nobody else sleeps."""
    return f"1000{secrets.randbelow(10**6)}.{secrets.randbelow(10**6)}"


def living(mark: str) -> list[int]:
    """Pids of processes that live and have this word on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            continue
        if mark.encode() in words and state not in "ZX":
            found.append(int(entry.name))
    return found
