"""mgpu why: what a job waits for."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.filters import job_path
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, command
from mgpu.cli.text import table, terminal_columns
from mgpu.wording.details import until_words
from mgpu.wording.figures import in_local_time, local_time
from mgpu.wording.jobs import idle_words, prospects
from mgpu.wording.jobs import why as reason_of
from mgpu.wording.letters import clean

EXAMPLES = """
Example:
  mgpu why 17
"""
LEAST_REASON = 24  # columns
MOST_HOLDERS = 10


@command(Argument("job_id", "ID"), examples=EXAMPLES)
def why(session: Session, /, job_id: str) -> None:
    """Tell why a job waits.

    The reason; what each node has against it; who holds what it could use, and until when; when and where it is
    expected to start; and what would let it start now.
    """
    answer = session.call("GET", f"{job_path(job_id)}/why")
    if session.json:
        session.print_json(answer)
        return
    because = clean(reason_of(answer))
    lines = [f"job {answer['job_id']} {clean(answer['state'])}" + (f": {because}" if because else "")]
    if idle := idle_words(answer, clock.now()):
        lines.append(f"  {idle}: its GPUs do nothing since {local_time(answer['idle_since'])}")
    rows = [(clean(each["node"]), in_local_time(clean(each["reason"]))) for each in answer.get("nodes") or ()]
    if rows:
        lines += table(("NODE", "REASON"), wrapped(rows), shrink=((0, 12),), indent="  ")
    holders = answer.get("holders") or ()
    if holders:
        shown = [(str(one["job_id"]), clean(one["user"]), until_words(one)) for one in holders[:MOST_HOLDERS]]
        lines += table(("JOB", "USER", "ENDS"), shown, right=(0,), indent="  ")
        if len(holders) > MOST_HOLDERS:
            lines.append(f"  and {len(holders) - MOST_HOLDERS} more")
    session.print_lines([*lines, *prospects(answer)])


def wrapped(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """A long reason goes on in the rows below: it is what was asked for, so nothing of it is cut."""
    from textwrap import wrap

    room = terminal_columns()
    width = max(LEAST_REASON, room - 2 - max(len(name) for name, _ in rows) - 2)
    if not room:
        return rows
    return [
        (name if number == 0 else "", piece)
        for name, reason in rows
        for number, piece in enumerate(wrap(reason, width) or [""])
    ]
