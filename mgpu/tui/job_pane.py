"""Details of a job."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from mgpu.clock import Clock
from mgpu.tui.cells import shown
from mgpu.tui.source import Source


class JobPane(Static):
    """Of whatever it is told to show."""

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source, self._clock = source, clock

    def show(self, job_id: str | None) -> None:
        self.update(Content("" if job_id is None else f"job {shown(job_id)}"))
