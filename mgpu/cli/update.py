"""mgpu update: change a job that waits or runs."""

from __future__ import annotations

import os

from mgpu.cli.filters import job_path
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client.zone import own_zone
from mgpu.lean.typing import Any
from mgpu.wording.letters import clean

EXAMPLES = """
Examples:
  mgpu update 17 --time 2-0              two days in all, counted from its start
  mgpu update 17 --time none             no limit
  mgpu update 17 --nice 100              let the other jobs go first
  mgpu update 17 -p long -w gpu[01-02]   elsewhere, while it waits
"""


@command(
    Argument("job_id", "ID"),
    Option("-t --time", "LIMIT", "New time limit, counted from the job's start; `none` removes it."),
    Option("-p --partition", "NAME", "Partition to run in."),
    Option("-w --nodelist", "NODES", "Run on all these nodes; `none`: wherever there is room."),
    Option("-x --exclude", "NODES", "Never on these nodes; `none`: on any."),
    Option("--nice", "N", "Let others go first: so much lower a priority."),
    Option("--priority", "N", "Higher runs earlier; raising it is for admins."),
    Option("-b --begin", "TIME", "Not before TIME; `now`: as soon as there is room."),
    Option("-d --dependency", "LIST", "Wait for these jobs; `none`: for none."),
    Option("-J --job-name", "NAME", "Name of the job."),
    examples=EXAMPLES,
)
def update(session: Session, /, job_id: str, **given: Any) -> None:
    """Change a job that waits, or the time limit of one that runs: all that is given, or nothing."""
    wanted = {key: value for key, value in given.items() if value is not None}
    if not wanted:
        raise bad_request("what should change?", "give --time LIMIT, none removes it; or see mgpu update --help")
    body = {"request_id": os.urandom(16).hex(), **wanted}
    if "begin" in wanted:
        body["zone"] = own_zone()
    answer = session.call("POST", f"{job_path(job_id)}/update", body)
    if session.json:
        session.print_json(answer)
        return
    session.print_lines([f"Updated job {answer['job_id']}: {clean(change)}" for change in answer["changes"]])
