"""mgpu attach: with a job in the foreground again, as srun is."""

from __future__ import annotations

from mgpu.cli.filters import job_number
from mgpu.cli.foreground import Part, stay
from mgpu.cli.given import NOTHING, joined, terminal_here
from mgpu.cli.logs import RANK, TAIL
from mgpu.cli.session import Session, bad_request
from mgpu.cli.signals import Signals
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client.options import LABEL, QUIET, STATUS_FILE
from mgpu.lean.typing import Any

SHOWN_LINES = 10  # of a terminal, so that one sees where one is
INPUT = Option("-i --input", "FILE", "For a job that reads a pipe: give it this file, then its end; `all`: our stdin.")

EXAMPLES = """
Examples:
  mgpu attach 17                what it writes from now on, until it ends
  mgpu attach --tail 50 17      and the last 50 lines before that
  mgpu attach --from-start 17   all that it wrote
  mgpu attach 20_4              a task of an array
  mgpu attach --status-file end.json 17

Exit status and ^C as in srun: the job's own exit status, 75 when the job is no
longer followed; a second ^C within a second ends the job, as SIGTERM does; it
runs on when this command is hung up or killed.

A job that was begun with --pty is given the keys of this terminal again: ~. at
the beginning of a line leaves it, ~? tells more.
"""


@command(
    Argument("job_id", "ID"),
    Option("--from-start", "", "All of its output, from the first byte of this attempt."),
    TAIL,
    RANK,
    INPUT,
    LABEL,
    QUIET,
    STATUS_FILE,
    has_json=False,
    examples=EXAMPLES,
)
def attach(session: Session, /, job_id: str, from_start: bool, tail: int | None, **given: Any) -> int:
    """Stay with a job in the foreground, as the srun that began it: its output from now on, its end, its exit status.

    Of a job that waits, all of its output will come. Of one that has ended, how.
    """
    if from_start and tail is not None:
        raise bad_request("--from-start shows all, --tail the end", "leave out one of them")
    rank, source, _ = given.pop("rank"), given.pop("input"), given.pop("status_file")
    number = job_number(job_id)
    may_read = source is not None or terminal_here()
    read = joined(session.call("GET", f"/v1/jobs/{number}"), source) if may_read else NOTHING
    beginning = {} if from_start else {"tail": SHOWN_LINES if read.typed and tail is None else tail or 0}
    session.master().reach()
    with Signals() as signals:
        return stay(session, signals, number, given, Part(rank, beginning), True, read)
