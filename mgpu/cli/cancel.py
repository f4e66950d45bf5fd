"""mgpu cancel: end jobs."""

from __future__ import annotations

from mgpu.cli.chosen import IDS, change_chosen
from mgpu.cli.filters import FILTERS
from mgpu.cli.session import Session, bad_request
from mgpu.cli.signal import BATCH, FULL, send_signal
from mgpu.cli.syntax import Option, command
from mgpu.lean.typing import Any

EXAMPLES = """
Examples:
  mgpu cancel 17 18
  mgpu cancel 20_4 '20_[6-9]'     tasks of the array 20; 20 alone is all of it
  mgpu cancel --me --state PENDING
  mgpu cancel -s USR1 17          a signal, as mgpu signal 17 USR1
"""


@command(
    IDS,
    Option("-s --signal", "SIGNAL", "Send this signal, and do not end them otherwise."),
    BATCH,
    FULL,
    *FILTERS,
    examples=EXAMPLES,
)
def cancel(session: Session, /, ids: tuple[str, ...], signal: str | None, **given: Any) -> int:
    """End jobs, waiting or running: by number, or all that pass the filters. Processes get SIGTERM, later SIGKILL."""
    if signal is not None:
        return send_signal(session, signal, ids, given)
    if given.pop("batch") | given.pop("full"):
        raise bad_request("-b and -f say who gets a signal", "name one with -s, or leave them out")
    return change_chosen(session, "/v1/cancel", "cancelled", ids, given)
