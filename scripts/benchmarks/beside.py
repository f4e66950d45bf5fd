"""The goals, each in a row, with what others need for the same thing in the same run beside it."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.measure import OURS, Row


def table(rows: Sequence[Row]) -> list[str]:
    """Lines; [] where nothing has a goal."""
    goals = [row for row in rows if row.goal is not None]
    if not goals:
        return []
    others = list(dict.fromkeys(row.who for row in rows if row.topic and row.who != OURS))
    head = ["what", OURS, "goal", *others]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in goals:
        found = {one.who: one.shown for one in rows if row.topic and one.topic == row.topic}
        lines.append(_line([row.what, row.shown, row.verdict, *(found.get(who, "") for who in others)]))
    met = sum("met" in row.verdict for row in goals)
    return ["", *lines, "", f"{met} of {len(goals)} goals are met."]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
