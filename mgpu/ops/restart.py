"""The program as it lies on the disk now comes into force: run anew in the place of this process, which keeps its pid,
its lock, its streams and its environment. To jobs and clients it is the restart that they ride out anyway.

It is tried first, beside us: code that does not begin, or cannot use what is stored, does not replace any that runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mgpu
from mgpu.core.errors import MgpuError
from mgpu.ops.context import Caller, Context, record, require_operator
from mgpu.ops.render import Json
from mgpu.store import tables
from mgpu.whereabouts import environment

TRIAL_S = 60.0
TRIAL = """
import sys
from pathlib import Path
import mgpu.daemon
from mgpu.config.apart import load
from mgpu.config.policies import load_policies
from mgpu.core.errors import MgpuError
from mgpu.store import tables
try:
    load_policies(load(Path(sys.argv[1]) if sys.argv[1] else None))
except MgpuError as error:
    sys.exit("; ".join(error.message.splitlines()))
print(mgpu.__version__, tables.REVISION)
"""
PACKAGE = Path(__file__).resolve().parents[1]


class CannotRestart(MgpuError):
    code = "cannot_restart"


def restart(context: Context, caller: Caller) -> Json:
    """The answer comes before the restart. Raises CannotRestart, and then the master goes on as it is."""
    require_operator(context, caller, "restart the master")
    version = _try(str(context.config.path or ""))
    record(context, caller.entry("restart", detail=f"{mgpu.__version__} -> {version}"))
    context.control.restart()
    return {"restarting": True, "from": mgpu.__version__, "to": version}


def _try(config: str) -> str:
    """The version that would begin. Raises CannotRestart."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRIAL, config],
            cwd="/",
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(str(error)) from error
    words = done.stdout.split()
    if done.returncode or len(words) != 2:
        raise _refused((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    version, revision = words
    if revision < tables.REVISION:
        what = f"it is older (version {version}, schema {revision}) than the database (schema {tables.REVISION})"
        raise _refused(what, "install a newer version; the way back to an older one: docs/upgrading.md")
    return version


def _refused(why: str, hint: str = "") -> CannotRestart:
    what = f"the code in {PACKAGE} does not begin, so the master goes on with what it runs: {why}"
    return CannotRestart(what, hint or "mend that, or install mgpu anew")
