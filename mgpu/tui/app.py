"""The application: what is on the screen, and who hears of what."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from mgpu.tui.source import Source
from mgpu.tui.threads import use_impatient_threads


class Monitor(App[None]):
    """`mgpu top` itself. Widgets find what they need in `source`."""

    TITLE = "mgpu top"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "Quit")]

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def compose(self) -> ComposeResult:
        yield Static("mgpu top", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        use_impatient_threads()
