"""Jobs of this machine leave the unit of systemd that the master runs in: its limits, its accounting and an
out-of-memory kill of the whole of it are the master's. Each shell that starts jobs gets a scope, which lasts as long
as they do.

Where that cannot be had, they stay in the unit, whose KillMode spares them at least when it is stopped.
"""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

CGROUPS = Path("/proc/self/cgroup")
PATIENCE_S = 10


@lru_cache(maxsize=1)
def scope_words() -> tuple[str, ...]:
    """What stands before a command so that it runs in a scope of its own; () = there is none to be had, or no need."""
    if not _in_a_service():
        return ()
    whose = [] if os.geteuid() == 0 else ["--user"]
    told = ("--description=mgpu: jobs of this machine", "--property=TasksMax=infinity")
    words = ["systemd-run", *whose, "--scope", "--quiet", "--collect", *told, "--"]
    try:
        done = subprocess.run(
            [*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return () if done.returncode else tuple(words)


def _in_a_service() -> bool:
    """cron's, too; not the scope of a login, nor a container."""
    try:
        lines = CGROUPS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return any(line.split(":", 2)[-1].endswith(".service") for line in lines if line.count(":") >= 2)
