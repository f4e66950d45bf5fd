"""What each good probe tells of GPUs is kept: by the minute, and for the jobs that hold them.

A pass only adds up what its probes brought. Once a minute, or as soon as a job becomes idle, a thread of its own stores
that, or whoever wants to read it: no pass waits for it. Of what is not stored, a master that is killed loses a minute;
one that ends stores it all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core import usage
from mgpu.core.errors import StoreError
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import AttemptState, Audit, DeviceUuid, NodeName, Part, PartKey
from mgpu.core.notices import IDLE
from mgpu.core.observation import GpuReading, Observation
from mgpu.core.plan import NodeView
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, Entry, Key, PartUse
from mgpu.master.board import Board
from mgpu.master.inbox import Message, Probed
from mgpu.master.worker import Threads
from mgpu.store import samples
from mgpu.store.store import Store
from mgpu.store.writing import Writer

log = logging.getLogger(__name__)

STORE_S = 60.0
ASKED_S = 10.0  # so old what is read may be
AGAIN_S = 10.0  # where it could not be stored
MOST_MINUTES = 30  # of all nodes that wait to be stored: with a full disk the oldest go
LOOKS = 4  # in the pause of so many looks a reading counts: see usage.span_s
LEAST_LONGEST_S = 120.0
PIECE = 25  # nodes, or rows likewise, in a transaction: others write too

K = TypeVar("K")
V = TypeVar("V")
Readings = Mapping[DeviceUuid, GpuReading]


class _Told(NamedTuple):
    """Since when a part is idle, as its row is to say."""

    key: PartKey
    since: float | None


@dataclass(slots=True)
class _Fresh:
    """What is to be stored."""

    minutes: dict[tuple[NodeName, int], dict[Key, Entry]] = field(default_factory=dict)
    places: dict[NodeName, dict[DeviceUuid, int | None]] = field(default_factory=dict)  # indices of the GPUs
    uses: dict[PartKey, PartUse] = field(default_factory=dict)
    told: dict[PartKey, _Told] = field(default_factory=dict)

    def pieces(self) -> list[_Fresh]:
        """The last of them is to be stored first: what is told of a job follows from its use."""
        minutes = [_Fresh(some, {node: self.places[node] for node, _ in some}) for some in _sliced(self.minutes, PIECE)]
        uses = [_Fresh(uses=some) for some in _sliced(self.uses, 10 * PIECE)]
        return [*([_Fresh(told=self.told)] if self.told else []), *minutes, *uses]

    def shorten(self) -> None:
        """The oldest minutes go, should they become too many."""
        starts = set(sorted({start for _, start in self.minutes})[-MOST_MINUTES:])
        self.minutes = {key: entries for key, entries in self.minutes.items() if key[1] in starts}

    def before(self, later: _Fresh) -> _Fresh:
        """What came later counts on top of it."""
        minutes = {key: dict(entries) for key, entries in self.minutes.items()}
        for key, entries in later.minutes.items():
            usage.add(minutes.setdefault(key, {}), entries.items())
        places = dict(self.places)
        for node, more in later.places.items():
            places[node] = {**places.get(node, {}), **more}
        return _Fresh(minutes, places, {**self.uses, **later.uses}, {**self.told, **later.told})


class Sampler:
    """`follow`, `tend` and `close` belong to the master's thread; `settle` to any."""

    def __init__(self, store: Store, config: Config, threads: Threads, clock: Clock) -> None:
        self._store = store
        self._rule = config.idle
        self._longest_s = max(LOOKS * config.heartbeat_interval_s, LEAST_LONGEST_S)
        self._threads = threads
        self._clock = clock
        self._lock = threading.Lock()  # over what is to be stored
        self._storing = threading.Lock()
        self._fresh = _Fresh()
        self._uses: dict[PartKey, PartUse] = {}  # of parts that run
        self._looked: dict[NodeName, float] = {}  # when, by the monotonic clock
        self._to_roll: set[tuple[NodeName, int]] = set()
        self._due = self._tidy_at = clock.monotonic() + STORE_S
        self._soonest = self._settled = 0.0
        self._busy = False

    def load(self) -> None:
        """What is known of the parts that run, when their nodes were looked at last, and the quarters of an hour that
        the master before did not come to."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        with self._store.read() as reader:
            ages = {node.name: now - node.last_seen for node in reader.nodes() if node.last_seen is not None}
            running = {part.key for part in reader.open_parts() if part.state is not AttemptState.ENDED}
            known = samples.uses_of(reader, sorted({key.job_id for key in running}))
            self._to_roll = samples.unrolled(reader, now)
        self._uses = {use.key: use for use in known if use.key in running}
        # for who has a master run once a minute: each of them looks but once
        self._looked = {node: monotonic - age for node, age in ages.items() if 0 <= age <= self._longest_s}

    # --- a pass -----------------------------------------------------------------------------------------------------

    def follow(self, messages: Sequence[Message], board: Board, views: Iterable[NodeView]) -> None:
        looks = [message for message in messages if isinstance(message, Probed)]
        seen = {look.node: look.outcome for look in looks if isinstance(look.outcome, Observation)}
        if not seen:
            return
        now, monotonic = self._clock.now(), self._clock.monotonic()
        held: dict[NodeName, list[Part]] = {name: [] for name in seen}
        for item in board:
            for part in item.parts:
                if part.node in held:
                    held[part.node].append(part)
        minute = usage.bucket_of(now, FINE_S)
        with self._lock:
            for view in views:
                if view.name in seen:
                    readings = usage.by_device(seen[view.name])
                    self._add(view, readings, minute)
                    self._measure(view.name, readings, held[view.name], now, monotonic)
        if monotonic >= self._tidy_at:
            self._tidy_at = monotonic + STORE_S
            runs = {part.key for _, part in board.parts() if part.state is not AttemptState.ENDED}
            self._uses = {key: use for key, use in self._uses.items() if key in runs}

    def _add(self, view: NodeView, readings: Readings, minute: int) -> None:
        seen = [(device, reading) for device in view.devices if (reading := readings.get(device.uuid)) is not None]
        if not seen:
            return
        entries = self._fresh.minutes.setdefault((view.name, minute), {})
        places = self._fresh.places.setdefault(view.name, {})
        for device, reading in seen:
            key = Key(device.uuid, device.job_id or NOBODY)
            entries[key] = usage.with_reading(entries.get(key), reading, device.state)
            places[device.uuid] = reading.index

    def _measure(self, node: NodeName, readings: Readings, parts: Iterable[Part], now: float, monotonic: float) -> None:
        before = self._looked.get(node)
        self._looked[node] = monotonic
        gap_s = None if before is None else monotonic - before
        for part in parts:
            if part.state is not AttemptState.RUNNING or not part.uuids:
                continue
            running_s = now - (part.started if part.started is not None else now)
            seconds = usage.span_s(gap_s, running_s, self._longest_s)
            use = self._uses.get(part.key) or PartUse(*part.key)
            use = usage.used(use, [readings.get(uuid) for uuid in part.uuids], seconds, now, self._rule)
            self._uses[part.key] = self._fresh.uses[part.key] = use
            since = usage.idle_since(use, self._rule)
            if since != part.idle_since:
                self._fresh.told[part.key] = _Told(part.key, since)

    # --- storing ----------------------------------------------------------------------------------------------------

    def tend(self, monotonic: float) -> float:
        """Seconds until there is something to store."""
        due = min(self._due, self._soonest) if self._fresh.told else self._due
        if monotonic >= due and not self._busy:
            self._busy, self._due = True, monotonic + STORE_S
            self._threads.spawn("samples", self._work)
        return max(1.0, self._due - monotonic)

    def _work(self) -> None:
        try:
            self.store()
        except StoreError as error:
            self._due = self._soonest = self._clock.monotonic() + AGAIN_S
            log.warning("what GPUs did cannot be stored: %s; %s", error.message, error.hint)
        finally:
            self._busy = False

    def settle(self) -> None:
        """For who is about to read."""
        monotonic = self._clock.monotonic()
        if monotonic < self._settled + ASKED_S:
            return
        self._settled = monotonic
        try:
            self.store()
        except StoreError as error:
            log.warning("what GPUs did lately cannot be stored, and is not told: %s; %s", error.message, error.hint)

    def close(self) -> None:
        """There is no pass after this."""
        try:
            self.store()
        except StoreError as error:
            log.warning("what GPUs did in the last minute is not stored: %s", error.message)

    def store(self) -> None:
        """All that there is. Raises StoreError, and then what is left is kept for the next time."""
        with self._storing:
            with self._lock:
                fresh, self._fresh = self._fresh, _Fresh()
            pieces = fresh.pieces()
            self._to_roll |= {(node, usage.bucket_of(start, COARSE_S)) for node, start in fresh.minutes}
            try:
                while pieces:
                    with self._store.write() as writer:
                        self._put(writer, pieces[-1])
                    pieces.pop()
            finally:
                if pieces:
                    with self._lock:
                        for piece in pieces:
                            self._fresh = piece.before(self._fresh)
                        self._fresh.shorten()
            self._roll()

    def _put(self, writer: Writer, piece: _Fresh) -> None:
        now = self._clock.now()
        by_node: dict[NodeName, dict[int, dict[Key, Entry]]] = {}
        for (node, start), entries in piece.minutes.items():
            by_node.setdefault(node, {})[start] = entries
        for node, minutes in by_node.items():
            samples.put(writer, node, minutes, piece.places[node], now)
        samples.save_uses(writer, piece.uses.values())
        for told in piece.told.values():
            self._tell(writer, told, now)

    def _tell(self, writer: Writer, told: _Told, now: float) -> None:
        """A job is idle once all its parts are; that is an event."""
        parts = {part.rank: part for part in writer.parts(told.key.job_id, told.key.attempt)}
        part = parts.get(told.key.rank)
        if part is None or part.state is not AttemptState.RUNNING or part.idle_since == told.since:
            return
        was = usage.job_idle_since(parts.values())
        parts[part.rank] = replace(part, idle_since=told.since)
        writer.save_part(parts[part.rank], part)
        since = usage.job_idle_since(parts.values())
        if was is None and since is not None:
            detail = f"GPUs under {self._rule.below} % for {round((now - since) / 60)} min"
            writer.audit(Audit(now, WHO, IDLE, part.job_id, None, detail), writer.job(part.job_id))

    def _roll(self) -> None:
        """The quarters of an hour that are over."""
        now = self._clock.now()
        over = sorted(((node, start) for node, start in self._to_roll if start + COARSE_S <= now), key=lambda it: it[1])
        for at in range(0, len(over), PIECE):
            piece = over[at : at + PIECE]
            with self._store.write() as writer:
                for node, start in piece:
                    samples.roll(writer, node, start, now)
            self._to_roll.difference_update(piece)


def _sliced(values: dict[K, V], count: int) -> list[dict[K, V]]:
    items = list(values.items())
    return [dict(items[at : at + count]) for at in range(0, len(items), count)]
