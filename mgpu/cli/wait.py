"""mgpu wait, and submit -W: until jobs have ended. Nothing of their output is sent, so many may be waited for."""

from __future__ import annotations

import time
from contextlib import suppress

from mgpu.cli.filters import job_path
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.http import NoMaster
from mgpu.client.options import STATUS_FILE
from mgpu.lean_typing import Any
from mgpu.wording.jobs import ACTIVE, ending, exit_status, where, why

LOOK_AGAIN_S = (0.1, 2.0)  # at first, and at last
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
    paths = dict.fromkeys(map(job_path, ids))
    session.master().reach()
    ended: list[dict[str, Any]] = []
    try:
        if any:
            ended.append(first_over(session, list(paths)))
        else:
            for path in paths if len(paths) > 1 else ():
                session.call("GET", path)  # one that is not there is told now, and not when all others have ended
            for path in paths:
                ended.append(until_over(session, path))
                tell_end(session, ended[-1], quiet)
    except KeyboardInterrupt:
        say("no longer waited for: the jobs go on")
        session.leave_untold(130, "interrupted", "no longer waited for: the jobs go on")
        return 130
    if any:
        tell_end(session, ended[0], quiet)
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
        job = until_over(session, job_path(str(job_id)), told)
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


def until_over(session: Session, path: str, told: Told | None = None) -> dict[str, Any]:
    """The job as it ended. A master that is away for a while is waited for too."""
    pause = LOOK_AGAIN_S[0]
    while True:
        with suppress(NoMaster):
            job: dict[str, Any] = session.call("GET", path)
            if job["state"] not in ACTIVE:
                return job
            if told is not None:
                told.look(job)
        time.sleep(pause)
        pause = min(1.5 * pause, LOOK_AGAIN_S[1])


def first_over(session: Session, paths: list[str]) -> dict[str, Any]:
    pause = LOOK_AGAIN_S[0]
    while True:
        with suppress(NoMaster):
            for path in paths:
                job: dict[str, Any] = session.call("GET", path)
                if job["state"] not in ACTIVE:
                    return job
        time.sleep(pause)
        pause = min(1.5 * pause, LOOK_AGAIN_S[1])
