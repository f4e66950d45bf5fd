"""mgpu as a person uses it: the command as a process of its own, with a lab's configuration and a state of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.lab import Lab

PATIENCE_S = 30.0
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
QUICK = """\
networking: {heartbeat_interval: 1, timeout: 4, login_timeout: 3, probe_timeout: 5}
retries: {max: 3, backoff: 0.2, backoff_max: 1}
"""
Word = str | bytes | int | Path


def until(what: str, condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """The first true value of the condition, asked for less often the longer it takes: that slows what is awaited."""
    deadline = monotonic() + patience_s
    pause_s = 0.02
    while monotonic() < deadline:
        if found := condition():
            return found
        sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.2)
    raise AssertionError(f"not within {patience_s:g} s: {what}")


@dataclass(frozen=True)
class Result:
    code: int
    raw: bytes
    raw_errors: bytes

    @property
    def out(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def err(self) -> str:
        return self.raw_errors.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def told(self) -> list[str]:
        """The lines of stderr."""
        return self.err.splitlines()


class Command:
    """One that runs. `read_until` needs no end of it; `finish` waits for that."""

    def __init__(self, argv: Sequence[str | bytes], env: dict[str, str], cwd: Path, stdin: int) -> None:
        self._process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pipes = {self._process.stdout.fileno(): bytearray(), self._process.stderr.fileno(): bytearray()}
        self._out, self._err = self._pipes.values()
        self._open = set(self._pipes)

    @property
    def out(self) -> str:
        return self._out.decode(errors="replace")

    @property
    def err(self) -> str:
        return self._err.decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def _pump(self, wait_s: float) -> None:
        for pipe in select.select(list(self._open), [], [], wait_s)[0]:
            data = os.read(pipe, 1 << 16)
            self._pipes[pipe] += data
            if not data:
                self._open.discard(pipe)

    def read_until(self, text: str, patience_s: float = PATIENCE_S) -> None:
        """Until the text stands in stdout or stderr."""
        deadline = monotonic() + patience_s
        while text not in self.out and text not in self.err:
            assert monotonic() < deadline, f"no {text!r} in {self.out!r} and {self.err!r}"
            assert self._open, f"it ended without {text!r}: {self.out!r} and {self.err!r}"
            self._pump(0.2)

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def finish(self, patience_s: float = PATIENCE_S) -> Result:
        deadline = monotonic() + patience_s
        while self._open:
            assert monotonic() < deadline, f"still runs: {self.out[-500:]!r} and {self.err[-500:]!r}"
            self._pump(0.2)
        code = self._process.wait(max(0.1, deadline - monotonic()))
        return Result(code, bytes(self._out), bytes(self._err))

    def abandon(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


class Terminal:
    """A command on a terminal of its own, where ^C is typed."""

    def __init__(self, argv: Sequence[str | bytes], env: dict[str, str]) -> None:
        self.text = ""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            try:
                os.chdir("/")
                os.execve(argv[0], list(argv), env)
            finally:
                os._exit(127)
        self._ended = False

    def read_until(self, text: str, patience_s: float = PATIENCE_S) -> None:
        deadline = monotonic() + patience_s
        while text not in self.text:
            assert monotonic() < deadline, f"no {text!r} in {self.text!r}"
            assert not self._ended, f"it ended without {text!r}: {self.text!r}"
            self._pump()

    def _pump(self) -> None:
        if not select.select([self._fd], [], [], 0.2)[0]:
            return
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: nobody has the other end any more
            data = b""
        self._ended = not data
        self.text += data.decode(errors="replace")

    def pump_text(self) -> str:
        """What was shown so far."""
        self._pump()
        return self.text

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        deadline = monotonic() + patience_s
        while not self._ended:
            assert monotonic() < deadline, f"still runs: {self.text!r}"
            self._pump()
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def abandon(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Cluster:
    """A configuration, a state directory and a home over the nodes of a lab. Its master is made by the first command.

    All of it lies in the lab's folder: taking the lab down ends the master too. Commands are run in /, which every
    node has.
    """

    def __init__(self, lab: Lab, name: str, config: str = QUICK, nodes: str = "") -> None:
        self.lab = lab
        self.state_dir = lab.state_dir / name
        self.home = lab.folder / f"home-{name}"
        self.home.mkdir()
        self.config_path = self.home / "lab.yaml"
        text = lab.cluster_config()
        head, _, rest = text.partition("networking:")
        assert rest, "the lab's own intervals are replaced here"
        if nodes:
            head = head[: head.index("nodes:\n")] + nodes
        # a state directory that the environment names spares every command the reading of the configuration
        self.config_path.write_text(head.replace(f", state_dir: {lab.state_dir}", "") + config)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "USER": "root",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "MGPU_CONFIG": str(self.config_path),
            "MGPU_STATE_DIR": str(self.state_dir),
        }
        self._begun: list[Command | Terminal] = []

    def close(self) -> None:
        """Nothing is proved by how the master ends here, so it is killed: a clean end can cost as much as the test."""
        for command in self._begun:
            command.abandon()
        with contextlib.suppress(OSError, AssertionError):  # no master, or a node that a failed test left broken
            self.cancel_all()
            until("no job is left", lambda: not self.active_jobs(), 15)
        with contextlib.suppress(OSError):
            os.kill(self.master_pid(), signal.SIGKILL)

    # --- commands ---------------------------------------------------------------------------------------------------

    def argv(self, words: Sequence[Word]) -> list[str | bytes]:
        tail = [word if isinstance(word, bytes) else str(word) for word in words]
        return [sys.executable, "-m", "mgpu", *tail]

    def start(
        self, *words: Word, env: dict[str, str] | None = None, cwd: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> Command:
        command = Command(self.argv(words), {**self.environ, **(env or {})}, cwd or Path("/"), stdin)
        self._begun.append(command)
        return command

    def terminal(self, *words: Word) -> Terminal:
        command = Terminal(self.argv(words), self.environ)
        self._begun.append(command)
        return command

    def __call__(
        self,
        *words: Word,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        stdin: int = subprocess.DEVNULL,
    ) -> Result:
        """Runs it to its end. `check`: exit status 0 is meant."""
        command = self.start(*words, env=env, cwd=cwd, stdin=stdin)
        result = command.finish(60)
        self._begun.remove(command)
        command.abandon()
        assert not check or result.code == 0, f"{words}: {result.code}: {result.err}"
        return result

    def json(self, *words: Word, **kwargs: Any) -> Any:
        return json.loads(self("--json", *words, **kwargs).raw)

    def refused(self, *words: Word, code: int = 2, **kwargs: Any) -> str:
        """The one line of stderr of a command that must fail so."""
        result = self(*words, check=False, **kwargs)
        assert result.code == code, (result.code, result.err)
        assert result.out == ""
        assert len(result.told) == 1, result.err
        return result.told[0]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The master's answer, straight from its socket: for looking again and again. Raises OSError without one."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        try:
            connection.sock.connect(str(self.state_dir / "mgpu.sock"))
            headers = {"X-Mgpu-Config": str(self.config_path), "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    # --- jobs and nodes ---------------------------------------------------------------------------------------------

    def submit(self, *words: Word, **kwargs: Any) -> int:
        return int(self.json("submit", *words, **kwargs)["job_id"])

    def job(self, job_id: int | str) -> dict[str, Any]:
        status, shown = self.ask("GET", f"/v1/jobs/{job_id}")
        assert status == 200, shown
        return dict(shown)

    def await_job(
        self, job_id: int | str, *states: str, reason: str = "", patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The job once it is in one of the states (default: ended), with that reason."""
        wanted = set(states) or FINAL
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.job(job_id))
            return seen["state"] in wanted and (not reason or seen["reason"] == reason)

        try:
            until(f"job {job_id} in {sorted(wanted)} {reason}", there, patience_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {seen}") from None
        return seen

    def await_running(self, job_id: int) -> dict[str, Any]:
        """Once its command runs, on every node of it."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.job(job_id))
            parts = seen["allocation"]
            return seen["state"] == "RUNNING" and bool(parts) and all(part["state"] == "RUNNING" for part in parts)

        until(f"job {job_id} runs", there)
        return seen

    def output(self, job_id: int | str, *options: Word) -> str:
        return self("logs", job_id, *options).out

    def await_output(self, job_id: int, text: str) -> None:
        """Until it wrote that; by following it, which is quicker than looking again and again."""
        viewer = self.start("logs", "-f", job_id)
        viewer.read_until(text)
        viewer.abandon()
        self._begun.remove(viewer)

    def node(self, name: str) -> dict[str, Any]:
        status, shown = self.ask("GET", f"/v1/nodes/{name}")
        assert status == 200, shown
        return dict(shown)

    def gpus(self, name: str) -> list[str]:
        """The states of a node's GPUs."""
        return [gpu["state"] for gpu in self.node(name)["gpus"]]

    def idle(self) -> None:
        """Nothing is queued or runs, and every GPU is free."""

        def quiet() -> bool:
            if self.active_jobs():
                return False
            nodes = self.ask("GET", "/v1/nodes")[1]["nodes"]
            return all(node["gpus"] and all(gpu["state"] == "free" for gpu in node["gpus"]) for node in nodes)

        until("nothing runs and all GPUs are free", quiet)

    def master_pid(self) -> int:
        return int(self.ask("GET", "/v1/status")[1]["pid"])

    def active_jobs(self) -> list[int]:
        return [job["job_id"] for job in self.ask("GET", "/v1/jobs?scope=active")[1]["jobs"]]

    def cancel_all(self) -> None:
        if jobs := self.active_jobs():
            self.ask("POST", "/v1/cancel", {"request_id": os.urandom(16).hex(), "ids": jobs})

    def clear(self) -> None:
        """Cancels everything and waits until all is free."""
        self.cancel_all()
        self.idle()
