"""Where a job's output goes: our stdout and stderr, or files; byte for byte, with a rank's label before lines if asked.

A reader that does not read must not make us deaf to ^C. Pipes and terminals are opened anew in non-blocking mode, which
(unlike a flag on the descriptor that we were given) changes nothing for the other processes that share them.
"""

from __future__ import annotations

import os
import select
import stat

from mgpu.cli.session import bad_request
from mgpu.client.job_stream import STDERR, STDOUT
from mgpu.lean.typing import Any, Callable

# An unfinished line is held back for its label until this size.
LINE_LIMIT_B = 1 << 16


class Target:
    """A descriptor written to in full. `attend` is called when `wake_fd` becomes readable while the reader is slow."""

    def __init__(self, descriptor: int, wake_fd: int, attend: Callable[[], None]) -> None:
        self._descriptor = non_blocking(descriptor)
        self._wake_fd = wake_fd
        self._attend = attend

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads any more."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                ready, _, _ = select.select([self._wake_fd], [self._descriptor], [])
                if ready:
                    self._attend()


def non_blocking(descriptor: int) -> int:
    """The same pipe or terminal, opened again so that a write never waits; else the descriptor as it is."""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or os.isatty(descriptor):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:
        pass  # another user's pipe, or no /proc: then a slow reader holds us up
    return descriptor


class Heads:
    """Of several jobs that write to the same stdout and stderr: whose output follows, told as `tail` does for files."""

    def __init__(self) -> None:
        from threading import Lock  # here, as few commands need it

        self.lock = Lock()
        self._last: dict[str | int, int | str] = {}

    def before(self, where: str | int, job_id: int | str) -> bytes:
        """What has to stand before the next piece; the caller holds the lock until both are written."""
        last = self._last.get(where)
        if last == job_id:
            return b""
        self._last[where] = job_id
        return b"%s==> job %s <==\n" % (b"" if last is None else b"\n", str(job_id).encode())


class Sink:
    """`stdout` and `stderr` are file patterns, "" = our own. Where only stdout is named, stderr goes there too.
    `heads`: those of several jobs, which share our own; a label then names the job as well, and no heads are needed."""

    def __init__(
        self,
        stdout: str,
        stderr: str,
        label: bool,
        job_id: int | str,
        wake_fd: int,
        attend: Callable[[], None],
        heads: Heads | None = None,
    ) -> None:
        self._patterns = {STDOUT: stdout, STDERR: stderr or stdout}
        self._label = label
        self._job_id = job_id
        self._heads = heads
        self._prefix = b"%s." % str(job_id).encode() if heads else b""
        self._wake = (wake_fd, attend)
        self._targets: dict[str | int, Target] = {}
        self._lines: dict[tuple[int, int], bytes] = {}
        self._node_of: dict[int, str] = {}
        self._name = ""

    def know(self, job: dict[str, Any]) -> None:
        """What file names are made of."""
        self._name = job.get("name") or ""
        self._node_of = {part["rank"]: part["node"] for part in job.get("allocation") or ()}

    def write(self, kind: int, rank: int, data: bytes) -> None:
        """Raises BrokenPipeError, or MasterError (bad_request) for a file that cannot be made."""
        if self._label:
            data = self._labelled(kind, rank, data)
        if data:
            self._put(kind, rank, data)

    def _put(self, kind: int, rank: int, data: bytes) -> None:
        target = self._target(kind, rank)
        if self._heads is None:
            target.write(data)
            return
        with self._heads.lock:
            head = b"" if self._label else self._heads.before(kind, self._job_id)
            target.write(head + data)

    def finish(self) -> None:
        """Writes the lines that have no end, and makes the files that nothing came for."""
        rest = [(self._target(*place), *place, line) for place, line in self._lines.items() if line]
        for number, (target, kind, rank, line) in enumerate(rest, 1):
            # another rank's line may follow, or one of another job
            follows = self._heads is not None or any(other is target for other, *_ in rest[number:])
            self._put(kind, rank, self._begin(rank) + line + b"\n" * follows)
        self._lines.clear()
        for kind, pattern in self._patterns.items():
            for rank in self._node_of if pattern else ():
                self._target(kind, rank)

    def _file(self, pattern: str, rank: int) -> str:
        return expand(pattern, self._job_id, rank, self._node_of.get(rank, ""), self._name)

    def _labelled(self, kind: int, rank: int, data: bytes) -> bytes:
        text = self._lines.get((kind, rank), b"") + data
        # a progress bar's line ends with a return; of one that stands last it is not known whether a newline follows
        end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
        end = len(text) if len(text) > LINE_LIMIT_B and not end else end
        self._lines[kind, rank] = text[end:]
        begin = self._begin(rank)
        return b"".join(begin + line for line in text[:end].splitlines(keepends=True) if line)

    def _begin(self, rank: int) -> bytes:
        return b"%s%d: " % (self._prefix, rank)

    def _target(self, kind: int, rank: int) -> Target:
        pattern = self._patterns[kind]
        key: str | int = self._file(pattern, rank) if pattern else kind
        target = self._targets.get(key)
        if target is None:
            descriptor = create(key) if isinstance(key, str) else key
            target = self._targets[key] = Target(descriptor, *self._wake)
        return target


def create(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise bad_request(f"cannot write {path}: {error.strerror}", "the job goes on") from error


def check_pattern(pattern: str) -> None:
    """Told before anything is queued, as far as it can be known. Raises MasterError (bad_request)."""
    folder = os.path.dirname(pattern) or "."
    if "%" in folder:
        return
    if not os.path.isdir(folder):
        raise bad_request(f"cannot write {pattern}: there is no folder {folder}", "make it first")
    if "%" not in pattern and (os.path.isdir(pattern) or (os.path.exists(pattern) and not os.access(pattern, os.W_OK))):
        raise bad_request(f"cannot write {pattern}", "name a file of your own")
    if not os.path.exists(pattern) and not os.access(folder, os.W_OK | os.X_OK):
        raise bad_request(f"cannot write {pattern}: the folder {folder} is closed to you", "name another")


def expand(pattern: str, job_id: int | str, rank: int, node: str, name: str) -> str:
    """A file name, by the same letters as on a node: %j and %A job, %a array index (0), %n and %N node, %r rank, %u our
    login, %x job name, %% a percent sign; others stay. %4j: with four digits at least."""
    if "%" not in pattern:
        return pattern
    import re

    number = str(job_id)
    values = {"j": number, "A": number, "a": "0", "r": str(rank), "n": node, "N": node, "x": name, "%": "%"}

    def letter(found: re.Match[str]) -> str:
        if found[2] == "u":
            from mgpu.cli.filters import login

            return login()
        return values[found[2]].replace("/", "_").rjust(int(found[1] or 0), "0")

    return re.sub("%(?:([1-9])(?=[jAar]))?([jAanNrux%])", letter, pattern)
