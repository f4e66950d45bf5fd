"""mgpu attach: with a job in the foreground again, as srun is."""

from __future__ import annotations

from mgpu.cli.filters import job_number
from mgpu.cli.foreground import stay
from mgpu.cli.logs import RANK, TAIL
from mgpu.cli.options import LABEL, QUIET, STATUS_FILE
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.lean_typing import Any

EXAMPLES = """
Examples:
  mgpu attach 17                what it writes from now on, until it ends
  mgpu attach --tail 50 17      and the last 50 lines before that
  mgpu attach --from-start 17   all that it wrote
  mgpu attach 20_4              a task of an array
  mgpu attach --status-file end.json 17

Exit status and ^C as in srun: the job's own exit status, 75 when the job is no longer
followed; a second ^C within a second ends the job, as SIGTERM does; it runs on
when this command is hung up or killed.
"""


@command(
    Argument("job_id", "ID"),
    Option("--from-start", "", "All of its output, from the first byte of this attempt."),
    TAIL,
    RANK,
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
    beginning = {} if from_start else {"tail": tail or 0}
    rank, _ = given.pop("rank"), given.pop("status_file")
    return stay(session, job_number(job_id), given, rank, beginning, joins=True)
