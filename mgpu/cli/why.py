"""mgpu why: what a job waits for."""

from __future__ import annotations

from mgpu.cli.filters import job_number
from mgpu.cli.outcome import why as reason_of
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, command
from mgpu.cli.text import clean, table

EXAMPLES = """
Example:
  mgpu why 17
"""


@command(Argument("job_id", "ID"), examples=EXAMPLES)
def why(session: Session, /, job_id: str) -> None:
    """Tell why a job waits: the reason, and what each node has against it."""
    answer = session.call("GET", f"/v1/jobs/{job_number(job_id)}/why")
    if session.json:
        session.print_json(answer)
        return
    because = clean(reason_of(answer))
    lines = [f"job {answer['job_id']} {clean(answer['state'])}" + (f": {because}" if because else "")]
    rows = [(each["node"], each["reason"]) for each in answer.get("nodes") or ()]
    if rows:
        lines += table(("NODE", "REASON"), rows, shrink=((1, 20),), indent="  ")
    session.print_lines(lines)
