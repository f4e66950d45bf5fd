"""mgpu wait, and submit -W: until jobs have ended. Nothing of their output is sent, so many may be waited for."""

from __future__ import annotations

import time

from mgpu.cli.filters import job_number
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.options import STATUS_FILE
from mgpu.client.waiting import Waiting
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.jobs import ending, exit_status, where, why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

EXAMPLES = """
Examples:
  mgpu wait 17 18          until both have ended
  mgpu wait --any 17 18    until one has: the line says which
  mgpu wait 20             until the last task of an array has
  mgpu wait --status-file end.json 17

Exit status: the job's own, of several the highest; with --any that of the one
that ended. As srun's: 124 time limit, 143 cancelled, 70 node failure. 130: ^C,
the jobs go on.
"""


@command(
    Argument("ids", "ID...", nargs="*"),
    Option("--any", "", "Until one of them has ended."),
    Option("-Q --quiet", "", "Say nothing of those that ended well."),
    STATUS_FILE,
    examples=EXAMPLES,
)
def wait(session: Session, /, ids: tuple[str, ...], any: bool, quiet: bool, status_file: str | None) -> int:
    """Wait until jobs have ended, whose ever they are; a line for each."""
    if not ids:
        raise bad_request("which jobs?", "give numbers")
    wanted = list(dict.fromkeys(map(job_number, ids)))
    session.master().reach()
    ended: list[dict[str, Any]] = []
    try:
        for job in each_as_it_ends(session, wanted):
            ended.append(job)
            tell_end(session, job, quiet)
            if any:
                break
    except KeyboardInterrupt:
        say("no longer waited for: the jobs go on")
        session.leave_untold(130, "interrupted", "no longer waited for: the jobs go on")
        return 130
    ended.sort(key=lambda job: wanted.index(job["job_id"]) if job["job_id"] in wanted else len(wanted))
    if session.json:
        session.print_json({"jobs": ended})
    worst = max(ended, key=lambda job: exit_status(job, None))  # the first of these
    status = exit_status(worst, None)
    if session.status_file is not None:
        session.status_file.tell(worst, status, jobs=ended)
    return status


def tell_end(session: Session, job: dict[str, Any], quiet: bool) -> None:
    if not session.json and not (quiet and job["state"] == "COMPLETED"):
        session.print_lines([ending(job)])


def until_submitted_is_over(session: Session, job_id: int, quiet: bool) -> int:
    """The exit status of the job, or array; what becomes of it is told meanwhile, as srun does."""
    told = Told(quiet)
    if session.status_file is not None:
        session.status_file.begun({"job_id": job_id, "state": "PENDING"})
    try:
        job = next(each_as_it_ends(session, [job_id], told.look))
    except KeyboardInterrupt:
        said = f"no longer waited for: job {job_id} goes on"
        say(f"{said}; wait again with: mgpu wait {job_id}")
        session.leave_untold(130, "interrupted", said)
        return 130
    status = exit_status(job, None)
    if session.status_file is not None:
        session.status_file.tell(job, status)
    if status or not quiet:
        say(ending(job))
    return status


class Told:
    """What was said of a job: each reason to wait once, and each place."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._last: tuple[Any, ...] = ()

    def look(self, job: dict[str, Any]) -> None:
        waits = job["state"] == "PENDING"
        now = ("waits", job.get("reason")) if waits else ("runs", job.get("attempt"))
        lines = [f"job {job['job_id']} waits: {why(job)}"] if waits else where(job)
        if self._quiet or now == self._last or not (job.get("reason") if waits else begun(job)):
            return
        self._last = now
        for line in lines:
            say(line)


def begun(job: dict[str, Any]) -> bool:
    parts = job.get("allocation") or []
    return bool(parts) and all(part.get("start_time") for part in parts)


def each_as_it_ends(
    session: Session, ids: Iterable[int | str], told: Callable[[dict[str, Any]], None] = lambda job: None
) -> Iterator[dict[str, Any]]:
    """A master that is away for a while is waited for too."""
    waiting = Waiting(session.call, ids)
    while waiting.left:
        yield from waiting.look(told)
        if waiting.left:
            time.sleep(waiting.pause_s())
