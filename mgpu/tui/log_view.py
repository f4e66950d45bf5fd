"""A job's output as it comes."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from mgpu.tui.cells import shown
from mgpu.tui.source import Source


class LogView(Static, can_focus=True):
    """`show` follows the output of a job."""

    def __init__(self, source: Source, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source

    def show(self, job_id: str | None) -> None:
        self.update(Content("" if job_id is None else f"job {shown(job_id)}"))
