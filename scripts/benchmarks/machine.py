"""The machine that the figures are of, and how busy others keep it."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from time import monotonic

from scripts.benchmarks.measure import ROOT

QUIET = 0.15  # of all cores taken by others


def describe() -> str:
    """One paragraph."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr.split(",")[0].strip()
    today = datetime.now(timezone.utc).date()
    return (
        f"{today}, mgpu {_commit()}: {_cpu_model()}, {cores} cores, {memory:.0f} GiB, {_system()}, "
        f"kernel {platform.release()}, Python {platform.python_version()}, {ssh}."
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _commit() -> str:
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "of no commit"


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def busy(seconds: float = 0.5) -> float:
    """The part of all cores' time that was taken while we slept."""
    before = _ticks()
    Event().wait(seconds)
    after = _ticks()
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    return 1 - idle / total if total else 0.0


def _ticks() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def wait_for_quiet(limit_s: float) -> float:
    """Until others leave the machine alone, or the time is up; how busy they keep it now."""
    deadline = monotonic() + limit_s
    while (taken := busy()) > QUIET and monotonic() < deadline:
        pass
    return taken
