"""Processes as /proc shows them. A process is named by pid and start time, so that a pid used again is never killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """`start` is in clock ticks since boot; `session` is 0 when it began outside our namespace."""

    pid: int
    parent: int
    session: int
    command: str
    start: int


def parse_stat(text: str) -> Process | None:
    """A line of /proc/PID/stat; None for a zombie and for text that is cut."""
    head, found, tail = text.rpartition(")")
    fields = tail.split()
    if not found or len(fields) < 20 or fields[0] in "ZX":
        return None
    pid, _, command = head.partition(" (")
    return Process(int(pid), int(fields[1]), int(fields[3]), command, int(fields[19]))


def read(pid: int) -> Process | None:
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None


def everything() -> list[Process]:
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return [process for pid in pids if (process := read(pid))]


def alive(process: Process) -> bool:
    now = read(process.pid)
    return now is not None and now.start == process.start


def environment(process: Process) -> set[str]:
    """Its `NAME=value` strings; empty where they may not be read."""
    try:
        return set((PROC / str(process.pid) / "environ").read_text(errors="replace").split("\0"))
    except OSError:
        return set()


def namespace(process: Process, kind: str) -> str:
    try:
        return str((PROC / str(process.pid) / "ns" / kind).readlink())
    except OSError:
        return ""


def in_pid_namespace_of(init: Process) -> list[Process]:
    wanted = namespace(init, "pid")
    return [process for process in everything() if wanted and namespace(process, "pid") == wanted]


def descendants(roots: Iterable[int], processes: Iterable[Process]) -> list[Process]:
    """All below `roots`, without them."""
    known = list(processes)
    found: dict[int, Process] = {}
    parents = set(roots)
    while parents:
        children = {process.pid: process for process in known if process.parent in parents}
        parents = set(children) - set(found)
        found |= children
    return list(found.values())


def with_files_in(folder: Path) -> list[Process]:
    """Those of ours, but not this one, that have a file open below `folder`."""
    found = []
    for process in everything():
        try:
            opened = [str(entry.readlink()) for entry in (PROC / str(process.pid) / "fd").iterdir()]
        except OSError:
            continue
        if process.pid != os.getpid() and any(path.startswith(f"{folder}/") for path in opened):
            found.append(process)
    return found


def send(process: Process, number: int) -> None:
    """Signals exactly that process; silent when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if alive(process):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def kill_all(find: Callable[[], list[Process]], timeout_s: float = 10) -> None:
    """Kills what `find` finds, until it finds nothing."""
    deadline = monotonic() + timeout_s
    while found := find():
        if monotonic() > deadline:
            raise TimeoutError(f"still alive after KILL: {', '.join(f'{p.command} ({p.pid})' for p in found)}")
        for process in found:
            send(process, signal.SIGKILL)
        sleep(0.002)
