"""Lines to read and scroll through, of which only those are painted anew that look otherwise than on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.strip import Strip

from mgpu.tui.keys import bindings
from mgpu.tui.toned import Toned


class Lines(Toned, can_focus=True):
    """A subclass says how many lines there are and how each looks. Keys are `keys.KEYS` of "lines"."""

    DEFAULT_CSS = """
    Lines { background: $background; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("lines")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._on_screen: dict[int, Strip] = {}  # by line of the screen
        self._by_itself = False  # it is us who scroll, and not who reads

    # --- what a subclass says ---

    def line_count(self) -> int:
        raise NotImplementedError

    def strip_of(self, line: int) -> Strip:
        """As wide as it is; what is too much is cut off."""
        raise NotImplementedError

    def width_needed(self) -> int:
        """For all of it to be seen without scrolling to the side."""
        return self.wide

    def scrolled(self) -> None:
        """Whoever reads it is at another line now."""

    # --- scrolling ---

    @property
    def wide(self) -> int:
        """Columns beside the scroll bar, whether that is there or not."""
        return self.scrollable_size.width

    @property
    def top(self) -> int:
        return round(self.scroll_offset.y)

    @property
    def page(self) -> int:
        return max(self.size.height, 1)

    @property
    def bottom(self) -> int:
        """The top where nothing is below."""
        return max(self.line_count() - self.size.height, 0)

    def action_scroll(self, step: str) -> None:
        """One of down, up, page_down, page_up, first, last, left, right."""
        top, across = self.top, round(self.scroll_offset.x)
        page = max(self.page - 1, 1)
        lines = {"down": top + 1, "up": top - 1, "page_down": top + page, "page_up": top - page, "first": 0}
        columns = {"left": across - self.wide // 2, "right": across + self.wide // 2}
        if step in columns:
            self.scroll_to(x=max(columns[step], 0), animate=False, force=True)
        else:
            self.scroll_to(y=max(0, min(lines.get(step, self.bottom), self.bottom)), animate=False)

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        self._by_itself = True
        try:
            yield
        finally:
            self._by_itself = False

    def put_top(self, line: int) -> None:
        """Not at the reader's wish."""
        with self.by_itself():
            self.scroll_to(y=max(0, min(line, self.bottom)), animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._by_itself and round(old_value) != round(new_value):
            self.scrolled()

    def recount(self) -> None:
        """The number of lines may be another one now."""
        with self.by_itself():
            self.virtual_size = Size(self.width_needed(), self.line_count())

    # --- painting ---

    def on_resize(self) -> None:
        self._on_screen.clear()
        self.resized()
        self.recount()
        self.refresh()

    def resized(self) -> None:
        """The width is another one."""

    def notify_style_update(self) -> None:
        self._on_screen.clear()
        super().notify_style_update()

    def repaint(self) -> None:
        """What is on the screen and would look otherwise now."""
        width = self.wide
        for y, drawn in list(self._on_screen.items()):
            if y >= self.size.height:
                del self._on_screen[y]
            elif (now := self._made(y)) is not drawn and now != drawn:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        self._on_screen[y] = strip = self._made(y)
        return strip

    def _made(self, y: int) -> Strip:
        width, line = self.wide, self.top + y
        if line >= self.line_count():
            return Strip.blank(width, self.rich_style)
        across = round(self.scroll_offset.x)
        strip = self.strip_of(line)
        if across:
            strip = strip.crop(across, across + width)
        return strip.adjust_cell_length(width, self.rich_style)
