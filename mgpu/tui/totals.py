"""The first line: what there is in all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from mgpu.tui.cells import Cell, line_of, shown, total_width
from mgpu.tui.node_rows import state_of
from mgpu.tui.toned import COMPONENTS
from mgpu.wording.figures import count

Node = dict[str, Any]
Line = list[Cell]
GAP = Cell("   ")


def node_totals(nodes: list[Node]) -> Line:
    """`4 nodes: 3 up, 1 down`"""
    states = Counter(str(node.get("state") or "?").lower() for node in nodes)
    in_order = sorted(states.items(), key=lambda each: each[0] != "up")
    by_state = ", ".join(f"{number} {state}" for state, number in in_order)
    return [Cell(f"{count(len(nodes), 'node')}: {by_state}" if nodes else "no nodes")]


def gpu_totals(nodes: list[Node]) -> Line:
    """How many are free, have jobs, have others on them, are of no use."""
    gpus = Counter(state_of(gpu, node) for node in nodes for gpu in node.get("gpus") or ())
    total = sum(gpus.values())
    lost = total - gpus["free"] - gpus["allocated"] - gpus["external"]
    parts = [
        (gpus["free"], "free", "ok"), (gpus["allocated"], "with jobs", "ours"),
        (gpus["external"], "external", "others"), (lost, "unusable", "bad"),
    ]  # fmt: skip
    said = [Cell(f"{number} {word}", tone) for number, word, tone in parts if number or word == "free"]
    cells = [Cell(f"{count(total, 'GPU')}: ")]
    for place, cell in enumerate(said):
        cells += [Cell(", "), cell] if place else [cell]
    return cells


def job_totals(answer: dict[str, Any]) -> Line:
    states = answer.get("states") or {}
    waiting, gpus = states.get("PENDING", 0), answer.get("waiting_gpus") or 0
    return [
        Cell(f"{states.get('RUNNING', 0)} running", "ok"),
        Cell(", "),
        Cell(f"{waiting} waiting" + (f" for {count(gpus, 'GPU')}" if gpus else ""), "wait" if waiting else ""),
    ]


def arranged(parts: Mapping[str, Line], stale: str, width: int, lines: int) -> list[Line]:
    """So many lines of nodes, gpus, jobs and end. What matters most stays where there is little room: that nothing is
    up to date, then the jobs."""
    nodes, gpus, jobs, end = (parts.get(name, []) for name in ("nodes", "gpus", "jobs", "end"))
    told = [Cell(f" {stale} ", "stale")] if stale else []
    if lines >= 2:
        return [_ended(gpus, end, width), _ended(_joined(told, nodes, jobs), [], width)]
    for left, behind in (((told, nodes, gpus, jobs), end), ((told, gpus, jobs), end), ((told, gpus, jobs), [])):
        joined = _joined(*left)
        if total_width(joined) + total_width(behind) + 3 <= width:
            return [_ended(joined, behind, width)]
    return [_ended(_joined(told, jobs) or nodes, end, width)]


def _joined(*parts: Line) -> Line:
    line: Line = []
    for part in parts:
        line += [GAP, *part] if line and part else part
    return line


def _ended(parts: Line, behind: Line, width: int) -> Line:
    """`behind` stands at the end of the line, if there is room."""
    room = width - total_width(parts) - total_width(behind) - 2
    if not behind or room < 1:
        return line_of([Cell(" "), *parts], width)
    return line_of([Cell(" "), *parts, Cell(" " * room), *behind, Cell(" ")], width)


class Totals(Widget):
    """`tell` says what has changed; a line is painted anew only if that can be seen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._parts: dict[str, Line] = {}
        self._stale = ""
        self._drawn: list[Line] = []

    def tell_nodes(self, nodes: list[Node]) -> None:
        self._parts |= {"nodes": node_totals(nodes), "gpus": gpu_totals(nodes)}
        self._repaint()

    def tell_jobs(self, answer: dict[str, Any]) -> None:
        self._parts["jobs"] = job_totals(answer)
        self._repaint()

    def tell_time(self, master: str, at: float | None, stale: str) -> None:
        """`at`: when what is shown was so."""
        clock = "" if at is None else time.strftime("%H:%M:%S", time.localtime(at))
        self._parts["end"] = [Cell(f"{shown(master)}  " if master else "", "dim"), Cell(clock, "strong")]
        self._stale = stale
        self._repaint()

    def _lines(self) -> list[Line]:
        width, height = self.size
        return arranged(self._parts, self._stale, width, height)

    def _repaint(self) -> None:
        if self._lines() != self._drawn:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if y == 0:
            self._drawn = self._lines()
        style = self.rich_style
        line = self._drawn[y] if y < len(self._drawn) else []
        segments = [
            Segment(text, style + self.get_component_rich_style(f"tone--{tone}", partial=True) if tone else style)
            for text, tone in line
        ]
        return Strip(segments).adjust_cell_length(self.size.width, style)
