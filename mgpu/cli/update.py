"""mgpu update: change a job that waits or runs."""

from __future__ import annotations

import os

import click

from mgpu.cli.command import Command, session_of
from mgpu.cli.filters import job_number
from mgpu.cli.session import bad_request
from mgpu.cli.text import duration

EXAMPLES = """
Examples:
  mgpu update 17 --time 2-0     two days in all, counted from its start
  mgpu update 17 --time none    no limit
"""


@click.command("update", cls=Command, epilog=EXAMPLES)
@click.argument("job_id", metavar="ID")
@click.option("-t", "--time", metavar="LIMIT", help="New time limit, counted from the job's start; `none` removes it.")
@click.pass_context
def update(context: click.Context, /, job_id: str, time: str | None) -> None:
    """Change the time limit of a job, waiting or running."""
    if not time:
        raise bad_request("what should change?", "give --time LIMIT; none removes it")
    session = session_of(context)
    body = {"request_id": os.urandom(16).hex(), "time": time}
    answer = session.call("POST", f"/v1/jobs/{job_number(job_id)}/update", body)
    if session.json:
        session.print_json(answer)
        return
    limit = answer["time_limit_s"]
    print(f"Updated job {answer['job_id']}: {'no time limit' if limit is None else 'time limit ' + duration(limit)}")
