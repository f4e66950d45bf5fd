"""mgpu update: change a job that waits or runs."""

from __future__ import annotations

import os

from mgpu.cli.filters import job_path
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import duration

EXAMPLES = """
Examples:
  mgpu update 17 --time 2-0     two days in all, counted from its start
  mgpu update 17 --time none    no limit
"""


@command(
    Argument("job_id", "ID"),
    Option("-t --time", "LIMIT", "New time limit, counted from the job's start; `none` removes it."),
    examples=EXAMPLES,
)
def update(session: Session, /, job_id: str, time: str | None) -> None:
    """Change the time limit of a job, waiting or running."""
    if not time:
        raise bad_request("what should change?", "give --time LIMIT; none removes it")
    body = {"request_id": os.urandom(16).hex(), "time": time}
    answer = session.call("POST", f"{job_path(job_id)}/update", body)
    if session.json:
        session.print_json(answer)
        return
    limit = answer["time_limit_s"]
    print(f"Updated job {answer['job_id']}: {'no time limit' if limit is None else 'time limit ' + duration(limit)}")
