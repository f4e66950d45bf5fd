"""When and on which devices a job that does not fit now will fit at the latest.

The running jobs end one after the other, each when its limit or its planning time says; the job starts as soon as what
is free by then suffices. Devices that hold anything but a job of ours are never waited for: nobody knows when they
come back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from operator import attrgetter

from mgpu.core import claims, maintenance
from mgpu.core.claims import NOT_COUNTED
from mgpu.core.memory import Examined
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.occupancy import given_back
from mgpu.core.placement import place
from mgpu.core.plan import Batch, DeviceState, PlacedPart, Reservation, Running
from mgpu.core.policies import Candidate, Policy
from mgpu.core.rooms import Room, Rooms, counted


class Forecast:
    """The nodes as they will be. `running` in any order; the rooms hold what they hold now."""

    def __init__(self, rooms: Rooms, running: Iterable[Running]) -> None:
        self._rooms = rooms
        self._ends = sorted(running, key=_end)

    def reserve(self, batch: Batch, known: Examined, policy: Policy, now: float, job_id: JobId) -> Reservation | None:
        """None = it cannot be told when. Raises PolicyError."""
        least = self._least(known)
        if least is None:
            return None

        def fits(count: int) -> tuple[PlacedPart, ...]:
            return place(known.ask, self._rooms.place_of, self._candidates(known, count), policy, self._rooms.doubtful)

        # the more have ended the more is free: the first that suffices is between one that does not and one that does
        step, most = 1, 0
        while True:
            most = min(least + step - 1, len(self._ends))
            if parts := fits(most):
                break
            if most == len(self._ends):
                return None
            least, step = most + 1, 2 * step
        while least < most:
            middle = (least + most) // 2
            if found := fits(middle):
                parts, most = found, middle
            else:
                least = middle + 1
        at = max(now, self._ends[most - 1].until)
        # whoever ends at that very moment leaves its devices too: the more there are to choose from, the fewer of those
        # that are free now have to be kept
        last = bisect_right(self._ends, at, key=lambda one: one.until)
        parts = fits(last) if last > most else parts
        views = [self._rooms[part.node].view for part in parts]
        if any(view.maintenance for view in views) and maintenance.closed_to(batch.span_s, views, at):
            return None
        return Reservation(job_id, at, parts, batch.request)

    def _least(self, known: Examined) -> int | None:
        """How many have to end until the numbers of free devices would do, whatever these are; None = they never do."""
        ask = known.ask
        if len(ask.sizes) == 1:
            return self._least_on_one(ask.sizes[0], self._free(known))
        counts = range(1, len(self._ends) + 1)
        if not counts or not self._could(known, len(counts)):
            return None
        return 1 + bisect_left(counts, True, key=lambda count: self._could(known, count))

    def _least_on_one(self, size: int, free: dict[NodeName, int]) -> int | None:
        enough = max(free.values(), default=-1) >= size
        for count, one in enumerate(self._ends, 1):
            for name, uuids in one.parts:
                if name in free:
                    free[name] += len(uuids)
                    enough = enough or free[name] >= size
            if enough:
                return count
        return None

    def _could(self, known: Examined, count: int) -> bool:
        """Whether the numbers of free devices would do, whatever they are, when so many have ended."""
        ask, free = known.ask, self._free(known)
        for one in self._ends[:count]:
            for name, uuids in one.parts:
                if name in free:
                    free[name] += len(uuids)
        most = sorted(free.values(), reverse=True)
        if not ask.sizes:
            return sum(most[: ask.most_parts]) >= ask.shape.total
        sizes = sorted(ask.sizes, reverse=True)
        return len(most) >= len(sizes) and all(has >= size for has, size in zip(most, sizes, strict=False))

    def _free(self, known: Examined) -> dict[NodeName, int]:
        allowed = known.allowed
        return {
            room.view.name: len(room.free) for room in self._rooms if room.view.usable and room.view.name in allowed
        }

    def _candidates(self, known: Examined, count: int) -> list[Candidate]:
        devices: dict[NodeName, list[DeviceUuid]] = {}
        jobs: dict[NodeName, list[JobId]] = {}
        for one in self._ends[:count]:
            for name, uuids in one.parts:
                if name in jobs:
                    devices[name] += uuids
                    jobs[name].append(one.job_id)
                else:
                    devices[name], jobs[name] = [*uuids], [one.job_id]
        rooms = []
        for room in self._rooms:
            name = room.view.name
            if name in jobs:
                rooms.append(_after(room, devices[name], jobs[name], known.ask.request.exclusive))
            elif room.free or not known.ask.shape.total:
                rooms.append(room)
        return known.candidates(rooms)


_end = attrgetter("until", "job_id")


def _after(room: Room, uuids: Collection[DeviceUuid], jobs: Collection[JobId], alone: bool) -> Room:
    """Those that come back first: what is free now stays free for jobs in between."""
    view = given_back(room.view, room.spots, uuids, jobs) if alone or room.view.exclusive is not None else room.view
    devices, spots = room.view.devices, room.spots
    places = sorted([spots[uuid] for uuid in uuids if uuid in spots])
    back = [devices[at] for at in places if devices[at].state is DeviceState.ALLOCATED]
    after = room._replace(view=view, free=(*back, *room.free))
    if room.rest == NOT_COUNTED:
        return after
    ended = set(jobs)
    return counted(after, claims.minus(room.view.there, (claim for one, claim in room.view.claims if one not in ended)))
