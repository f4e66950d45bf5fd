"""Snapshot -> Plan: which pending jobs start now and where, and why each other one waits.

Jobs are taken by rank; each gets all its parts or none, from what earlier starts of the same plan have left. Same
snapshot, same plan: a memory of earlier ones only spares work.

What happens behind the first job that does not fit is the `backfill`. With `easy` (Lifka, "The ANL/IBM SP scheduling
system", 1995) that job gets a reservation: devices, and the time when the running jobs will have left them at the
latest. Others start only if they end before that time or keep off these devices. A job of which nobody can tell when it
could start gets none and holds up nobody.

Within a plan free devices only become fewer. So once a request did not fit, no other job with it is tried: ten thousand
equal jobs cost as much as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace

from mgpu.core.memory import Examined, Memory
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.occupancy import taken
from mgpu.core.placement import place
from mgpu.core.plan import Backfill, Batch, PendingJob, PlacedPart, Reservation, Running, Snapshot, Start, Wait
from mgpu.core.policies import POLICIES, Policy, PolicyError
from mgpu.core.reservation import Forecast
from mgpu.core.rooms import Room, without
from mgpu.core.waits import Blocked, Explainer, Plan, Waits, too_early


def plan(snapshot: Snapshot, policies: Mapping[str, Policy] = POLICIES, memory: Memory | None = None) -> Plan:
    """Every pending job comes back once, as a Start or as a Wait."""
    memory = memory or Memory()
    planner = _Planner(snapshot, policies, memory, memory.begin(snapshot))
    starts: list[Start] = []
    blocked: dict[JobId, Blocked] = {}
    heads = [(batch.jobs[0].rank, number, 0) for number, batch in enumerate(snapshot.batches)]
    heapify(heads)
    while heads:
        _, number, at = heads[0]
        batch = snapshot.batches[number]
        answer = planner.answer(batch, batch.jobs[at])
        if isinstance(answer, Blocked):
            # what did not fit the first of them does not fit the others: devices only become fewer
            blocked.update(dict.fromkeys([job.job_id for job in batch.jobs[at:]], answer))
            heappop(heads)
            continue
        starts.append(answer)
        if at + 1 < len(batch.jobs):
            heapreplace(heads, (batch.jobs[at + 1].rank, number, at + 1))
        else:
            heappop(heads)
    early = {job.job_id: too_early(job, snapshot.now) for job in snapshot.later}
    after = tuple(planner.rooms[node.name].view for node in snapshot.nodes)
    explainer = Explainer(snapshot.nodes, after, planner.reservation)
    return Plan(tuple(starts), Waits(early, blocked, explainer), planner.reservation)


@dataclass(slots=True)
class _Planner:
    """The working state of one plan: the nodes as the starts so far leave them. `kept`: the same for jobs that would
    still run when the reservation begins."""

    snapshot: Snapshot
    policies: Mapping[str, Policy]
    memory: Memory
    rooms: dict[NodeName, Room]
    kept: dict[NodeName, Room] = field(init=False)
    reservation: Reservation | None = None
    promised: dict[NodeName, PlacedPart] = field(default_factory=dict)  # the reservation by node
    at_hand: dict[int, Examined] = field(default_factory=dict)  # by the identity of the batch
    turned_away: dict[int, Blocked] = field(default_factory=dict)  # by that of what was examined
    free: tuple[int, int] = field(init=False)  # devices, in all rooms and in the kept
    unfit: set[tuple[int, bool]] = field(default_factory=set)  # requests that did not fit, among all rooms or the kept
    started: list[Running] = field(default_factory=list)
    in_line: dict[str, JobId] = field(default_factory=dict)  # partition -> the job that none may pass there

    def __post_init__(self) -> None:
        self.kept = self.rooms
        self._count()

    def _count(self) -> None:
        free = sum([len(room.free) for room in self.rooms.values()])
        kept = free if self.kept is self.rooms else sum([len(room.free) for room in self.kept.values()])
        self.free = kept, free

    def answer(self, batch: Batch, job: PendingJob) -> Start | Blocked:
        name = batch.request.policy or self.snapshot.default_policy
        policy = self.policies.get(name)
        known = self.at_hand.get(id(batch))
        if known is None:
            known = self.at_hand[id(batch)] = self.memory.examined(batch, self.snapshot.nodes)
        if policy is None:
            trouble = f"policy {name} failed: not known, there are {', '.join(self.policies)}"
            return Blocked(known.ask, Wait("PolicyError", trouble))
        if known.ask.impossible:
            return Blocked(known.ask)
        if (first := self.in_line.get(batch.request.partition)) is not None:
            return Blocked(known.ask, ahead=first)
        try:
            if parts := self._fit(batch, known, policy):
                self._take(batch, job, parts)
                return Start(job.job_id, parts)
            return self._turn_away(batch, job, known, policy)
        except PolicyError as error:
            return Blocked(known.ask, Wait("PolicyError", f"policy {name} failed: {error}"))

    def _fit(self, batch: Batch, known: Examined, policy: Policy) -> tuple[PlacedPart, ...]:
        over_in_time = not self.promised or self._over_in_time(batch.span_s)
        key = id(known), over_in_time
        if key in self.unfit or known.ask.shape.total > self.free[over_in_time]:
            return ()
        rooms = self.rooms if over_in_time else self.kept
        need = known.ask.need_on
        open_to_it = (room for room in rooms.values() if len(room.free) >= need(room.view.name))
        parts = place(known.ask, rooms, known.candidates(open_to_it), policy)
        if not parts:
            self.unfit.add(key)
        return parts

    def _over_in_time(self, span_s: float) -> bool:
        return self.reservation is not None and 0 < span_s <= self.reservation.at - self.snapshot.now

    def _take(self, batch: Batch, job: PendingJob, parts: Sequence[PlacedPart]) -> None:
        changed = {}
        for part in parts:
            room = self.rooms[part.node]
            view = taken(room.view, part.uuids, job.job_id, batch.request.exclusive)
            changed[part.node] = without(room, part.uuids)._replace(view=view)
        self.started.append(Running(job.job_id, self.snapshot.now + batch.span_s, _held(parts)))
        kept_apart = self.kept is not self.rooms
        self.rooms.update(changed)
        if kept_apart:
            self.kept.update({name: self._beside_the_promise(room) for name, room in changed.items()})
        self._count()

    def _turn_away(self, batch: Batch, job: PendingJob, known: Examined, policy: Policy) -> Blocked:
        backfill = self.snapshot.backfill
        if backfill is Backfill.NONE or (backfill is Backfill.EASY and self.reservation is None):
            forecast = Forecast(self.rooms, (*self.snapshot.running, *self.started))
            found = forecast.reserve(batch, known, policy, self.snapshot.now, job.job_id)
            if found is not None and backfill is Backfill.NONE:
                self.in_line[batch.request.partition] = job.job_id
                self.reservation = self.reservation or found
            elif found is not None:
                self._promise(found)
        blocked = self.turned_away.get(id(known))
        if blocked is None:
            blocked = self.turned_away[id(known)] = Blocked(known.ask, policy=policy)
        return blocked

    def _promise(self, reservation: Reservation) -> None:
        self.reservation = reservation
        self.promised = {part.node: part for part in reservation.parts}
        self.kept = dict(self.rooms)
        for name in self.promised:
            self.kept[name] = self._beside_the_promise(self.rooms[name])
        self._count()

    def _beside_the_promise(self, room: Room) -> Room:
        part = self.promised.get(room.view.name)
        if part is None or self.reservation is None:
            return room
        room = without(room, part.uuids)
        if self.reservation.exclusive:
            return room._replace(view=replace(room.view, exclusive=self.reservation.job_id))
        return room


def _held(parts: Sequence[PlacedPart]) -> tuple[tuple[NodeName, tuple[DeviceUuid, ...]], ...]:
    return tuple((part.node, part.uuids) for part in parts)
