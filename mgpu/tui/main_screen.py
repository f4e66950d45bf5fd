"""The screen that stays open: lists, details and totals, what stands where, and who hears of what."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.screen import Screen

from mgpu.clock import Clock
from mgpu.tui.details import Details
from mgpu.tui.help import Help
from mgpu.tui.key_line import KeyLine
from mgpu.tui.keys import Key, bindings
from mgpu.tui.layout import BESIDE, CLASSES, DETAILS_SHARE, arrange
from mgpu.tui.log_screen import LogScreen
from mgpu.tui.nodes_pane import NodesPane
from mgpu.tui.pane import Pane
from mgpu.tui.queue_pane import QueuePane
from mgpu.tui.rows import Rows
from mgpu.tui.settling import Settling
from mgpu.tui.source import Source
from mgpu.tui.totals import Totals
from mgpu.tui.wishes import tell

FOLLOW_S = 0.25  # the cursor rests so long before the details follow it
TICK_S = 2.0  # as often as there is news: each line that is drawn anew costs those who leave it open all day


class Main(Settling, Screen[None]):
    """It lives as long as the application. `master`: its name, as it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self, source: Source, clock: Clock, master: str) -> None:
        super().__init__(id="main")
        self._source = source
        self._clock = clock
        self._master = master
        self.totals = Totals(id="totals")
        self.nodes = NodesPane(source, clock, self._told, id="nodes")
        self.queue = QueuePane(source, clock, self._told, id="queue")
        self.details = Details(source, clock, id="details")
        self._lists = Vertical(self.nodes, self.queue, id="lists")
        self._following: Any = None

    def compose(self) -> ComposeResult:
        yield self.totals
        with Vertical(id="body"):
            yield self._lists
            yield self.details
        yield KeyLine()

    def on_mount(self) -> None:
        self.queue.rows.focus()
        for pane in (self.queue, self.nodes):
            self.run_worker(pane.poll.run(), name=pane.id or "", group="polls")
        self.set_interval(TICK_S, self._tick)
        self._told()

    @property
    def in_front(self) -> Pane:
        """The list that has, or had, the focus."""
        return self.nodes if self.nodes.has_class("-front") else self.queue

    # --- news ---

    def _told(self) -> None:
        """Something may have become stale, or fresh again."""
        if not self.query(Totals):
            return  # the answer came while the screen is taken down
        now = self._clock.now()
        words = []
        for pane in (self.queue, self.nodes):
            stale = pane.poll.freshness.age(now)
            pane.retitle(stale)
            pane.set_class(bool(stale), "-stale")
            words += [pane.poll.freshness.words(now)] if stale else []
        seen = [pane.poll.freshness.good_at for pane in (self.queue, self.nodes)]
        known = [at for at in seen if at is not None]
        self.totals.tell_time(self._master, min(known) if known else None, words[0] if words else "")

    def _tick(self) -> None:
        self.queue.tick()
        self.nodes.tick()
        self._told()

    @on(QueuePane.Answered)
    def _queue_answered(self) -> None:
        self.totals.tell_jobs(self.queue.whole)

    @on(NodesPane.Answered)
    def _nodes_answered(self) -> None:
        self.totals.tell_nodes(self.nodes.answer)

    # --- what stands where ---

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._arrange)

    @on(NodesPane.Reshaped)
    def _arrange(self) -> None:
        nodes, size = self.nodes, self.size
        inner = max(size.width - 4, 1)
        if self.details.open and size.width >= BESIDE:
            inner = max(inner * (100 - DETAILS_SHARE) // 100, 1)
        found = arrange(
            size.width,
            size.height,
            nodes.lines_wanted(inner, False),
            nodes.lines_wanted(inner, True),
            nodes.bars,
            self.details.open,
        )
        for name in CLASSES:
            self.set_class(name in found.classes, name)
        self._lists.set_class(found.details_hide_lists, "-hidden")
        nodes.styles.height = found.nodes_height or "1fr"
        nodes.nodes.show_as(found.compact)

    def on_descendant_focus(self) -> None:
        """Where the focus is, however it came there."""
        for pane in (self.queue, self.nodes):
            if pane.has_focus_within:
                self._bring_to_front(pane)

    def _bring_to_front(self, pane: Pane) -> None:
        for each in (self.queue, self.nodes):
            each.set_class(each is pane, "-front")

    # --- details ---

    @on(Rows.Picked)
    def _picked(self) -> None:
        was_open = self.details.open
        self._show_selected()
        if was_open or self.has_class("-details-alone"):
            self.call_after_refresh(self.details.focus_it)

    @on(Details.Act)
    def _act(self, event: Details.Act) -> None:
        if event.verb == "log":
            self.open_log(event.about)
        elif self.details.shows_node:
            self.nodes.ask_about(event.verb, event.about)
        else:
            row = self.queue.selected
            there = row is not None and str(row["job_id"]) == event.about
            self.queue.ask_about(event.verb, row if there else self.details.job)

    @on(Rows.Moved)
    def _moved(self, event: Rows.Moved) -> None:
        """Details that are open follow the cursor, once it rests."""
        if self.details.open and event.rows.has_focus:
            if self._following is not None:
                self._following.stop()
            self._following = self.set_timer(FOLLOW_S, self._follow)

    def _follow(self) -> None:
        if self.details.open:
            self._show_selected()

    def _show_selected(self) -> None:
        if self.in_front is self.nodes:
            if self.nodes.selected is not None:
                self.details.show_node(self.nodes.selected)
        elif self.queue.selected is not None:
            self.details.show_job(str(self.queue.selected["job_id"]))
        self._arrange()

    def action_pane(self, step: int) -> None:
        """To the next one, also where it takes the place of this one."""
        panes: list[Pane | Details] = [self.nodes, self.queue]
        panes += [self.details] if self.details.open else []
        here = self.details if self.details.has_focus_within else self.in_front
        pane = panes[(panes.index(here) + step) % len(panes)]
        if isinstance(pane, Details):
            pane.focus_it()
        else:
            self._bring_to_front(pane)
            self.call_after_refresh(pane.rows.focus)

    def action_close(self) -> None:
        """What was opened last: a line to search in, details, filters."""
        if self.in_front.search_line.has_focus:
            self.in_front.drop_search()
        elif self.details.open:
            self.details.close()
            self._arrange()
            self.in_front.rows.focus()
        else:
            self.in_front.drop_filters()

    @on(QueuePane.LogWanted)
    def _log_wanted(self, event: QueuePane.LogWanted) -> None:
        self.open_log(event.job_id)

    def open_log(self, job_id: str) -> None:
        self.app.push_screen(LogScreen(self._source, job_id))

    # --- for all ---

    def action_copy(self) -> None:
        if self.details.has_focus_within:
            text = self.details.shown
        elif self.in_front is self.nodes:
            text = self.nodes.selected
        else:
            text = None if self.queue.selected is None else str(self.queue.selected["job_id"])
        if text is None:
            self.app.bell()
            return
        self.app.copy_to_clipboard(text)
        tell(self.app, f"{text} copied")

    def action_bars(self) -> None:
        self.nodes.turn_bars()

    def action_help(self) -> None:
        self.app.push_screen(Help())

    async def run_entry(self, key: Key) -> None:
        """What a key does, wherever the focus is: chosen in the palette."""
        place = {"queue": self.queue, "nodes": self.nodes}.get(key.where)
        if place is not None:
            self._bring_to_front(place)
            place.rows.focus()
        await self.app.run_action(key.action, place or self)
