"""A job's output as it comes: which of it, where one is in it, and what keeps it from coming."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from mgpu.tui.cells import Cell
from mgpu.tui.fact_lines import CellLines
from mgpu.tui.keys import bindings
from mgpu.tui.log_feed import LogFeed
from mgpu.tui.log_lines import LogLines
from mgpu.tui.log_text import MOST_LINES, LogText
from mgpu.tui.pane import Line
from mgpu.tui.source import Source

PAUSE_S = 0.1  # between two pictures of a log that grows


class Sought(Line):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Drop", key_display="Esc")]

    def action_leave(self) -> None:
        self.value = ""
        self.post_message(self.Submitted(self, ""))


class LogView(Vertical):
    """`show` follows the output of a job, of one rank or of all."""

    DEFAULT_CSS = """
    LogView > .log-head { height: 1; overflow-y: hidden; }
    LogView > LogLines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("log")

    def __init__(self, source: Source, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        self._job_id: str | None = None
        self._rank: int | None = None
        self._feed: LogFeed | None = None
        self._text = LogText()
        self.head = CellLines(classes="log-head")
        self.lines = LogLines()
        self._told: LogText | None = None  # whose news is on its way to the screen

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.lines
        yield Sought(placeholder="search; Enter, then n and N", classes="search")

    def on_mount(self) -> None:
        self.head.can_focus = False
        self.query_one(Sought).display = False
        self._open()

    def on_unmount(self) -> None:
        self._close()

    # --- what is followed ---

    def show(self, job_id: str | None) -> None:
        if job_id != self._job_id:
            self._job_id, self._rank = job_id, None
            self._open()

    def action_rank(self, step: int) -> None:
        """All ranks, then one after the other."""
        ranks = self.lines.ranks
        if ranks > 1:
            place = (-1 if self._rank is None else self._rank) + 1 + step
            self._rank = (place % (ranks + 1)) - 1
            self._rank = None if self._rank < 0 else self._rank
            self._open()

    def _close(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _open(self) -> None:
        self._close()
        if not self.is_mounted:
            return
        if self._rank is None:
            self.lines.know_ranks(1)
        self._text = text = LogText()
        self._told = None
        self.lines.put(text)
        if self._job_id is not None:
            stream = self._source.stream(self._job_id, self._rank, beginning={"tail": MOST_LINES})
            self._feed = LogFeed(stream, text, lambda: self._news(text))
            self._feed.start()
        self._tell()

    class News(Message):
        def __init__(self, text: LogText) -> None:
            super().__init__()
            self.text = text

    def _news(self, text: LogText) -> None:
        """In the threads of the feed: much may come, and is told of once a picture."""
        if self._told is not text:
            self._told = text
            self.post_message(self.News(text))

    @on(News)
    def _heard(self, event: News) -> None:
        event.stop()
        self.set_timer(PAUSE_S, lambda: self._take(event.text))

    def _take(self, text: LogText) -> None:
        """What came is shown."""
        if text is not self._text:
            return
        self._told = None
        feed = self._feed
        if feed is not None and feed.job:
            self.lines.know_ranks(max(len(feed.job.get("allocation") or ()), 1))
        self.lines.news()
        self._tell()

    # --- what is said above it ---

    @on(LogLines.Moved)
    def _tell(self) -> None:
        self.head.put([self._words()])

    def _words(self) -> list[Cell]:
        feed, lines = self._feed, self.lines
        if feed is None:
            return [Cell("")]
        which = f"log of job {self._job_id}"
        if lines.ranks > 1:
            which += ", all ranks" if self._rank is None else f", rank {self._rank} of {lines.ranks}"
        cells = [Cell(which, "head"), Cell(f"  {self._place_words()}", "" if lines.following else "mark")]
        if feed.refused:
            cells.append(Cell(f"  {feed.refused}", "bad"))
        elif feed.away:
            cells.append(Cell(f"  the master is away, what is written comes once it is back: {feed.away}", "bad"))
        elif lost := feed.lost_words:
            cells.append(Cell(f"  {lost}", "bad"))
        elif feed.job.get("state") == "PENDING":
            cells.append(Cell("  it has not begun", "dim"))
        return cells

    def _place_words(self) -> str:
        lines = self.lines
        if not lines.following:
            return f"stopped at line {lines.first_shown} of {lines.known}; f follows"
        return "ended" if self._feed is not None and self._feed.over else "follows"

    # --- keys ---

    def action_follow(self) -> None:
        self.lines.follow()

    def action_fold(self) -> None:
        self.lines.fold()

    def action_search(self) -> None:
        line = self.query_one(Sought)
        line.display = True
        line.focus()

    def action_next(self, back: bool) -> None:
        if not self.lines.find_next(back):
            self.app.bell()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value or self.lines.needle:
            self.lines.search(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        event.input.display = False
        self.lines.focus()

    # --- for whoever shows it ---

    @property
    def job(self) -> dict[str, Any]:
        """As the stream told it last."""
        return self._feed.job if self._feed is not None else {}
