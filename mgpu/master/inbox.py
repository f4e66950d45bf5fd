"""What reaches the tick from the threads that talk to nodes: values, in one queue, with a wake-up."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from mgpu import clock
from mgpu.core.health import ProbeFailure
from mgpu.core.lifecycle import News
from mgpu.core.marks import Order
from mgpu.core.model import NodeName, PartKey
from mgpu.core.observation import Observation


@dataclass(frozen=True, slots=True)
class Probed:
    """The outcome of a probe of `node`, its `number`th, and how long an answer took."""

    node: NodeName
    outcome: Observation | ProbeFailure
    number: int = 0
    took_s: float = 0.0

    @property
    def failure(self) -> str:
        """Why the node did not answer; "" = it did."""
        return self.outcome.reason if isinstance(self.outcome, ProbeFailure) else ""


@dataclass(frozen=True, slots=True)
class Heard:
    """News about parts on `node`, from a look or from the events file. `whose`, here and below: it counts for parts of
    these accounts alone, () = all."""

    node: NodeName
    news: tuple[News, ...]
    whose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look tells of parts that have started, besides news: how much each has written to stdout and stderr, and
    the time limit that its node knows (seconds; None = there is none)."""

    sizes: Mapping[PartKey, tuple[int, int]]
    limits: Mapping[PartKey, int | None]


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A command has ended while so many processes of it still ran: the node ends them."""

    node: NodeName
    key: PartKey
    count: int
    whose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The part on `node` has asked for something to be started on another node of its job. `worked`: no, what it was
    itself to do for such an ask is done."""

    node: NodeName
    key: PartKey
    ask: str
    worked: bool = False
    whose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a step for an ask of this attempt; None = nobody knows. `words`, or the `text` that was read."""

    key: PartKey
    ask: str
    words: tuple[str, ...] | None
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class Silent:
    """The node does not answer: contact with its parts is lost."""

    node: NodeName
    reason: str
    at: float
    whose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collected:
    """Every byte of the part's output is in the spool (`trouble` "") or never will be: the node's copy is done with."""

    key: PartKey
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """An order was carried out, or nobody knows (`answered` False); it may be given again. `what` as in realise."""

    what: str
    key: PartKey
    answered: bool = True


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An operator's word: what is lost on this node will not come back. `done` is over once it is stored, or could not
    be; who no longer waits for it cancels it, and then it is passed over."""

    node: NodeName
    by: str
    at: float
    done: Future[None]


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operator's word: drain or resume this node, or GPUs of it. `done` as in GivenUp."""

    node: NodeName
    order: Order
    done: Future[None]


Word = GivenUp | Ordered  # somebody waits until it is stored
Message = Word | Probed | Heard | Seen | LeftBehind | Asked | Step | Silent | Collected | Done


class Inbox:
    """Any thread puts; the tick takes all at once."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._event = threading.Event()
        self._due = math.inf  # when the next pass has to begin
        self._not_before = -math.inf
        self._lock = threading.RLock()  # a signal may come while it is held, and wake us too

    def put(self, message: Message, within_s: float = 0.0) -> None:
        """`within_s`: so long it may wait for others, to be heard together with them."""
        self._queue.put(message)
        self.wake(within_s)

    def wake(self, within_s: float = 0.0) -> None:
        with self._lock:
            self._due = min(self._due, clock.monotonic() + within_s)
        self._event.set()

    def rest(self, seconds: float) -> None:
        """From now on: what comes one after the other is heard together."""
        self._not_before = clock.monotonic() + seconds

    def wait(self, timeout_s: float) -> None:
        deadline = clock.monotonic() + timeout_s
        while (left := max(min(deadline, self._due), self._not_before) - clock.monotonic()) > 0:
            self._event.wait(left)
            self._event.clear()
        with self._lock:
            self._due = math.inf

    def take(self) -> list[Message]:
        taken: list[Message] = []
        while True:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                return taken
