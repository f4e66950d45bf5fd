"""Where a job's output goes: our stdout and stderr, or files; byte for byte, with a rank's label before lines if asked.

A reader that does not read must not make us deaf to ^C. Pipes and terminals are opened anew in non-blocking mode, which
(unlike a flag on the descriptor that we were given) changes nothing for the other processes that share them.
"""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Callable

from mgpu.cli.session import bad_request
from mgpu.client.job_stream import STDERR, STDOUT
from mgpu.lean_typing import Any

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


class Sink:
    """`stdout` and `stderr` are file patterns, "" = our own. Where only stdout is named, stderr goes there too."""

    def __init__(
        self, stdout: str, stderr: str, label: bool, job_id: int | str, wake_fd: int, attend: Callable[[], None]
    ) -> None:
        self._patterns = {STDOUT: stdout, STDERR: stderr or stdout}
        self._label = label
        self._job_id = job_id
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
            self._target(kind, rank).write(data)

    def finish(self) -> None:
        """Writes the lines that have no end, and makes the files that nothing came for."""
        for (kind, rank), line in self._lines.items():
            if line:
                self._target(kind, rank).write(b"%d: %s" % (rank, line))
        self._lines.clear()
        for kind, pattern in self._patterns.items():
            for rank in self._node_of if pattern else ():
                self._target(kind, rank)

    def _file(self, pattern: str, rank: int) -> str:
        return expand(pattern, self._job_id, rank, self._node_of.get(rank, ""), self._name)

    def _labelled(self, kind: int, rank: int, data: bytes) -> bytes:
        text = self._lines.get((kind, rank), b"") + data
        end = len(text) if len(text) > LINE_LIMIT_B and b"\n" not in text else text.rfind(b"\n") + 1
        self._lines[kind, rank] = text[end:]
        return b"".join(b"%d: %s" % (rank, line) for line in text[:end].splitlines(keepends=True) if line)

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
    number = str(job_id)
    values = {"j": number, "A": number, "a": "0", "r": str(rank), "n": node, "N": node, "x": name, "%": "%"}

    def letter(found: re.Match[str]) -> str:
        if found[2] == "u":
            from mgpu.cli.filters import login

            return login()
        return values[found[2]].replace("/", "_").rjust(int(found[1] or 0), "0")

    return re.sub("%(?:([1-9])(?=[jAar]))?([jAanNrux%])", letter, pattern)
