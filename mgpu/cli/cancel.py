"""mgpu cancel: end jobs."""

from __future__ import annotations

from mgpu.cli.chosen import IDS, change_chosen
from mgpu.cli.filters import FILTERS
from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.lean_typing import Any

EXAMPLES = """
Examples:
  mgpu cancel 17 18
  mgpu cancel 20_4 '20_[6-9]'     tasks of the array 20; 20 alone is all of it
  mgpu cancel --me --state PENDING
"""


@command(IDS, *FILTERS, examples=EXAMPLES)
def cancel(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """End jobs, waiting or running: by number, or all that pass the filters. Processes get SIGTERM, later SIGKILL."""
    return change_chosen(session, "/v1/cancel", "cancelled", ids, given)
