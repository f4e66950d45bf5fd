"""The application: what is on the screen, and who hears of what."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.containers import Vertical
from textual.filter import LineFilter
from textual.screen import Screen

import mgpu.clock
from mgpu.clock import Clock
from mgpu.tui import themes
from mgpu.tui.details import Details
from mgpu.tui.help import Help
from mgpu.tui.key_line import KeyLine
from mgpu.tui.keys import Key, bindings
from mgpu.tui.layout import CLASSES, arrange
from mgpu.tui.log_screen import LogScreen
from mgpu.tui.nodes_pane import NodesPane
from mgpu.tui.palette import Actions
from mgpu.tui.pane import Pane
from mgpu.tui.queue_pane import QueuePane
from mgpu.tui.rows import Rows
from mgpu.tui.source import Source
from mgpu.tui.threads import use_impatient_threads
from mgpu.tui.totals import Totals
from mgpu.tui.wishes import tell

FOLLOW_S = 0.25  # the cursor rests so long before the details follow it
TICK_S = 1.0


class Monitor(App[None]):
    """`mgpu top` itself. Widgets find what they need in `source` and `clock`."""

    TITLE = "mgpu top"
    CSS_PATH = "monitor.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    COMMANDS = {lambda: Actions}  # noqa: RUF012

    def __init__(self, source: Source, theme: str = "", master: str = "", clock: Clock = mgpu.clock) -> None:
        """`theme`: one of themes.NAMES, "" = whatever suits the terminal; `master`: its name, as it is shown."""
        super().__init__()
        self.source = source
        self.clock = clock
        self._master = master
        self._colourless = themes.Colourless()
        for each in themes.THEMES:
            self.register_theme(each)
        self.theme = themes.fitting(theme, os.environ)
        self._following: Any = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.DEFAULTS

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._colourless] if self.theme == themes.PLAIN else filters

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Ours are in the palette; Textual's own are about its widgets."""
        return ()

    def compose(self) -> ComposeResult:
        yield Totals(id="totals")
        with Vertical(id="body"):
            with Vertical(id="lists"):
                yield NodesPane(self.source, self.clock, self._told, id="nodes")
                yield QueuePane(self.source, self.clock, self._told, id="queue")
            yield Details(self.source, self.clock, id="details")
        yield KeyLine()

    def on_mount(self) -> None:
        use_impatient_threads()
        self.queue.rows.focus()
        for pane in (self.queue, self.nodes):
            self.run_worker(pane.poll.run(), name=pane.id or "", group="polls")
        self.set_interval(TICK_S, self._tick)
        self._told()

    # --- what there is ---

    @property
    def main(self) -> Screen[Any]:
        return self.screen_stack[0]

    @property
    def queue(self) -> QueuePane:
        return self.main.query_one(QueuePane)

    @property
    def nodes(self) -> NodesPane:
        return self.main.query_one(NodesPane)

    @property
    def details(self) -> Details:
        return self.main.query_one(Details)

    @property
    def totals(self) -> Totals:
        return self.main.query_one(Totals)

    @property
    def in_front(self) -> Pane:
        """The list that has, or had, the focus."""
        return self.nodes if self.nodes.has_class("-front") else self.queue

    # --- news ---

    def _told(self) -> None:
        """Something may have become stale, or fresh again."""
        now = self.clock.now()
        words = []
        for pane in (self.queue, self.nodes):
            stale = pane.poll.freshness.words(now)
            pane.retitle(stale)
            pane.set_class(bool(stale), "-stale")
            words += [stale] if stale else []
        seen = [pane.poll.freshness.good_at for pane in (self.queue, self.nodes)]
        known = [at for at in seen if at is not None]
        self.totals.tell_time(self._master, min(known) if known else None, words[0] if words else "")

    def _tick(self) -> None:
        self.queue.tick()
        self.nodes.tick()
        self._told()

    @on(QueuePane.Answered)
    def _queue_answered(self) -> None:
        if not self.queue.wanted.ended:
            self.totals.tell_jobs(self.queue.answer)

    @on(NodesPane.Answered)
    def _nodes_answered(self) -> None:
        self.totals.tell_nodes(self.nodes.answer)

    # --- what stands where ---

    def on_resize(self) -> None:
        self.call_after_refresh(self._arrange)

    @on(NodesPane.Reshaped)
    def _arrange(self) -> None:
        nodes, size = self.nodes, self.size
        inner = max(size.width - 4, 1)
        if self.details.open and size.width >= 140:
            inner = max(inner * 55 // 100, 1)
        found = arrange(
            size.width,
            size.height,
            nodes.lines_wanted(inner, False),
            nodes.lines_wanted(inner, True),
            nodes.bars,
            self.details.open,
        )
        main = self.main
        for name in CLASSES:
            main.set_class(name in found.classes, name)
        main.query_one("#lists").set_class(found.details_hide_lists, "-hidden")
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
        if was_open or self.main.has_class("-details-alone"):
            self.call_after_refresh(self.details.focus_it)

    @on(Details.Act)
    def _act(self, event: Details.Act) -> None:
        """The details are of the job with the cursor."""
        if event.verb == "log":
            self.queue.action_log()
        else:
            self.queue.action_act(event.verb)

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
        if self.details.open:
            self.details.close()
            self._arrange()
            self.in_front.rows.focus()
            return
        self.queue.drop_filters() if self.in_front is self.queue else self.nodes.drop_filters()

    @on(QueuePane.LogWanted)
    def _log_wanted(self, event: QueuePane.LogWanted) -> None:
        self.push_screen(LogScreen(self.source, event.job_id))

    # --- for all ---

    def action_copy(self) -> None:
        selected = self.nodes.selected if self.in_front is self.nodes else self.queue.selected
        if selected is None:
            return
        text = selected if isinstance(selected, str) else str(selected["job_id"])
        self.copy_to_clipboard(text)
        tell(self, f"{text} copied")

    def action_help(self) -> None:
        self.push_screen(Help())

    async def run_entry(self, key: Key) -> None:
        """What a key does, wherever the focus is: chosen in the palette."""
        place = {"queue": self.queue, "nodes": self.nodes}.get(key.where)
        if place is not None:
            self._bring_to_front(place)
            place.rows.focus()
        await self.run_action(key.action, place)
