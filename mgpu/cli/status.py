"""mgpu status: how the master is."""

from __future__ import annotations

import mgpu
from mgpu.cli.session import Session
from mgpu.cli.show import plain
from mgpu.cli.syntax import command
from mgpu.cli.text import clean, duration, local_time
from mgpu.lean_typing import Any

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
    if "uptime_s" in facts:
        facts["uptime"] = duration(facts.pop("uptime_s"))
    if (theirs := facts.get("version", mgpu.__version__)) != mgpu.__version__:
        facts["version"] = f"{theirs} (this command is {mgpu.__version__})"
    width = max(map(len, facts))
    return [f"{clean(key.replace('_', ' ')):{width}}  {clean(plain(value))}" for key, value in facts.items()]
