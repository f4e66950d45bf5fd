"""Details of one thing, asked for again and again as long as they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical

from mgpu.clock import Clock
from mgpu.tui import themes
from mgpu.tui.fact_lines import FactLines
from mgpu.tui.facts import Fact
from mgpu.tui.polling import Poll
from mgpu.tui.source import Source

Json = dict[str, Any]
PAUSE_S = 2.0
TICK_S = 1.0


class Followed(Vertical):
    """`show` tells it of which; None = of none, and nothing is asked any more. One of these says what is asked, and
    what there is to say of the answers."""

    KIND: ClassVar[str]

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = source
        self.clock = clock
        self.name_shown: str | None = None
        # kept at hand: an answer may come while the screen is taken down, and they are found there no more
        self.facts = FactLines(lambda: self.app.theme == themes.PLAIN)
        self.poll = self._new_poll()

    def compose(self) -> ComposeResult:
        yield self.facts

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._draw)

    def show(self, name: str | None) -> None:
        if name == self.name_shown:
            return
        self.name_shown = name
        self.forget()
        self.workers.cancel_group(self, "look")
        if name is not None:
            self.poll = self._new_poll()
            self.run_worker(self.poll.run(), group="look")
        self._draw()
        self.facts.put_top(0)

    def forget(self) -> None:
        """What is known is of another one."""
        raise NotImplementedError

    def question(self) -> Callable[[], dict[str, Json]]:
        """What a thread asks next."""
        raise NotImplementedError

    def answered(self, answer: dict[str, Json]) -> None:
        raise NotImplementedError

    def known(self, now: float) -> list[Fact] | None:
        """None = there was no answer yet."""
        raise NotImplementedError

    def _new_poll(self) -> Poll[dict[str, Json]]:
        return Poll(self.question, self.answered, self._draw, PAUSE_S, self.clock)

    def _draw(self) -> None:
        if self.name_shown is None:
            self.facts.tell([])
            return
        now = self.clock.now()
        stale = self.poll.freshness.words(now)
        facts = [Fact("", stale, "stale")] if stale else []
        known = self.known(now)
        facts += [Fact(self.KIND, self.name_shown, "strong")] if known is None else known
        self.facts.tell(facts)
