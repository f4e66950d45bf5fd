"""mgpu hold and release: keep jobs that wait from starting, and let them start again."""

from __future__ import annotations

from mgpu.cli.chosen import IDS, change_chosen
from mgpu.cli.filters import FILTERS
from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.lean.typing import Any

HOLD_EXAMPLES = """
Examples:
  mgpu hold 17 18 '20_[6-9]'
  mgpu hold --me --name sweep
"""
RELEASE_EXAMPLES = """
Examples:
  mgpu release 17 18
  mgpu release --me
"""


@command(IDS, *FILTERS, examples=HOLD_EXAMPLES)
def hold(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """Keep jobs that wait from starting: by number, or all that pass the filters. They wait until they are released;
    what an admin holds, only an admin releases."""
    return change_chosen(session, "/v1/hold", "held", ids, given)


@command(IDS, *FILTERS, examples=RELEASE_EXAMPLES)
def release(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """Let jobs start again that are held: by number, or all that pass the filters."""
    return change_chosen(session, "/v1/release", "released", ids, given)
