"""mgpu signal: a signal for the processes of jobs."""

from __future__ import annotations

from mgpu.cli.chosen import change_chosen
from mgpu.cli.filters import FILTERS
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.lean.typing import Any

EXAMPLES = """
Examples:
  mgpu signal 17 USR1             to write a checkpoint; or SIGUSR1, or 10
  mgpu signal 17 18 '20_[1-5]' TERM
  mgpu signal --me --name sweep STOP
  mgpu signal -b 17 USR1          for `trap ... USR1` in the script of 17

It goes to every process of the job, but not to the shell of a batch script
while that runs something else. Exit status 1 for a job that did not get it: it
waits, has ended, or its node does not answer.
"""
BATCH = Option("-b --batch", "", "To the first process alone: of a script, the shell that runs it.")
FULL = Option("-f --full", "", "To that shell and all the others.")


@command(Argument("targets", "[ID]... SIGNAL", nargs="*"), BATCH, FULL, *FILTERS, examples=EXAMPLES)
def signal(session: Session, /, targets: tuple[str, ...], **given: Any) -> int:
    """Send a signal to jobs that run: by number, or all that pass the filters."""
    *ids, name = targets or ("",)
    if not name or (not ids and name.isdigit() and not any(given.values())):
        raise bad_request("which signal?", "name it behind the jobs: mgpu signal 17 USR1")
    return send_signal(session, name, tuple(ids), given)


def send_signal(session: Session, name: str, ids: tuple[str, ...], given: dict[str, Any]) -> int:
    """The exit status."""
    return change_chosen(session, "/v1/signal", "signalled", ids, given, {"signal": name})
