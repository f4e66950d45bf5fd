"""The nodes: with a bar per GPU where there is room, else each in a line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.message import Message

from mgpu.clock import Clock
from mgpu.tui import node_rows
from mgpu.tui.cells import Cell
from mgpu.tui.freshness import Pauses
from mgpu.tui.keys import bindings
from mgpu.tui.pane import Pane
from mgpu.tui.polling import Poll
from mgpu.tui.rows import Rows
from mgpu.tui.source import Json, Source
from mgpu.tui.wishes import ask_to_drain, ask_to_resume
from mgpu.wording.figures import epoch
from mgpu.wording.letters import clean

POLL_S = 2.0
MOST_LETTERS = 16  # that stand under each other


class NodeRows(Rows):
    """A row is a node, of one line or of several."""

    def __init__(self, clock: Clock, pauses: Pauses, *, id: str) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._pauses = pauses
        self.compact = False
        self.empty = ""
        self._starts = [0]  # the first line of each node, and the one behind all
        self._letters = 8  # the most GPUs of a node
        self._kept: dict[tuple[int, int, str], tuple[Any, list[Cell]]] = {}  # lines, each with the node it is of
        self._made_for: tuple[int, bool, int] = (0, False, 0)  # width, compact, letters

    def put(self, items: Sequence[Any], offset: int = 0, total: int | None = None) -> None:
        there = {id(node) for node in items}
        self._kept = {key: line for key, line in self._kept.items() if key[0] in there}
        super().put(items, offset, total)

    def show_as(self, compact: bool) -> None:
        if compact != self.compact:
            self.compact = compact
            self.recount()
            self.refresh()

    def recount(self) -> None:
        width = max(self.room - 1, 1)
        heights = [1 if self.compact else node_rows.lines_of(node, width) for node in self._items]
        self._starts = [0, *accumulate(heights)]
        self._letters = max([4, *(min(len(node_rows.gpus_of(node)), MOST_LETTERS) for node in self._items)])
        if self._made_for != (width, self.compact, self._letters):
            self._made_for = width, self.compact, self._letters
            self._kept.clear()
        super().recount()

    def line_count(self) -> int:
        return self._starts[-1]

    def line_of(self, index: int) -> int:
        return self._starts[max(0, min(index, len(self._starts) - 1))]

    def place_of(self, line: int) -> tuple[int, int]:
        index = max(0, min(bisect_right(self._starts, line) - 1, len(self._starts) - 2))
        return index, line - self._starts[index]

    def notify_style_update(self) -> None:
        self._kept.clear()
        super().notify_style_update()

    def key_of(self, item: Any) -> Hashable:
        return str(item["node_id"])

    def cells_of(self, item: Any, line: int, width: int) -> list[Cell]:
        age = "" if line else self._age(item)
        kept = self._kept.get((id(item), line, age))
        if kept is None:
            kept = item, self._made(item, line, width, age)
            self._kept[id(item), line, age] = kept
        return kept[1]

    def _made(self, node: Json, line: int, width: int, age: str) -> list[Cell]:
        if line:
            return node_rows.gpu_line(node, line - 1, width, self.plain)
        return node_rows.head(node, width, age, self._letters if self.compact else 0, self.plain)

    def _age(self, node: Json) -> str:
        """All of a line that the clock alone changes."""
        return node_rows.age_words(node, self._clock.now(), self._pauses.old_after_s(str(node["node_id"])))

    def nothing(self) -> str:
        return self.empty


class NodesPane(Pane):
    BINDINGS: ClassVar[list[BindingType]] = bindings("nodes")

    class Answered(Message):
        """There is something new."""

    class Reshaped(Message):
        """It wants another number of lines."""

    def __init__(self, source: Source, clock: Clock, told: Callable[[], None], *, id: str) -> None:
        self._pauses = Pauses()
        self.nodes = NodeRows(clock, self._pauses, id="nodes-list")
        super().__init__(self.nodes, id=id)
        self.answer: list[Json] = []
        self.bars: bool | None = None  # None = as there is room
        self._answered_once = False
        self._shape: tuple[list[int], int] = [], 0
        self._words: list[str] = []
        self._source = source
        self.poll: Poll[list[Json]] = Poll(lambda: source.nodes, self._answered, told, POLL_S, clock)

    def _answered(self, answer: list[Json]) -> None:
        """Nodes of which nothing new is known stay the objects that they were: their lines are there already."""
        before = {node["node_id"]: node for node in self.answer}
        now = [old if (old := before.get(node["node_id"])) == node else node for node in answer]
        changed = [node for node in now if node is not before.get(node["node_id"])]
        if self._answered_once and not changed and len(now) == len(self.answer):
            return
        for node in changed:
            self._pauses.saw(str(node["node_id"]), epoch(node.get("last_seen")))
        self.answer, self._answered_once = now, True
        self._put()
        self.post_message(self.Answered())

    def _put(self) -> None:
        shown = [node for node in self.answer if _holds(node, self._words)] if self._words else self.answer
        self.nodes.put(shown)
        shape = [len(node_rows.gpus_of(node)) for node in self.answer], self.nodes.total
        if shape != self._shape:
            self._shape = shape
            self.post_message(self.Reshaped())

    def retitle(self, stale: str) -> None:
        number = str(len(self.answer)) if self._answered_once else ""
        if self._words:
            number = f"{self.nodes.total} of {number} · search “{' '.join(self._words)}”"
        self.nodes.empty = self._why_empty()
        self.title(f"Nodes {number}".rstrip(), stale)

    def _why_empty(self) -> str:
        if not self._answered_once:
            return "the master has not answered yet"
        return "no node holds these words; Esc drops them" if self._words else "there are no nodes: mgpu node add"

    def lines_wanted(self, width: int, compact: bool) -> int:
        if compact:
            return max(self.nodes.total, 1)
        return max(sum(node_rows.lines_of(node, width) for node in self.answer), 1)

    def tick(self) -> None:
        self.nodes.repaint()

    def searched(self, words: str) -> None:
        self._words = words.lower().split()
        self._put()
        self.retitle(self._titles[1])

    @property
    def selected(self) -> str | None:
        node = self.nodes.current
        return None if node is None else str(node["node_id"])

    def turn_bars(self) -> None:
        """What is not shown now; from then on whatever room there is."""
        self.bars = self.nodes.compact
        self.post_message(self.Reshaped())

    def action_drain(self) -> None:
        self.ask_about("drain", self.selected)

    def action_resume(self) -> None:
        self.ask_about("resume", self.selected)

    def ask_about(self, verb: str, node: str | None) -> None:
        if node is not None:
            ask = ask_to_drain if verb == "drain" else ask_to_resume
            ask(self.app, self._source, node, self.poll.soon)


def _holds(node: Json, words: list[str]) -> bool:
    """Whether each word is in what is known of the node, or of whose GPUs they are."""
    known = [node.get(key) for key in ("node_id", "state", "reason", "hostname", "address", "partition", "gpu_type")]
    for gpu in node.get("gpus") or ():
        known += [gpu.get(key) for key in ("name", "state", "reason", "user", "job_id")]
        known += [process.get("user") for process in gpu.get("processes") or ()]
    text = " ".join(clean(value) for value in known if value not in (None, "")).lower()
    return all(word in text for word in words)
