"""Reaches a master on another machine through the user's own `ssh`: its configuration, agent, jump hosts and known
hosts hold as they do for any login.

One ssh is one byte stream to the master: requests go over it one after the other, and the last of them may become a
stream of output. What has to be asked beside that (^C while a job is followed) goes over a second ssh, which OpenSSH
itself sends through the connection of the first: the user logs in once a command. Where ssh_config shares connections
already (ControlPath), that is left as it is.

ssh stays in our process group, so that it can ask for a password; ^C, which the terminal sends to all of it, it
does not hear.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress

import mgpu
from mgpu import clock
from mgpu.client import trouble
from mgpu.client.head import NO_MGPU, Head, begin_word, remote_command
from mgpu.client.http import Connection, MasterError, NoMaster
from mgpu.client.private import private_folder
from mgpu.client.ready import ready
from mgpu.lean.typing import Any

PATIENCE_S = 30  # of a connection, unless ssh_config or --connection-timeout says otherwise
PATIENCE_AGAIN_S = 10  # of one that stood before: it is tried again and again
BEGIN_S = 300.0  # a password is typed, a master starts
NOISE_LIMIT_B = 1 << 20
ALIVE_S, ALIVE_TIMES = 10, 2  # a dead link is noticed within half a minute
SILENCE_S = 60  # after which those at the head take us for gone
LAST_WORDS_S = 1.0  # of an ssh that is being ended
# As scp and sftp do: this connection is for one purpose, whatever ssh_config adds to a login.
BARE = ("-T", "-a", "-x", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none")
SHARED = "ssh-"  # and the pid of the command whose ssh it is
# Of newer ssh alone, and so only undone where they are set: name -> what it has to be
NO_LOGIN = {"stdinnull": "no", "forkafterauthentication": "no", "sessiontype": "default"}
SPOKEN = "-oLogLevel=INFO"  # what failed is told from its words
OURS_ALONE = (signal.SIGINT, signal.SIGQUIT)


class Dialer:
    """The way to the master behind `head`. `start_there`: a personal one is started if none runs; `timeout_s` None =
    ssh decides how long a connection is tried."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.start_there = True
        self.timeout_s: float | None = None
        self.wake_fd = -1
        self.version = ""  # of the mgpu there, once connected
        self._one_at_a_time = _thread.allocate_lock()
        self._idle: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._settings: dict[str, str] | None = None
        self._shared = ""  # where the first ssh lets others share its connection

    @property
    def shown(self) -> str:
        return self.head.shown

    @property
    def headers(self) -> dict[str, str]:
        return {}  # sshd knows who it is

    def connect(self) -> Connection:
        """A stream to the master, from those kept or by a new ssh. Raises NoMaster."""
        with self._one_at_a_time:  # the first ssh logs in, the others go through its connection
            return self._connect()

    def _connect(self) -> Connection:
        while self._idle:
            kept = self._idle.pop()
            if not ready([kept.fileno()], timeout_s=0)[0]:
                return kept
            kept.close()  # the other side has closed it
        mark = os.urandom(8).hex()
        argv = self._argv(mark)
        ours, theirs = socket.socketpair()
        with theirs, open(_scratch(), "w+b") as said:
            process = _spawn(argv, theirs.fileno(), said.fileno())
            theirs.close()
            try:
                self._begin(_first_line(ours, begin_word(mark), self.wake_fd), process, said.fileno())
            except BaseException:
                _end(process)
                ours.close()
                raise
        self._processes.append(process)
        return ours

    def keep(self, connection: Connection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        """Ends what was kept, and whatever still runs."""
        while self._idle:
            self._idle.pop().close()
        for process in self._processes:
            if _wait(process) is None:
                _end(process)

    def _begin(self, line: str | None, process: subprocess.Popen[bytes], said: int) -> None:
        """`line`: what mgpu said there first, None = it did not. Raises NoMaster."""
        if line is None:
            status = _wait(process)
            raise trouble.explain(self.head, os.pread(said, 1 << 16, 0).decode(errors="replace"), status)
        if line == NO_MGPU:
            raise trouble.not_found(self.head)
        try:
            told: dict[str, Any] = json.loads(line)
            wire = int(told["wire"])
            self.version = str(told["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise NoMaster(f"{self.head.shown} answered what is not ours: {line}", "", lasting=True) from error
        if wire != mgpu.WIRE:
            raise trouble.other_wire(self.head, self.version, mgpu.__version__)
        if "error" in told:
            error_there = told["error"]
            message = "; ".join(str(error_there["message"]).splitlines())
            raise NoMaster(f"{self.head.shown}: {message}", str(error_there["hint"]))

    # --- ssh's own command line ---

    def _argv(self, mark: str) -> list[str]:
        options = [*BARE, SPOKEN, *self._unless_configured(), *self._sharing()]
        if not _can_ask():
            options.append("-oBatchMode=yes")
        command = remote_command(self.head, mark, self.start_there, self._silence_s())
        return ["ssh", *options, *self.head.login, command]

    def _unless_configured(self) -> list[str]:
        settings = self.configured()
        options = [f"-o{name}={right}" for name, right in NO_LOGIN.items() if settings.get(name, right) != right]
        if self.timeout_s is not None:
            options.append(f"-oConnectTimeout={max(1, round(self.timeout_s))}")
        elif settings.get("connecttimeout", "none") == "none":
            options.append(f"-oConnectTimeout={PATIENCE_AGAIN_S if self.version else PATIENCE_S}")
        if not self._alive_s():
            options += [f"-oServerAliveInterval={ALIVE_S}", f"-oServerAliveCountMax={ALIVE_TIMES}"]
        return options

    def _alive_s(self) -> int:
        """After how many seconds of silence ssh_config has the other side asked for a sign of life; 0 = never."""
        value = self.configured().get("serveraliveinterval", "0")
        debians_own = value == "300" and self.configured().get("batchmode") == "yes"
        return int(value) if value.isdigit() and not debians_own else 0

    def _silence_s(self) -> int:
        """Of a machine that lives, more than that is never heard."""
        if self.configured().get("controlpath", "none") != "none":
            return 0  # the connection may have been made with other settings
        return max(SILENCE_S, 3 * self._alive_s())

    def _sharing(self) -> list[str]:
        if self.configured().get("controlpath", "none") != "none":
            return []
        self._processes = [process for process in self._processes if process.poll() is None]
        if self._processes and self._shared:
            return ["-oControlMaster=no", f"-oControlPath={self._shared}"]
        try:
            folder = private_folder(f"/tmp/mgpu-{os.getuid()}")
            _sweep(folder)
        except (MasterError, OSError):  # somebody else has made it: then each ssh logs in by itself
            return []
        self._shared = os.path.join(folder, f"{SHARED}{os.getpid()}-{os.urandom(4).hex()}")
        return ["-oControlMaster=yes", f"-oControlPath={self._shared}", "-oControlPersist=no"]

    def configured(self) -> dict[str, str]:
        """What ssh_config says of the head, as ssh itself reads it. Raises NoMaster where it cannot be read."""
        if self._settings is None:
            argv = ["ssh", "-T", "-G", *self.head.login]
            try:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            except FileNotFoundError as error:
                what = "there is no ssh program here"
                raise NoMaster(what, "install OpenSSH's client: ssh:// goes through it", lasting=True) from error
            if done.returncode:
                raise trouble.explain(self.head, done.stderr.decode(errors="replace"), trouble.OF_SSH)
            pairs = (line.partition(" ") for line in done.stdout.decode(errors="replace").splitlines())
            self._settings = {name: value for name, _, value in reversed(list(pairs))}
        return self._settings


def _spawn(argv: list[str], stream: int, said: int) -> subprocess.Popen[bytes]:
    """From its first moment on it hears nothing of ^C: signals that are blocked stay so in what a process starts. What
    comes for us meanwhile comes when that is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OURS_ALONE)
    try:
        return subprocess.Popen(argv, stdin=stream, stdout=stream, stderr=said)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _first_line(connection: Connection, begin: str, wake_fd: int) -> str | None:
    """What stands behind `begin` at the start of a line, the noise before it passed over; None = the end came first.
    Raises NoMaster when `wake_fd` (-1 = none) says that this takes too long."""
    wanted = f"\n{begin} ".encode()
    received = bytearray(b"\n")
    deadline = clock.monotonic() + BEGIN_S
    while (start := received.find(wanted)) < 0 or (end := received.find(b"\n", start + 1)) < 0:
        watched = [connection.fileno(), *([wake_fd] if wake_fd >= 0 else [])]
        readable, _ = ready(watched, timeout_s=max(deadline - clock.monotonic(), 0.0))
        if not readable:
            return None
        if connection.fileno() not in readable:
            raise NoMaster("given up for now: not connected yet")
        try:
            data = connection.recv(1 << 16)
        except OSError:
            return None
        received += data
        if not data or len(received) > NOISE_LIMIT_B:
            return None
    return received[start + len(wanted) : end].decode(errors="replace").strip()


def _scratch() -> int:
    """A file without a name: a pipe would have to be emptied all the time."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("mgpu-ssh")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _can_ask() -> bool:
    """Whether ssh has somebody to ask for a password."""
    if os.environ.get("SSH_ASKPASS") and (os.environ.get("DISPLAY") or os.environ.get("SSH_ASKPASS_REQUIRE")):
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _sweep(folder: str) -> None:
    """Of what a killed ssh left there."""
    for name in os.listdir(folder):
        pid = name.removeprefix(SHARED).partition("-")[0]
        if name.startswith(SHARED) and pid.isdigit():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))
            except (PermissionError, OverflowError):
                pass


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    deadline = clock.monotonic() + LAST_WORDS_S
    while (status := process.poll()) is None and clock.monotonic() < deadline:
        time.sleep(0.01)
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also the ssh to a jump host, which may be asking for a password: each gives the terminal back as it was."""
    for pid in [*_children(process.pid), process.pid]:
        if pid != process.pid or process.poll() is None:
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
    _wait(process)


def _children(parent: int) -> list[int]:
    """Of a system that does not tell them: none."""
    found = []
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", encoding="latin-1") as stat:
                if int(stat.read().rpartition(") ")[2].split()[1]) == parent:
                    found.append(int(name))
    return found
