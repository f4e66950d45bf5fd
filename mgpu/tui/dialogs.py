"""Small windows that ask: yes or no, or for a few words."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from mgpu.tui.cells import shown
from mgpu.tui.pane import Line
from mgpu.tui.settling import Settling


class Confirm(Settling, ModalScreen[bool]):
    """`yes` and `no` say what happens then. Nothing happens by a mere Enter: that is on `no`, from the beginning."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, details: str, yes: str, no: str) -> None:
        super().__init__()
        self._question, self._details = question, details
        self._yes, self._no = yes, no

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False):
            yield Static(Content(shown(self._question)), classes="question")
            yield Static(Content(shown(self._details)))
            with Horizontal(classes="buttons"):
                yield Button(Content(f"y  {self._yes}"), id="yes", compact=True)
                yield Button(Content(f"n  {self._no}"), id="no", compact=True)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class Ask(Settling, ModalScreen["str | None"]):
    """For a line of text, with `needed` not an empty one; None = nothing is to be done."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave it")]

    def __init__(self, question: str, details: str, value: str = "", needed: bool = False) -> None:
        super().__init__()
        self._question, self._details, self._value, self._needed = question, details, value, needed

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False):
            yield Static(Content(shown(self._question)), classes="question")
            yield Static(Content(shown(self._details)))
            yield Line(self._value)

    def on_mount(self) -> None:
        self.query_one(Line).focus()

    def action_leave(self) -> None:
        self.dismiss(None)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        value = event.value.strip()
        if value or not self._needed:
            self.dismiss(value)
        else:
            self.app.bell()
