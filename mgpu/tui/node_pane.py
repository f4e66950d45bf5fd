"""Details of a node: its GPUs, who is on them, its health, its last day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical

from mgpu.client.http import MasterError
from mgpu.clock import Clock
from mgpu.tui import themes
from mgpu.tui.fact_lines import FactLines
from mgpu.tui.facts import Fact
from mgpu.tui.node_facts import node_facts
from mgpu.tui.polling import Poll
from mgpu.tui.source import Source

Json = dict[str, Any]
PAUSE_S = 2.0
USE_S = 60.0  # between two looks at its last day
TICK_S = 1.0


class NodePane(Vertical):
    """`show` tells it of which; None = of none, and nothing is asked any more."""

    DEFAULT_CSS = """
    NodePane > FactLines { height: 1fr; }
    """

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        self._clock = clock
        self._name: str | None = None
        self._node: Json | None = None
        self._use: Json | None = None
        self._use_at = 0.0
        self.facts = FactLines(lambda: self.app.theme == themes.PLAIN)  # at hand also while the screen is taken down
        self.poll = Poll(self._question, self._answered, self._draw, PAUSE_S, clock)

    def compose(self) -> ComposeResult:
        yield self.facts

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._draw)

    def show(self, name: str | None) -> None:
        if name == self._name:
            return
        self._name, self._node, self._use, self._use_at = name, None, None, 0.0
        self.workers.cancel_group(self, "look")
        if name is not None:
            self.poll = Poll(self._question, self._answered, self._draw, PAUSE_S, self._clock)
            self.run_worker(self.poll.run(), group="look")
        self._draw()
        self.facts.put_top(0)

    def _question(self) -> Callable[[], dict[str, Json]]:
        source, name, now = self._source, self._name or "", self._clock.now()
        due = now - self._use_at >= USE_S
        if due:
            self._use_at = now
        return lambda: look(source, name, due)

    def _answered(self, answer: dict[str, Json]) -> None:
        self._node = answer["node"]
        self._use = answer.get("use", self._use)

    def _draw(self) -> None:
        if self._name is None:
            self.facts.tell([])
            return
        now = self._clock.now()
        stale = self.poll.freshness.words(now)
        facts = [Fact("", stale, "stale")] if stale else []
        if self._node is None:
            facts.append(Fact("node", self._name, "strong"))
        else:
            facts += node_facts(self._node, self._use, now)
        self.facts.tell(facts)


def look(source: Source, name: str, with_use: bool) -> dict[str, Json]:
    """Raises MasterError when there is no such node, or no master."""
    answer = {"node": source.node(name)}
    if with_use:
        with suppress(MasterError):  # what is known of the node is shown all the same
            answer["use"] = source.node_use(name)
    return answer
