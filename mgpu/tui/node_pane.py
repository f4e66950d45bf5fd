"""Details of a node: its GPUs, who is on them, its health, its last day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from mgpu.client.http import MasterError
from mgpu.clock import Clock
from mgpu.tui.facts import Fact
from mgpu.tui.followed import Followed, Json
from mgpu.tui.node_facts import node_facts
from mgpu.tui.source import Source

USE_S = 60.0  # between two looks at its last day


class NodePane(Followed):
    DEFAULT_CSS = """
    NodePane > FactLines { height: 1fr; }
    """
    KIND = "node"

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(source, clock, id=id)
        self._node: Json | None = None
        self._use: Json | None = None
        self._use_at = 0.0

    def forget(self) -> None:
        self._node, self._use, self._use_at = None, None, 0.0

    def question(self) -> Callable[[], dict[str, Json]]:
        source, name, now = self.source, self.name_shown or "", self.clock.now()
        due = now - self._use_at >= USE_S
        if due:
            self._use_at = now
        return lambda: look(source, name, due)

    def answered(self, answer: dict[str, Json]) -> None:
        self._node = answer["node"]
        self._use = answer.get("use", self._use)

    def known(self, now: float) -> list[Fact] | None:
        return None if self._node is None else node_facts(self._node, self._use, now)


def look(source: Source, name: str, with_use: bool) -> dict[str, Json]:
    """Raises MasterError when there is no such node, or no master."""
    answer = {"node": source.node(name)}
    if with_use:
        with suppress(MasterError):  # what is known of the node is shown all the same
            answer["use"] = source.node_use(name)
    return answer
