"""mgpu requeue: run jobs once more, under the number that they have."""

from __future__ import annotations

from mgpu.cli.chosen import IDS, change_chosen
from mgpu.cli.filters import FILTERS
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Option, command
from mgpu.lean.typing import Any

EXAMPLES = """
Examples:
  mgpu requeue 17                       once more, whether it ended or runs
  mgpu requeue --state FAILED,TIMEOUT   all of your own that ended so
  mgpu requeue 17 --hold                and let it wait for mgpu release
"""


@command(IDS, *FILTERS, Option("-H --hold", "", "They wait then until `mgpu release`."), examples=EXAMPLES)
def requeue(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """Queue jobs again that ended, or that run (these are ended first): by number, or all in the given states that pass
    the filters. Each keeps its number and begins anew as its next attempt."""
    if not ids and not given.get("states"):
        raise bad_request("which jobs?", "give numbers, or --state, as in --state FAILED")
    return change_chosen(session, "/v1/requeue", "requeued", ids, given)
