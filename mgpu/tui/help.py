"""Every key, made of the table of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from mgpu.tui.keys import KEYS, PLACES
from mgpu.tui.settling import Settling

LETTERS = """
  In a line per node each GPU is a letter:
  ▁ to █  how busy it is with a job (0 to 9 without such letters)
  =       has a job; how busy is not told
  X       somebody else's process
  !       unhealthy
  ?       unknown
  ·       free (. without such letters)
  -       unused: its node takes no jobs
"""


def help_lines(places: Sequence[str] = ()) -> str:
    """The keys of these places, else of all, and what letters mean."""
    width = max(len(key.shown) for key in KEYS)
    lines: list[str] = []
    for place in places or PLACES:
        lines += [PLACES[place], *(f"  {key.shown:{width}}  {key.help}" for key in KEYS if key.where == place), ""]
    return "\n".join(lines[:-1] if places else [*lines, "GPUs", LETTERS.strip("\n")])


class Help(Settling, ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close"),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
    ]

    def __init__(self, *places: str) -> None:
        super().__init__()
        self._places = places

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help") as box:
            box.border_subtitle = "Esc closes it"
            yield Static(Content(help_lines(self._places)))

    def action_scroll(self, way: str) -> None:
        box = self.query_one(VerticalScroll)
        if way == "down":
            box.scroll_down(animate=False)
        else:
            box.scroll_up(animate=False)
