"""Running one program and saying what it took; series of such figures."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic

CHILD_TIMEOUT_S = 60.0
NOTHING = Path("/dev/null")
ROOT = Path(__file__).parents[2]  # of the checkout
OURS, SHARED_SSH, NEW_SSH = "mgpu", "ssh, shared connection", "ssh, new connection"


class BenchError(Exception):
    """What was to be measured did not work."""


@dataclass(frozen=True)
class Run:
    """`cpu_s` is user + system time of the program and of all that it waited for."""

    wall_s: float
    cpu_s: float
    first_byte_s: float | None
    output: bytes
    size: int


@dataclass
class Series:
    """Figures of one kind, in seconds."""

    values: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        self.values.append(value)

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Row:
    """One line of the table. `scale` turns what was measured into `unit`; `goal` is the highest value wished for, or
    the lowest (`least`). Rows of one `topic` are set beside each other at the end, one column for each `who`."""

    what: str
    values: Sequence[float]
    unit: str = "ms"
    scale: float = 1000.0
    goal: float | None = None
    least: bool = False
    topic: str = ""
    who: str = OURS

    @property
    def middle(self) -> float:
        return median(value * self.scale for value in self.values)

    @property
    def shown(self) -> str:
        return f"{number(self.middle)} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.middle >= self.goal if self.least else self.middle <= self.goal
        return f"{'at least ' if self.least else ''}{self.goal:g}: {'met' if met else 'missed'}"

    def cells(self) -> tuple[str, str, str, str, str]:
        scaled = [value * self.scale for value in self.values]
        spread = f"{number(min(scaled))} - {number(max(scaled))}" if len(scaled) > 1 else ""
        count = str(len(scaled)) if len(scaled) > 1 else ""
        return self.what, self.shown, spread, count, self.verdict


def number(value: float) -> str:
    """Three digits are more than such figures can bear."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(what: str, ours: Series, theirs: Series, goal: float | None = None) -> Row:
    """Of the medians. Both were taken in turn, so that a busy moment falls on either alike."""
    return Row(what, [ours.median / theirs.median], "", 1.0, goal)


def run(
    words: Sequence[str],
    env: Mapping[str, str],
    *,
    keep: bool = True,
    expect: int = 0,
    stdin: Path = NOTHING,
    limit_s: float = CHILD_TIMEOUT_S,
) -> Run:
    """Runs a program to its end, with its output read through a pipe (and kept, unless it is long)."""
    began = monotonic()
    with stdin.open("rb") as given:
        child = subprocess.Popen(words, env=dict(env), stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = child.stdout, child.stderr
    assert stdout is not None
    assert stderr is not None
    with limited(child, limit_s), stdout, stderr:
        trouble: list[bytes] = []
        reader = threading.Thread(target=lambda: trouble.append(stderr.read()), daemon=True)
        reader.start()
        first, size, kept = None, 0, bytearray()
        while data := os.read(stdout.fileno(), 1 << 20):
            if first is None:
                first = monotonic() - began
            size += len(data)
            if keep:
                kept += data
        _pid, status, usage = os.wait4(child.pid, 0)
        wall = monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
    if child.returncode != expect:
        said = b"".join(trouble).decode(errors="replace").strip()
        raise BenchError(f"{' '.join(words)}: status {child.returncode}: {said[-500:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, first, bytes(kept), size)


class limited:
    """Ends a child that takes far too long, or that was left behind by an error."""

    def __init__(self, child: subprocess.Popen[bytes], limit_s: float = CHILD_TIMEOUT_S) -> None:
        self._child = child
        self._timer = threading.Timer(limit_s, self._kill)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._child.pid, signal.SIGKILL)

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if self._child.returncode is None:
            self._kill()
            self._child.wait()


def wait_until(what: str, condition: Callable[[], bool], pause_s: float = 0.02, limit_s: float = 60.0) -> None:
    """Raises BenchError when it does not come true."""
    deadline = monotonic() + limit_s
    pause = threading.Event()
    while not condition():
        if monotonic() > deadline:
            raise BenchError(f"waited {limit_s:g} s for {what}")
        pause.wait(pause_s)
