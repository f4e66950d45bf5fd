"""mgpu audit: who did what."""

from __future__ import annotations

from mgpu.cli.filters import job_number
from mgpu.cli.session import Session
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import table
from mgpu.client.http import with_query
from mgpu.client.option import FROM_1
from mgpu.client.zone import own_zone
from mgpu.lean.typing import Any
from mgpu.wording.figures import local_time
from mgpu.wording.letters import clean

EXAMPLES = """
Examples:
  mgpu audit --since 2h
  mgpu audit --job 17
  mgpu audit --user ann --since 2026-12-01 --json
  mgpu audit --refused            what was asked for and not allowed
"""


@command(
    Option("-u --user", "NAME", "What this user did or asked for."),
    Option("--job", "ID", "About this job."),
    Option("-w --node", "NAME", "About this node."),
    Option("--since", "TIME", "From then on: 2h, 7days, 08:00, yesterday, 2026-12-01, 2026-12-01T08:00."),
    Option("--refused", "", "What was not allowed, alone."),
    Option("-n --limit", "N", "At most so many, the newest (100).", whole=FROM_1),
    examples=EXAMPLES,
)
def audit(
    session: Session,
    /,
    user: str | None,
    job: str | None,
    node: str | None,
    since: str | None,
    refused: bool,
    limit: int | None,
) -> None:
    """Show who did what, from where, and what the master did by itself ("master"). Rows are only ever added. Who is no
    admin sees what they did, and what was done to jobs of theirs."""
    wanted: dict[str, Any] = {"user": user, "node": node, "since": since, "limit": limit}
    if job is not None:
        wanted["job"] = job_number(job)
    if since:
        wanted["zone"] = own_zone()
    answer = session.call("GET", with_query("/v1/audit", refused="1" if refused else "", **wanted))
    if session.json:
        session.print_json(answer)
        return
    headers = ("TIME", "USER", "FROM", "ACTION", "JOB", "NODE", "RESULT", "DETAIL")
    session.print_lines(table(headers, [_row(entry) for entry in answer["audit"]], right=(4,), shrink=((7, 12),)))


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    told = ("user", "origin", "action", "job_id", "node", "result", "detail")
    return (local_time(entry["time"]), *(clean(entry[name]) for name in told))
