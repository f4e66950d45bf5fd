"""What a job writes, on the whole screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from mgpu.tui.help import Help
from mgpu.tui.key_line import KeyLine
from mgpu.tui.log_view import LogView
from mgpu.tui.settling import Settling
from mgpu.tui.source import Source


class LogScreen(Settling, Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help"),
        Binding("q", "dismiss", "Back"),
        Binding("escape", "dismiss", "Back", show=False),
    ]

    def __init__(self, source: Source, job_id: str) -> None:
        super().__init__(id="log")
        self._source, self._job_id = source, job_id

    def compose(self) -> ComposeResult:
        yield LogView(self._source)
        yield KeyLine()

    def action_help(self) -> None:
        self.app.push_screen(Help("log", "lines"))

    def on_mount(self) -> None:
        self.query_one(LogView).show(self._job_id)
