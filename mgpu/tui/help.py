"""Every key, made of the table of keys."""

from __future__ import annotations

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


def help_lines() -> str:
    width = max(len(key.shown) for key in KEYS)
    lines: list[str] = []
    for place, title in PLACES.items():
        lines += [title, *(f"  {key.shown:{width}}  {key.help}" for key in KEYS if key.where == place), ""]
    return "\n".join([*lines, "GPUs", LETTERS.strip("\n")])


class Help(Settling, ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close"),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            yield Static(Content(help_lines()))

    def action_scroll(self, way: str) -> None:
        box = self.query_one(VerticalScroll)
        if way == "down":
            box.scroll_down(animate=False)
        else:
            box.scroll_up(animate=False)
