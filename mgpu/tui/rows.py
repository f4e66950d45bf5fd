"""Rows on the screen: a cursor that follows its row, a scroll position that stays, and only what changed painted anew.

Textual's own table is filled row by row and slow to take rows out of. Here the rows stay as they came; the lines that
are visible are made when they are painted, and compared with what is on the screen when something may have changed.
The rows may be a window on many more, which are asked for when they come into view.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from mgpu.tui.cells import Cell, fit, width_of
from mgpu.tui.keys import bindings
from mgpu.tui.themes import PLAIN
from mgpu.tui.toned import Toned

CURSOR = "rows--cursor"
MARK, PLAIN_MARK = "▌", ">"  # before the line with the cursor: also without colours it can be seen


class View(NamedTuple):
    """What is the same for all lines, and costs Textual more than a line. `above`: lines above the rows; `top`: lines
    of rows that are out of sight."""

    width: int
    above: int
    top: int
    focused: bool
    mark: str


class Rows(Toned, can_focus=True):
    """`put` gives it rows. A subclass says what identifies one (`key_of`) and how it looks (`cells_of`, `head`); rows
    of more than a line are for `line_of`, `place_of` and `line_count` to count."""

    HAS_HEAD: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}
    BINDINGS: ClassVar[list[BindingType]] = bindings("rows")

    class Told(Message):
        """`rows` is where it happened."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows:
            return self.rows

    class Picked(Told):
        """Somebody wants to know more of the row with the cursor."""

    class Moved(Told):
        """The cursor is on another row than before."""

    class Wanted(Told):
        """Rows are in view that are not here."""

    class HeadClicked(Told):
        def __init__(self, rows: Rows, x: int) -> None:
            super().__init__(rows)
            self.x = x

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: Sequence[Any] = ()
        self._offset = 0  # of the first of them, among all
        self._total = 0
        self._cursor = 0
        self._key: Hashable = None  # of the row with the cursor; None = it is not here
        self._drawn: dict[int, tuple[bool, tuple[Cell, ...]]] = {}  # by line of the screen; whether with the cursor
        self._ahead: dict[int, tuple[bool, tuple[Cell, ...]]] = {}  # made to be compared, drawn next
        self._view_ahead: View | None = None  # as it was then

    # --- what a subclass says ---

    def key_of(self, item: Any) -> Hashable:
        raise NotImplementedError

    def cells_of(self, item: Any, line: int, width: int) -> list[Cell]:
        """The line of the row, exactly `width` wide."""
        raise NotImplementedError

    def head(self, width: int) -> list[Cell]:
        """The line above all rows, where a subclass HAS_HEAD."""
        return []

    def nothing(self) -> str:
        """What is said where there are no rows."""
        return ""

    def line_count(self) -> int:
        return self._total

    def line_of(self, index: int) -> int:
        """The first line of a row."""
        return index

    def place_of(self, line: int) -> tuple[int, int]:
        """The row that has that line, and which of its lines that is."""
        return line, 0

    # --- rows ---

    def put(self, items: Sequence[Any], offset: int = 0, total: int | None = None) -> None:
        """These are there now; the first of them is the row `offset` of `total`."""
        before = self.line_of(self._cursor) - self._top
        self._items, self._offset = items, offset
        self._total = len(items) if total is None else total
        found = self._find(self._key)
        was = self._key
        if found is not None:
            self._cursor = found
        self._cursor = max(0, min(self._cursor, self._total - 1))
        item = self.current
        self._key = None if item is None else self.key_of(item)
        self.recount()
        self._keep_in_place(before)
        self.repaint()
        if self._key != was:
            self.post_message(self.Moved(self))

    def recount(self) -> None:
        """The number of lines may be another one now."""
        self.virtual_size = Size(self.room, self.line_count() + self._head_lines)

    def _find(self, key: Hashable) -> int | None:
        if key is None:
            return None
        near = self._cursor - self._offset  # where it was, most often
        if 0 <= near < len(self._items) and self.key_of(self._items[near]) == key:
            return self._cursor
        places = (place for place, item in enumerate(self._items) if self.key_of(item) == key)
        place = next(places, None)
        return None if place is None else self._offset + place

    def _keep_in_place(self, before: int) -> None:
        """The cursor stays on the line of the screen where it was seen; who is at the top stays there."""
        if not 0 <= before < self.page:
            return
        now = self.line_of(self._cursor) - self._top
        if now != before and (self._top or now >= self.page):
            self.scroll_to(y=self._top + now - before, animate=False, force=True)

    def at(self, index: int) -> Any:
        """The row, None = it is not here."""
        place = index - self._offset
        return self._items[place] if 0 <= place < len(self._items) else None

    @property
    def current(self) -> Any:
        """The row with the cursor, None = there is none, or it is not here yet."""
        return self.at(self._cursor)

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def total(self) -> int:
        return self._total

    # --- where one is ---

    @property
    def _head_lines(self) -> int:
        return 1 if self.HAS_HEAD and self.size.height > 1 else 0

    @property
    def room(self) -> int:
        """Columns for rows, beside the scroll bar."""
        return self.scrollable_content_region.width

    @property
    def plain(self) -> bool:
        """Whether there are neither colours nor letters that old terminals lack."""
        return self.app.theme == PLAIN

    @property
    def page(self) -> int:
        """Lines that are visible."""
        return max(self.size.height - self._head_lines, 1)

    @property
    def _top(self) -> int:
        return round(self.scroll_offset.y)

    def in_view(self) -> tuple[int, int]:
        """The first row that is visible, and the one behind the last."""
        if not self._total:
            return 0, 0
        last = min(self._top + self.page, self.line_count()) - 1
        return self.place_of(self._top)[0], self.place_of(max(last, 0))[0] + 1

    def move_to(self, index: int) -> None:
        """The cursor, as far as there are rows."""
        index = max(0, min(index, self._total - 1))
        item = self.at(index)
        key = None if item is None else self.key_of(item)
        moved = index != self._cursor or key != self._key
        self._cursor, self._key = index, key
        self._show_cursor()
        self.repaint()
        if moved:
            self.post_message(self.Moved(self))

    def forget(self) -> None:
        """Other rows come next: they are looked at from the first one on."""
        self._cursor, self._key = 0, None
        self.scroll_to(y=0, animate=False, force=True)
        self.repaint()

    def _show_cursor(self) -> None:
        first = self.line_of(self._cursor)
        behind = self.line_of(self._cursor + 1) if self._cursor + 1 < self._total else self.line_count()
        top = self._top
        if first < top or behind - first >= self.page:
            top = first
        elif behind > top + self.page:
            top = behind - self.page
        if top != self._top:
            self.scroll_to(y=top, animate=False, force=True)

    def action_move(self, step: str) -> None:
        """One of down, up, page_down, page_up, first, last."""
        here, line = self._cursor, self.line_of(self._cursor)
        last = max(self.line_count() - 1, 0)
        targets = {
            "down": here + 1,
            "up": here - 1,
            "page_down": max(self.place_of(min(line + self.page, last))[0], here + 1),
            "page_up": min(self.place_of(max(line - self.page, 0))[0], here - 1),
            "first": 0,
            "last": self._total - 1,
        }
        if self._total:
            self.move_to(targets[step])

    def action_pick(self) -> None:
        if self.current is not None:
            self.post_message(self.Picked(self))

    def on_click(self, event: events.Click) -> None:
        y = event.y - self._head_lines
        if y < 0:
            self.post_message(self.HeadClicked(self, event.x))
        elif self._top + y < self.line_count():
            self.move_to(self.place_of(self._top + y)[0])
            if event.chain == 2:
                self.action_pick()

    # --- painting ---

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask_for_rows()

    def on_resize(self) -> None:
        self._drawn.clear()
        self.recount()
        if self._total:
            self._show_cursor()
        self.refresh()
        self._ask_for_rows()

    def notify_style_update(self) -> None:
        self._ahead.clear()
        super().notify_style_update()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def _ask_for_rows(self) -> None:
        first, behind = self.in_view()
        if first < self._offset or behind > self._offset + len(self._items):
            self.post_message(self.Wanted(self))

    def repaint(self) -> None:
        """What is on the screen and would look otherwise now."""
        height = self.size.height
        self._view_ahead = view = self._view()
        self._ahead.clear()
        changed: list[Region] = []
        for y, drawn in sorted(self._drawn.items()):
            if y >= height:
                del self._drawn[y]
                continue
            now = self._line(y, view)
            if now == drawn:
                continue
            self._ahead[y] = now
            begin, end = (0, view.width) if now[0] != drawn[0] else _difference(drawn[1], now[1], view.width)
            last = changed[-1] if changed else None
            if last is not None and (last.x, last.right, last.bottom) == (begin, end, y):
                changed[-1] = last.grow((0, 0, 1, 0))
            else:
                changed.append(Region(begin, y, max(end - begin, 1), 1))
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        view = self._view()
        line = self._ahead.pop(y, None) if view == self._view_ahead else None
        self._drawn[y] = under, cells = line or self._line(y, view)
        cursor = CURSOR if under else ""
        segments = [Segment(text, self.tone(tone, cursor)) for text, tone in cells]
        return Strip(segments).adjust_cell_length(self.size.width, self.tone("", cursor))

    def _view(self) -> View:
        mark = PLAIN_MARK if self.plain else MARK
        return View(self.room, self._head_lines, self._top, self.has_focus, mark)

    def _line(self, y: int, view: View) -> tuple[bool, tuple[Cell, ...]]:
        """Whether it is to be marked as the one with the cursor, and what stands in it."""
        width = view.width
        if y < view.above:
            return False, tuple(self.head(width))
        y -= view.above
        line = view.top + y
        if line >= self.line_count():
            empty = self.nothing() if not self._total and y == 0 else ""
            return False, (Cell(fit(f" {empty}", width), "dim"),)
        index, part = self.place_of(line)
        item = self.at(index)
        under = index == self._cursor and not part
        mark = Cell(view.mark if under else " ", "mark" if view.focused else "dim")
        room = max(width - 1, 0)
        cells = [Cell(fit("…", room), "dim")] if item is None else self.cells_of(item, part, room)
        return under and view.focused, (mark, *cells)


def _difference(before: Sequence[Cell], now: Sequence[Cell], width: int) -> tuple[int, int]:
    """From where to where two lines of that width differ, in columns of the terminal."""
    begin = 0
    first = 0
    while first < min(len(before), len(now)) and before[first] == now[first]:
        begin += width_of(now[first].text)
        first += 1
    end, last = width, 1
    while last <= min(len(before), len(now)) - first and before[-last] == now[-last]:
        end -= width_of(now[-last].text)
        last += 1
    return begin, end
