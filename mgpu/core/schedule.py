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

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from mgpu.core import claims, shortcut
from mgpu.core.claims import NOT_COUNTED
from mgpu.core.limits import Tally
from mgpu.core.memory import Examined, Memory
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.occupancy import taken
from mgpu.core.placement import place
from mgpu.core.plan import (
    Backfill,
    Batch,
    Closed,
    NodeView,
    PendingJob,
    PlacedPart,
    Precedence,
    Reservation,
    Running,
    Shut,
    Snapshot,
    Start,
    Wait,
)
from mgpu.core.policies import BUILT_IN, POLICIES, Policy, PolicyError
from mgpu.core.reservation import Forecast
from mgpu.core.rooms import Room, Rooms, counted, without
from mgpu.core.turns import Turns
from mgpu.core.waits import Blocked, Explainer, Plan, Turned, Waits, too_early


def plan(snapshot: Snapshot, policies: Mapping[str, Policy] = POLICIES, memory: Memory | None = None) -> Plan:
    """Every pending job comes back once, as a Start or as a Wait; an array as a Start for each task that begins, and as
    a Wait if others do not."""
    planner = _planner(snapshot, policies, memory)
    starts, blocked = planner.run()
    planner.settle()
    fixed = {job.job_id: too_early(job, snapshot.now) for job in snapshot.later} | planner.turns.waits
    explainer = Explainer(snapshot.nodes, planner.after(), planner.reservation)
    return Plan(starts, Waits(fixed, blocked, explainer), planner.reservation, planner.turns.more)


def starts_of(
    snapshot: Snapshot, policies: Mapping[str, Policy], memory: Memory
) -> tuple[tuple[Start, ...], tuple[NodeView, ...]]:
    """Of a plan of which nobody will ask for more: the starts, and the nodes as they leave them."""
    planner = _planner(snapshot, policies, memory)
    starts, _ = planner.run()
    return starts, planner.after()


def _planner(snapshot: Snapshot, policies: Mapping[str, Policy], memory: Memory | None) -> _Planner:
    memory = memory or Memory()
    return _Planner(snapshot, policies, memory, memory.begin(snapshot))


@dataclass(slots=True)
class _Planner:
    """The working state of one plan: the nodes as the starts so far leave them. `kept`: the same for jobs that would
    still run when the reservation begins."""

    snapshot: Snapshot
    policies: Mapping[str, Policy]
    memory: Memory
    rooms: Rooms
    kept: Rooms = field(init=False)
    turns: Turns = field(init=False)
    tally: Tally | None = field(init=False)
    reservation: Reservation | None = None
    promised: dict[NodeName, PlacedPart] = field(default_factory=dict)  # the reservation by node
    known: dict[tuple[int, tuple[NodeName, ...]], Examined] = field(default_factory=dict)  # by batch and closed nodes
    promise_in: float = inf  # seconds until the reservation begins
    undecided: list[tuple[Batch, PendingJob, Examined, Policy]] = field(default_factory=list)  # who may get it
    unfit: set[tuple[int, bool]] = field(default_factory=set)  # requests that did not fit, among all rooms or the kept
    over: set[JobId] = field(default_factory=set)  # jobs that will have ended when the reservation begins
    untold: set[tuple[int, float]] = field(default_factory=set)  # requests of which it cannot be told when they start
    started: list[Running] = field(default_factory=list)
    changed: set[NodeName] = field(default_factory=set)  # nodes where something starts
    in_line: dict[str, JobId] = field(default_factory=dict)  # partition -> the job that none may pass there

    def __post_init__(self) -> None:
        self.kept = self.rooms
        self.turns = Turns(self.snapshot.tasks)
        bounds = self.snapshot.bounds
        self.tally = None if bounds is None else Tally.of(bounds, self.snapshot.nodes)

    def run(self) -> tuple[tuple[Start, ...], Turned]:
        starts: list[Start] = []
        blocked: list[tuple[Sequence[PendingJob], Blocked]] = []
        batches = self.snapshot.batches
        place_of = (self.snapshot.order or Precedence(self.snapshot.now)).place
        heads = sorted([(place_of(batch, batch.jobs[0]), number, 0) for number, batch in enumerate(batches)])
        for turn, (_, number, at) in enumerate(heads):  # what follows a start is put in behind it
            batch = batches[number]
            jobs = batch.jobs
            job = jobs[at]
            if job.array is not None and self.turns.full(job):
                answer = None
            elif self.tally is not None:
                answer = self._within_limits(batch, job, self.tally)
            else:
                answer = self._no_chance(batch, job) or self._answer(batch, job)
            if isinstance(answer, Blocked):
                # what did not fit the first of them does not fit the others: devices only become fewer
                blocked.append((jobs[at:] if at else jobs, answer))
                continue
            if answer is not None:
                starts.append(answer)
                if not self.turns.took(job):
                    insort(heads, (place_of(batch, job), number, at), lo=turn + 1)
                    continue
            if at + 1 < len(jobs):
                insort(heads, (place_of(batch, jobs[at + 1]), number, at + 1), lo=turn + 1)
        self.memory.end([self.rooms[name] for name in self.changed])
        return tuple(starts), blocked

    def after(self) -> tuple[NodeView, ...]:
        """The nodes as the starts leave them."""
        return tuple([room.view for room in self.rooms])

    def _within_limits(self, batch: Batch, job: PendingJob, tally: Tally) -> Start | Blocked:
        known = self._known(batch)
        if known.ask.impossible:
            return Blocked(known.ask)
        if wait := tally.wait(batch):
            return Blocked(known.ask, wait)
        waits = tally.closed(batch)
        if not waits:
            return self._no_chance(batch, job) or self._answer(batch, job)
        if known.allowed and waits.keys() >= known.allowed:
            return Blocked(known.ask, next(wait for name, wait in waits.items() if name in known.allowed))
        return self._answer(batch, job, tuple([(name, Shut(wait.detail)) for name, wait in waits.items()]))

    def _known(self, batch: Batch, closed: Closed = ()) -> Examined:
        """Kept while the plan is made: much goes by its identity."""
        if not closed and (at_hand := self.memory.at_hand(batch)):
            return at_hand
        key = id(batch), tuple([name for name, _ in closed])
        found = self.known.get(key)
        if found is None:
            asked = batch._replace(closed=(*batch.closed, *closed)) if closed else batch
            found = self.known[key] = self.memory.examined(asked, self.snapshot.nodes)
        return found

    def _no_chance(self, batch: Batch, job: PendingJob) -> Blocked | None:
        """The answer to most of a long queue, in short: too little is free, whatever it is, and others wait already."""
        if not self.promised and not self.undecided:
            return None
        known = self.memory.at_hand(batch)
        if known is None or known.blocked is None:
            return None
        rooms = self.kept if self.promise_in < batch.span_s or not batch.span_s else self.rooms
        if known.total <= rooms.free:
            return None
        if self.undecided:
            if known.blocked.policy not in BUILT_IN:
                return None
            self.undecided.append((batch, job, known, known.blocked.policy))
        return known.blocked

    def _answer(self, batch: Batch, job: PendingJob, closed: Closed = ()) -> Start | Blocked:
        name = batch.request.policy or self.snapshot.default_policy
        policy = self.policies.get(name)
        known = self._known(batch, closed)
        if policy is None:
            trouble = f"policy {name} failed: not known, there are {', '.join(self.policies)}"
            return Blocked(known.ask, Wait("PolicyError", trouble))
        if known.ask.impossible:
            return Blocked(known.ask)
        if self.in_line and (first := self.in_line.get(batch.request.partition)) is not None:
            return Blocked(known.ask, ahead=first)
        try:
            if parts := self._fit(batch, known, policy):
                if self.tally is not None and (wait := self.tally.beyond(batch, parts)):
                    return Blocked(known.ask, wait)
                self._take(batch, job, parts)
                return Start(job.job_id, parts)
            return self._turn_away(batch, job, known, policy)
        except PolicyError as error:
            return Blocked(known.ask, Wait("PolicyError", f"policy {name} failed: {error}"))

    def _fit(self, batch: Batch, known: Examined, policy: Policy) -> tuple[PlacedPart, ...]:
        if self.undecided and known.total <= self.rooms.free:
            self.settle()
        over_in_time = not self.promised or 0 < batch.span_s <= self.promise_in
        rooms = self.rooms if over_in_time else self.kept
        key = id(known), over_in_time
        ask = known.ask
        if known.total > rooms.free or key in self.unfit:
            return ()
        if shortcut.applies(ask, rooms, policy):
            parts = shortcut.place(ask, rooms, known.of, policy)
        else:
            candidates = known.candidates(rooms.with_free(ask.least))
            parts = place(ask, rooms.place_of, candidates, policy, rooms.doubtful)
        if not parts:
            self.unfit.add(key)
        return parts

    def _take(self, batch: Batch, job: PendingJob, parts: Sequence[PlacedPart]) -> None:
        kept_apart = self.kept is not self.rooms
        until = self.snapshot.now + batch.span_s
        if self.reservation is not None and until <= self.reservation.at:
            self.over.add(job.job_id)
        for part in parts:
            room = self.rooms[part.node]
            view = taken(room.view, room.spots, part.uuids, job.job_id, batch.request)
            room = without(room, part.uuids, view)
            self.rooms.put(room)
            self.changed.add(part.node)
            if kept_apart:
                self.kept.put(self._beside_the_promise(room))
        self.started.append(Running(job.job_id, until, _held(parts)))
        if self.tally is not None:
            self.tally.took(batch, parts)

    def _turn_away(self, batch: Batch, job: PendingJob, known: Examined, policy: Policy) -> Blocked:
        backfill = self.snapshot.backfill
        if backfill is Backfill.EASY and self.reservation is None:
            self.undecided.append((batch, job, known, policy))
            if policy not in BUILT_IN:  # which may fail: that is for this job to tell
                self.settle()
        elif backfill is Backfill.NONE:
            self._promise(batch, job, known, policy)
        if known.blocked is None or known.blocked.policy is not policy:
            known.blocked = Blocked(known.ask, policy=policy)
        return known.blocked

    def settle(self) -> None:
        """Who of those that were turned away gets the reservation: the first that can be told a time. Put off until a
        start depends on it, for often none does; nothing has changed since they were turned away."""
        undecided, self.undecided = self.undecided, []
        for batch, job, known, policy in undecided:
            if self.reservation is None:
                self._promise(batch, job, known, policy)

    def _promise(self, batch: Batch, job: PendingJob, known: Examined, policy: Policy) -> None:
        if (id(known), batch.span_s) in self.untold:
            return
        found = self._foreseen(batch, job, known, policy)
        if found is None:
            self.untold.add((id(known), batch.span_s))
        elif self.snapshot.backfill is Backfill.NONE:
            self.in_line[batch.request.partition] = job.job_id
            self.reservation = self.reservation or found
        else:
            self.reservation = found
            self.promise_in = found.at - self.snapshot.now
            self.promised = {part.node: part for part in found.parts}
            self.over = {one.job_id for one in (*self.snapshot.running, *self.started) if one.until <= found.at}
            self.kept = self.rooms.copy()
            for name in self.promised:
                self.kept.put(self._beside_the_promise(self.rooms[name]))

    def _foreseen(self, batch: Batch, job: PendingJob, known: Examined, policy: Policy) -> Reservation | None:
        seen = self.snapshot
        key = id(known), batch.span_s, policy
        as_before = not self.started and policy in BUILT_IN  # a site's own may look at a clock
        of, memo = self.memory.foreseen.get(key, (None, None)) if as_before else (None, None)
        if of is known and (memo is None or memo.at > seen.now):
            return memo and replace(memo, job_id=job.job_id)
        forecast = Forecast(self.rooms, (*seen.running, *self.started))
        found = forecast.reserve(batch, known, policy, seen.now, job.job_id)
        if as_before:
            self.memory.foreseen[key] = known, found
        return found

    def _beside_the_promise(self, room: Room) -> Room:
        part = self.promised.get(room.view.name)
        if part is None or self.reservation is None:
            return room
        view, promise = room.view, self.reservation
        if promise.request.exclusive:
            view = view._replace(exclusive=promise.job_id)
        room = without(room, part.uuids, view)
        if room.rest == NOT_COUNTED:
            return room
        # cores and memory are no matter of which: what comes back until then may be what it gets
        held = [claim for job_id, claim in view.claims if job_id not in self.over]
        then = claims.minus(view.there, (*held, claims.claim_of(promise.request, len(part.uuids), view.share)))
        return counted(room, claims.least(room.rest, then))


def _held(parts: Sequence[PlacedPart]) -> tuple[tuple[NodeName, tuple[DeviceUuid, ...]], ...]:
    return tuple([(part.node, part.uuids) for part in parts])
