"""mgpu status: how the master is."""

from __future__ import annotations

import mgpu
from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.lean.typing import Any
from mgpu.wording.details import plain
from mgpu.wording.figures import duration, local_time
from mgpu.wording.letters import clean

EXAMPLES = """
Example:
  mgpu status --json
"""
UNTOLD = ("environment", "instance")


@command(examples=EXAMPLES)
def status(session: Session, /) -> None:
    """Show the master that runs. None is started for this: without one the exit status is 69."""
    answer = session.master(start_if_missing=False).call("GET", "/v1/status")
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(status_lines(answer))


def status_lines(answer: dict[str, Any]) -> list[str]:
    facts = {**answer, "config": answer.get("config") or "none: this machine alone"}
    facts = {key: value for key, value in facts.items() if value not in ("", [], {}) and key not in UNTOLD}
    if "started" in facts:
        facts["started"] = local_time(facts["started"])
    facts |= _numbers(facts)
    if "uptime_s" in facts:
        facts["uptime"] = duration(facts.pop("uptime_s"))
    if (theirs := facts.get("version", mgpu.__version__)) != mgpu.__version__:
        facts["version"] = f"{theirs} (this command is {mgpu.__version__})"
    width = max(map(len, facts))
    return [f"{clean(key.replace('_', ' ')):{width}}  {clean(plain(value))}" for key, value in facts.items()]


def _numbers(facts: dict[str, Any]) -> dict[str, str]:
    """What is more than a list of numbers to people."""
    said = {}
    tick, disk = facts.get("tick") or {}, facts.get("disk") or {}
    if tick.get("last_s") is not None:
        last, half, most = (f"{1000 * tick[name]:.3g} ms" for name in ("last_s", "p50_s", "p99_s"))
        said["tick"] = f"{last}, {tick['since_s']:.0f} s ago; half within {half}, 99 % within {most}"
    if disk:
        sizes = {name.removesuffix("_bytes"): size for name, size in disk.items() if size is not None}
        said["disk"] = " ".join(f"{name}={size / 2**20:.1f} MiB" for name, size in sizes.items())
    return said
