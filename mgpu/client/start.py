"""Starts the personal master when none answers.

Many clients may find it missing at the same instant: a file lock lets one of them start it while the others wait, and
then find it there. The master is detached from us and outlives this command.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from mgpu import clock
from mgpu.client.http import MasterError, NoMaster, request
from mgpu.client.locate import Location
from mgpu.client.service import COMING, Unit, unit_of
from mgpu.lean.context import contextmanager, suppress
from mgpu.lean.typing import Iterator

START_TIMEOUT_S = 60.0
POLL_S = 0.02
SERVICE_POLL_S = 0.3
TRIES = 3
AGAIN_S = 0.3
# How a personal master ends that finds the lock held: by one that is still starting, or already ending.
LOCK_HELD = 75
BAD_CONFIG = 2
NOT_ALLOWED = 77
REFUSED = (69, NOT_ALLOWED)  # it said itself why it cannot run, and would say so again


class BadConfig(NoMaster):
    """With all faults. Who follows a job waits on: the file is about to be mended."""

    def __init__(self, faults: list[str]) -> None:
        MasterError.__init__(self, "bad_config", "\n".join(faults))


def ensure(location: Location, lasting: bool = False) -> None:
    """Returns when a master answers at the location's socket; one that is missing is started, and ends when idle unless
    it is to be `lasting`. Raises NoMaster with the reason when none can."""
    try:
        request(location.endpoint, "GET", "/v1/status")
        return None
    except NoMaster as error:
        if not location.personal:
            error.hint = error.hint or "is the one that --master names running?"
            raise
    unit = unit_of(location.state_dir)
    if unit is not None:
        return await_service(location, unit)
    program()
    new = not os.path.lexists(location.state_dir)
    make_state_dir(location.state_dir)
    with start_lock(location.state_dir):
        failures = 0
        deadline = clock.monotonic() + START_TIMEOUT_S
        while True:
            if answers(location):
                return None
            status, said = spawn(location, lasting)
            if status == 0 or answers(location):
                return None
            if status == BAD_CONFIG:  # will not go away
                raise BadConfig(said)
            failures += status != LOCK_HELD
            if status in REFUSED or failures >= TRIES or clock.monotonic() > deadline:
                break
            time.sleep(AGAIN_S)
    if new and status == NOT_ALLOWED:  # it is to be another's, who could not make it any more
        unmake_state_dir(location.state_dir)
        raise NoMaster(said[-1])
    raise NoMaster(f"the master did not start: {said[-1]}", f"the whole log is {log_path(location.state_dir)}")


def await_service(location: Location, unit: Unit) -> None:
    """It is not ours to start. One that is being restarted is back soon. Raises NoMaster."""
    deadline = clock.monotonic() + START_TIMEOUT_S
    while not answers(location):
        state = unit.state()
        if state not in COMING or clock.monotonic() > deadline:
            what = f"no master answers at {location.endpoint.socket_path}: here it is the service {unit.name}"
            raise NoMaster(f"{what}, which is {state or 'unknown'}", f"{unit.how_to_start}; {unit.log} says more")
        time.sleep(SERVICE_POLL_S)


def how_to(state_dir: str) -> str:
    """What has to be typed for a master to run."""
    unit = unit_of(state_dir)
    return f"it is the service {unit.name}: {unit.how_to_start}" if unit else "mgpu queue, or any job, starts one"


def answers(location: Location) -> bool:
    """Whether a master is there, whatever it thinks of our configuration."""
    try:
        request(location.endpoint, "GET", "/v1/status")
    except NoMaster:
        return False
    return True


def log_path(state_dir: str | os.PathLike[str]) -> str:
    return os.path.join(state_dir, "master.log")


def make_state_dir(state_dir: str) -> None:
    """Makes the folder, for us alone. Raises NoMaster when that cannot be."""
    try:
        os.makedirs(state_dir, 0o700, exist_ok=True)
    except OSError as error:
        hint = "whoever is to run the master makes it (docs/shared.md), or name another with --state-dir"
        raise NoMaster(f"cannot make {state_dir}: {error.strerror}", hint) from error
    state = os.stat(state_dir)
    if state.st_uid not in (os.getuid(), 0):
        raise NoMaster(f"{state_dir} belongs to uid {state.st_uid}", "name another with --state-dir")
    if state.st_mode & 0o022:  # they could put a socket, a lock, a database of their own there
        import shlex

        raise NoMaster(f"others can write {state_dir}", f"chmod go-w {shlex.quote(state_dir)}, or name another")


def unmake_state_dir(state_dir: str) -> None:
    """With what a master leaves there that did not begin; never with anything else."""
    with suppress(OSError):
        for name in ("start.lock", "lock", os.path.basename(log_path(state_dir))):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(state_dir, name))
        os.rmdir(state_dir)


@contextmanager
def start_lock(state_dir: str) -> Iterator[None]:
    """Held by the one client that starts a master. The kernel drops it if that client dies."""
    path = os.path.join(state_dir, "start.lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NoMaster(f"cannot write {path}: {error.strerror}", "name another with --state-dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def command(location: Location, lasting: bool = False) -> list[str]:
    """The master's command line; a personal one, unless it is to be `lasting`."""
    options = [*([] if lasting else ["--personal"]), *(["--config", location.config] if location.config else [])]
    return [*program(), "daemon", *options, "--state-dir", location.state_dir]


def program() -> list[str]:
    """All of mgpu, as a command. Raises NoMaster for a client in a single file that finds no other here."""
    from mgpu.client.head import LAUNCHER, LAUNCHER_OF_ALL
    from mgpu.whereabouts import packed

    if not packed():
        return [sys.executable, "-m", "mgpu"]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for path in (
        os.path.expanduser(f"~/{LAUNCHER}"),
        LAUNCHER_OF_ALL,
        *(os.path.join(each, "mgpu") for each in folders),
    ):
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return [path]
    what = "no master runs here, and this file is a client alone, which cannot start one"
    raise NoMaster(what, "mgpu_master is one; or name one elsewhere: --host H --port P, or --master ssh://user@head")


def folder_to_start_in() -> str:
    """The root, so that no folder is held in use; where mgpu was only found from the current folder, its own."""
    from mgpu.whereabouts import FOLDER, packed

    return "/" if packed() or FOLDER in sys.path[1:] else FOLDER


def spawn(location: Location, lasting: bool = False) -> tuple[int, list[str]]:
    """Starts a master and waits until it answers: (0, []), or its exit status and what it said."""
    import subprocess

    from mgpu.whereabouts import environment, packed

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(log_path(location.state_dir), flags, 0o600)
    try:
        before = os.fstat(log).st_size
        # The variables that located this master say nothing to it: its command line names all.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MGPU_")}
        child = subprocess.Popen(
            command(location, lasting),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder_to_start_in(),
            env=environ if packed() else environment(environ),
            start_new_session=True,
        )
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            if answers(location):
                child.returncode = 0  # it lives on without us: nothing to wait for
                return 0, []
            status = child.poll()
            if status is not None:
                return status or 1, lines_since(log, before) or [f"it ended with status {status}"]
            time.sleep(POLL_S)
        child.kill()
        child.wait()
        return 1, [f"it did not answer within {START_TIMEOUT_S:g} s"]
    finally:
        os.close(log)


def lines_since(log: int, start: int) -> list[str]:
    """The lines that hold anything, of what was written since byte `start`; our own mark before them is left out."""
    size = os.fstat(log).st_size
    text = os.pread(log, 1 << 16, max(start, size - (1 << 16))).decode(errors="surrogateescape")
    return [line.strip().removeprefix("mgpu: ") for line in text.splitlines() if line.strip()]
