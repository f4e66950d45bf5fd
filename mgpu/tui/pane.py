"""A list with its title and a line to search in: what the queue and the nodes have in common."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from mgpu.tui.cells import shown
from mgpu.tui.rows import Rows


class Line(Input):
    """A line to type in: whatever is pasted there, it holds letters alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", key_display="Enter"),
        Binding("escape", "screen.close", "Drop", key_display="Esc"),
    ]

    def validate_value(self, value: str) -> str:
        return "".join(filter(str.isprintable, value))


class Pane(Vertical):
    """`searched` hears what is typed behind `/`."""

    def __init__(self, rows: Rows, *, id: str) -> None:
        super().__init__(id=id)
        self.rows = rows
        self._titles = ("", "")

    def compose(self) -> ComposeResult:
        yield self.rows
        yield Line(placeholder="words to search for; Enter keeps them, Esc drops them", classes="search")

    @property
    def search_line(self) -> Line:
        return self.query_one(Line)

    def on_mount(self) -> None:
        self.search_line.display = False

    def title(self, above: str, below: str = "") -> None:
        if (above, below) != self._titles:
            self._titles = above, below
            self.border_title = Content(shown(above))
            self.border_subtitle = Content(shown(below))

    def searched(self, words: str) -> None:
        raise NotImplementedError

    def drop_filters(self) -> bool:
        """Whether there were any."""
        return self.drop_search()

    def action_search(self) -> None:
        self.search_line.display = True
        self.search_line.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.searched(event.value)

    @on(Input.Submitted)
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        self.search_line.display = False
        self.rows.focus()

    def drop_search(self) -> bool:
        """Whether there was one."""
        line = self.search_line
        there = bool(line.value) or line.display
        line.value = ""
        if line.display:
            line.display = False
            self.rows.focus()
        return there
