"""A job as a line of the queue, or of those that ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mgpu.tui.cells import Cell, fitted
from mgpu.tui.columns import GAP, Column
from mgpu.wording.figures import duration, epoch, in_local_time, roughly, short_time
from mgpu.wording.jobs import ended_state, expected_on, idle_words, place_or_reason, placed, ran_for, shown_id, why

Job = dict[str, Any]

QUEUE = (
    Column("id", "ID", 6, 9, right=True, sort="id"),
    Column("name", "NAME", 8, 20, yields=1, sort="name"),
    Column("user", "USER", 6, 10, yields=5, sort="user"),
    Column("state", "STATE", 7, 7, sort="state"),
    Column("gpus", "GPUS", 5, 5, right=True, yields=4, sort="gpus"),
    Column("time", "TIME", 8, 11, right=True, yields=3, sort="time"),
    Column("start", " START", 12, 12, yields=6, room=96),
    Column("where", "WHERE / WHY", 24, 0, yields=2, sort="node"),
)
ENDED = (
    *QUEUE[:3],
    Column("state", "STATE", 9, 9, sort="state"),
    Column("exit", "EXIT", 4, 4, right=True, yields=6),
    *QUEUE[4:6],
    Column("ended", " ENDED", 12, 12, yields=4),
    Column("where", "WHERE / WHY", 14, 0, yields=2, sort="node"),
)
STATE_TONES = {
    "RUNNING": "ok", "PENDING": "wait", "COMPLETED": "ended", "CANCELLED": "dim",
    "FAILED": "bad", "TIMEOUT": "bad", "NODE_FAIL": "bad",
}  # fmt: skip
GAP_CELL = Cell(" " * GAP)


def line(job: Job, shares: Sequence[tuple[Column, int]], now: float) -> list[Cell]:
    """One cell behind the other, with gaps."""
    apart = any(column.key == "start" for column, _ in shares)
    cells: list[Cell] = []
    for column, width in shares:
        cell = _where(job, now, apart) if column.key == "where" else CELLS[column.key](job, now)
        cells += [fitted(cell, width, column.right), GAP_CELL]
    return cells[:-1]


def with_time(line: list[Cell], job: Job, shares: Sequence[tuple[Column, int]], now: float) -> list[Cell]:
    """The line of the job as it is now: with the clock changes how long it runs, waits or is idle."""
    found = list(line)
    apart = any(column.key == "start" for column, _ in shares)
    for place, (column, width) in enumerate(shares):
        if column.key == "time":
            found[2 * place] = fitted(_time(job, now), width, column.right)
        elif column.key == "where" and job.get("idle_since"):
            found[2 * place] = fitted(_where(job, now, apart), width)
    return found


def head(shares: Sequence[tuple[Column, int]], sort: str) -> list[Cell]:
    """The column that sorts has an arrow: ↓ as it is given, ↑ turned round."""
    cells: list[Cell] = []
    for column, width in shares:
        by_it = bool(column.sort) and column.sort == sort.removeprefix("-")
        title = f"{column.title}{'↑' if sort.startswith('-') else '↓'}" if by_it else column.title
        cells += [fitted(Cell(title, "head"), width, column.right), Cell(" " * GAP, "head")]
    return cells[:-1]


def column_at(x: int, shares: Sequence[tuple[Column, int]]) -> Column | None:
    """Of a click on the head."""
    for column, width in shares:
        if x <= width:
            return column
        x -= width + GAP
    return None


def _id(job: Job, _now: float) -> Cell:
    return Cell(shown_id(job), "strong")


def _state(job: Job, _now: float) -> Cell:
    state = ended_state(job)
    lost = job.get("reason") == "ContactLost"
    return Cell(state, "bad" if lost else STATE_TONES.get(state, ""))


def _time(job: Job, now: float) -> Cell:
    """How long it runs or ran; of one that waits, roughly how long it does, in the colour of waiting."""
    if job.get("state") == "PENDING":
        since = epoch(job.get("submit_time"))
        return Cell("" if since is None else waited(now - since), "wait")
    return Cell(duration(ran_for(job, now)))


def waited(seconds: float) -> str:
    """By the minute: a long queue of which each line changed with each second would never be at rest."""
    return duration(seconds) if seconds < 60 else roughly(seconds)


def _exit(job: Job, _now: float) -> Cell:
    code = job.get("exit_code")
    return Cell("-" if code is None else str(code), "bad" if code else "dim")


def _start(job: Job, now: float) -> Cell:
    return Cell(f" {short_time(job.get('expected_start'), now)}", "dim")


def _ended(job: Job, now: float) -> Cell:
    return Cell(f" {short_time(job.get('end_time'), now)}", "dim")


def _where(job: Job, now: float, start_apart: bool) -> Cell:
    """Where it runs, or why it does not; `start_apart`: when it would start is said in a column of its own."""
    if job.get("state") == "PENDING":
        reason = in_local_time(why(job))
        start = short_time(job.get("expected_start"), now)
        place = expected_on(job.get("expected_on") or ())
        ahead = f"→ {place}" if start_apart else f"at {start}"
        return Cell(f"{ahead} ({reason})" if start and reason else reason, "dim")
    if job.get("state") != "RUNNING":
        return Cell(in_local_time(place_or_reason(job)), "dim")
    words = [placed(job)]
    if job.get("stop"):
        words.append("being ended")
    idle = idle_words(job, now)
    if idle:
        words.insert(0, idle)
    reason = why(job)
    words += [f"({in_local_time(reason)})"] if reason else []
    return Cell(" ".join(filter(None, words)), "bad" if reason else "wait" if idle else "")


CELLS: Mapping[str, Callable[[Job, float], Cell]] = {
    "id": _id,
    "name": lambda job, now: Cell(job.get("name") or ""),
    "user": lambda job, now: Cell(job.get("user") or ""),
    "state": _state,
    "gpus": lambda job, now: Cell(str(job.get("gpus", ""))),
    "time": _time,
    "start": _start,
    "exit": _exit,
    "ended": _ended,
}
