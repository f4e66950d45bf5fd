"""CPU time of many processes together, also of those that are long over: a control group counts it for all in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scripts.benchmarks.measure import BenchError, wait_until


class Group:
    """`mgpu-bench-PID-NAME`, of version 2, which needs no controller for this. What processes in it start is in it too.
    Where none can be made, nothing is counted and `cpu_s` is None."""

    def __init__(self, name: str) -> None:
        self._folder: Path | None = None
        root = _mount()
        if root is not None:
            folder = root / f"mgpu-bench-{os.getpid()}-{name}"
            with suppress(OSError):
                folder.mkdir()
                self._folder = folder

    @property
    def entrance(self) -> str:
        """The file into which a process writes its number to be counted; "/dev/null" = there is none."""
        return str(self._folder / "cgroup.procs") if self._folder else "/dev/null"

    def add(self, pids: Iterable[int]) -> None:
        if self._folder is None:
            return
        for pid in pids:
            with suppress(OSError):  # it is over
                (self._folder / "cgroup.procs").write_text(str(pid))

    def cpu_s(self) -> float | None:
        if self._folder is None:
            return None
        told = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(told["usage_usec"]) / 1e6

    def remove(self) -> None:
        """Whoever is still in it goes back to all others; some may just be starting another."""
        folder = self._folder
        if folder is None:
            return

        def empty() -> bool:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (folder.parent / "cgroup.procs").write_text(pid)
            with suppress(OSError):
                folder.rmdir()
            return not folder.exists()

        with suppress(BenchError):
            wait_until("an empty group", empty, limit_s=2.0)


def _mount() -> Path | None:
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, place, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(place, os.W_OK):
            return Path(place)
    return None
