"""Lines of cells, and facts laid out to the width that there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.strip import Strip

from mgpu.tui.cells import Cell, line_of
from mgpu.tui.facts import Fact, laid_out
from mgpu.tui.lines import Lines


class CellLines(Lines):
    """Whatever lines it is given."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id)
        self.set_classes(classes or "")
        self._cells: list[list[Cell]] = []

    def put(self, lines: Sequence[list[Cell]]) -> None:
        self._cells = list(lines)
        self.recount()
        if self.top > self.bottom:
            self.put_top(self.bottom)
        self.repaint()

    def line_count(self) -> int:
        return len(self._cells)

    def strip_of(self, line: int) -> Strip:
        return Strip([Segment(text, self.tone(tone)) for text, tone in line_of(self._cells[line], self.wide)])


class FactLines(CellLines):
    """`plain`: whether there are to be letters alone that every terminal has."""

    def __init__(self, plain: Callable[[], bool], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = plain
        self._facts: Sequence[Fact] = ()

    def tell(self, facts: Sequence[Fact]) -> None:
        self._facts = facts
        self.put(laid_out(facts, self.wide, self._plain()))

    def resized(self) -> None:
        self._cells = laid_out(self._facts, self.wide, self._plain())
