"""Whether the nodes of a job reach each other: looked at before the first start on them, and remembered.

Ranks that cannot reach each other hang until their library gives up, often after half an hour. So an attempt on nodes
that were not looked at together lately waits for a look, and only then its parts are started: with the addresses at
which they were really reached, or not at all. What could not be looked at keeps nobody from starting.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mgpu.clock import Clock
from mgpu.core.meeting import Call, Meeting, Pair, Side, candidates, one_machine, pairs_of, reached_by_all, settle
from mgpu.core.model import JobId, NodeName, Part
from mgpu.core.observation import Observation
from mgpu.logbook import about
from mgpu.master.board import Board, Running
from mgpu.master.calling import OPEN_S, Calling
from mgpu.master.link import NodeLink
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError

log = logging.getLogger(__name__)

GOOD_S = 86_400.0  # what went well is believed for so long
FAILED_S = 10.0  # what failed: jobs end by it, and somebody may be mending it
DOUBT_S = 60.0  # what could not be tried
MOST_LOOKS = 2  # for an attempt: a node may have come back from a reboot meanwhile
MORE = "a firewall? network.address in the inventory names another address; mgpu preflight -w {} says more"

AttemptKey = tuple[JobId, int]
PairBasis = tuple[Side, Side, bool]


@dataclass(frozen=True, slots=True)
class _Basis:
    """What is known of nodes beforehand: with anything else, a look would see something else."""

    sides: Mapping[NodeName, Side]
    one_machine: bool

    def of(self, pair: Pair) -> PairBasis:
        return self.sides[pair[0]], self.sides[pair[1]], self.one_machine


@dataclass(frozen=True, slots=True)
class _Known:
    """What was last seen of a pair. `well`: the one is reached at the address that the look found for it; `failed`: it
    is not."""

    at: float
    basis: PairBasis
    calls: tuple[Call, ...]
    well: bool
    failed: bool

    def holds(self, basis: PairBasis, now: float) -> bool:
        lasts_s = GOOD_S if self.well else FAILED_S if self.failed else DOUBT_S
        return self.basis == basis and now - self.at < lasts_s


class Preflight:
    """`judge` and `follow` belong to the tick; the others may be called from any thread."""

    def __init__(
        self,
        links: Mapping[NodeName, NodeLink],
        threads: Threads,
        clock: Clock,
        ports: tuple[int, int],
        wake: Callable[[], None],
        seen: Callable[[NodeName], Observation | None],
        enabled: bool = True,
    ) -> None:
        self._enabled = enabled
        self._links = links
        self._threads = threads
        self._clock = clock
        self.ports = ports
        self._wake = wake
        self._seen = seen
        self._taken: frozenset[int | None] = frozenset()
        self._lock = threading.Lock()
        self._known: dict[Pair, _Known] = {}
        self._looking: set[AttemptKey] = set()
        self._settled: dict[AttemptKey, Meeting] = {}
        self._looks: dict[AttemptKey, int] = {}

    # --- for the tick -----------------------------------------------------------------------------------------------

    def judge(self, item: Running) -> Meeting | None:
        """Where the ranks of an attempt reach each other; None = that is being looked at, and wakes the master."""
        parts = item.parts
        if len(parts) == 1 or not self._enabled or any(part.node not in self._links for part in parts):
            return self._believed(parts)
        key = item.job.job_id, item.attempt.number
        if key in self._settled:
            return self._settled[key]
        names = [part.node for part in parts]
        calls = self._calls(names)
        if calls is not None:
            self._settled[key] = settle(names, calls)
            if failed := self._settled[key].failed:
                log.info("%s", failed.words(), extra=about(job_id=key[0]))
        elif self._looks.get(key, 0) >= MOST_LOOKS:
            self._settled[key] = self._believed(parts)
        else:
            self._begin(key, names)
        return self._settled.get(key)

    def follow(self, board: Board) -> None:
        """What is going on: ports that are spoken for, and attempts that need no memory any more."""
        self._taken = frozenset(item.attempt.port for item in board)
        for memory in (self._settled, self._looks):
            if memory:
                alive = {(item.job.job_id, item.attempt.number) for item in board}
                for key in memory.keys() - alive:
                    del memory[key]

    def _begin(self, key: AttemptKey, names: Sequence[NodeName]) -> None:
        with self._lock:
            if key in self._looking:
                return
            self._looking.add(key)
        self._looks[key] = self._looks.get(key, 0) + 1

        def task() -> None:
            try:
                self.look(names, fresh=False)
            finally:
                with self._lock:
                    self._looking.discard(key)
                self._wake()

        self._threads.spawn(f"calls {key[0]}.{key[1]}", task)

    def _believed(self, parts: Sequence[Part]) -> Meeting:
        """Without a look. Of several, a loopback by which the master knows one is of no use to the others."""
        sides = [
            self.side(part.node, part.address) if part.node in self._links else Side(part.node, reached=part.address)
            for part in parts
        ]
        if len(sides) == 1:
            return Meeting((sides[0].told or sides[0].reached,))
        here = one_machine(sides)
        return Meeting(tuple(next(iter(candidates(side, (), here)), "") for side in sides))

    # --- for anybody ------------------------------------------------------------------------------------------------

    def is_looked_at(self, job_id: JobId) -> bool:
        """It waits for just that."""
        with self._lock:
            return any(key[0] == job_id for key in self._looking)

    def look(self, names: Sequence[NodeName], fresh: bool) -> list[Call]:
        """Have them call each other. `fresh`: also those pairs of which is known how they stand."""
        self._log_in(names)
        basis = self._basis(names)
        pairs = [pair for pair in pairs_of(names) if fresh or self._known_of(pair, basis) is None]
        taking_part = {name for pair in pairs for name in pair}
        peers = {name: self._links[name].runner.peers for name in taking_part}
        calling = Calling(peers, self._threads, self.ports, self._taken)
        calls = calling.calls([basis.sides[name] for name in names if name in taking_part], pairs, basis.one_machine)
        self._remember(calls, basis)
        return calls

    def _log_in(self, names: Sequence[NodeName]) -> None:
        """Where we reach a node is known once we have; who does not answer shows that again in the look."""

        def task(name: NodeName) -> Callable[[], None]:
            def ask() -> None:
                with contextlib.suppress(RemoteError):
                    self._links[name].runner.peers.run(":", 1)

            return ask

        strangers = [task(name) for name in names if not self._links[name].address]
        if strangers:
            self._threads.together(strangers, OPEN_S)

    def _remember(self, calls: Sequence[Call], basis: _Basis) -> None:
        of: dict[Pair, list[Call]] = {}
        for call in calls:
            of.setdefault((call.source, call.target), []).append(call)
        places = {name: reached_by_all(calls, name) for name in {target for _, target in of}}
        now = self._clock.monotonic()
        with self._lock:
            for pair, made in of.items():
                there = [call for call in made if call.address == places[pair[1]]]
                well = bool(there) and not any(call.failed or call.doubt for call in there)
                failed = not well and any(call.failed for call in made)
                self._known[pair] = _Known(now, basis.of(pair), tuple(made), well, failed)
            # where a wall has come up, what went well before is believed of nobody who is next to it
            walled = {name for pair, made in of.items() if not self._known[pair].well for name in _walled(made)}
            for pair in [pair for pair, known in self._known.items() if known.well and pair not in of]:
                if walled.intersection(pair):
                    del self._known[pair]

    def _calls(self, names: Sequence[NodeName]) -> list[Call] | None:
        """Of all pairs, as far as is known; None = something is not."""
        found: list[Call] = []
        basis = self._basis(names)
        for pair in pairs_of(names):
            known = self._known_of(pair, basis)
            if known is None:
                return None
            found += known
        return found

    def _known_of(self, pair: Pair, basis: _Basis) -> tuple[Call, ...] | None:
        with self._lock:
            known = self._known.get(pair)
        if known is None or not known.holds(basis.of(pair), self._clock.monotonic()):
            return None
        return known.calls

    def _basis(self, names: Sequence[NodeName]) -> _Basis:
        sides = {name: self.side(name) for name in names}
        return _Basis(sides, one_machine(sides.values()))

    def side(self, name: NodeName, address: str = "") -> Side:
        """`address`: where it was reached before."""
        link, seen = self._links[name], self._seen(name)
        return Side(name, link.config.network_address, link.address or address, seen.boot_id if seen else "")


def _walled(calls: Sequence[Call]) -> set[NodeName]:
    return {name for call in calls if call.failed for name in (call.source, call.target)}


def why_not(meeting: Meeting) -> str:
    """In a line, with what to do."""
    assert meeting.failed is not None
    first, second = sorted((meeting.failed.source, meeting.failed.target))
    return f"{meeting.failed.words()} ({MORE.format(f'{first},{second}')})"
