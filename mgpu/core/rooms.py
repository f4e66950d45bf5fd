"""What each node has to give while a plan is made, and what of it a request may use.

`feasible` says in words why a node cannot take a part; here is the same question asked ten thousand times a second, so
it says no more than yes or no. A test holds the two against each other.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from mgpu.core import capacity as cap
from mgpu.core import claims
from mgpu.core.ask import Ask
from mgpu.core.claims import NOT_COUNTED, Claim
from mgpu.core.feasible import within
from mgpu.core.gputype import kind_of
from mgpu.core.model import DeviceUuid, NodeName, Request
from mgpu.core.occupancy import Spots, spots_of
from mgpu.core.plan import DeviceState, DeviceView, NodeView

Devices = tuple[DeviceView, ...]
Offer = Mapping[str, Devices]  # free devices by kind; one kind "" if kinds may differ
NOTHING: Offer = {}
NO_DEVICES: Offer = {"": ()}
ASKS_NOTHING = Request()


class Room(NamedTuple):
    """`alike`: the kind of all its devices, if nothing tells them apart; None = each is looked at. `doubtful`: there
    are suspects among the free. `rest`: the cores and host memory that are left, `most`: the GPUs that a job may have
    for the sake of these if it asks for neither, None = all."""

    view: NodeView
    free: Devices
    alike: str | None
    spots: Spots
    doubtful: bool
    rest: Claim = NOT_COUNTED
    most: int | None = None

    @property
    def open(self) -> bool:
        return self.view.usable and self.view.exclusive is None


def room_of(view: NodeView, alike: str | None, spots: Spots | None = None) -> Room:
    is_free = DeviceState.FREE
    free = tuple([device for device in view.devices if device.state is is_free])
    room = Room(view, free, alike, spots or spots_of(view), True in [device.suspect for device in free])
    return room if view.there == NOT_COUNTED else counted(room, claims.left(view))


def counted(room: Room, rest: Claim) -> Room:
    return room._replace(rest=rest, most=claims.gpus_within(rest, ASKS_NOTHING, room.view.share))


def alike(view: NodeView) -> str | None:
    first = view.devices[0] if view.devices else None
    if first is None or not first.name:
        return None
    marks = {(device.kind, device.name, device.memory_total_mib, device.slice) for device in view.devices}
    return kind_of(first) if len(marks) == 1 and not first.slice else None


def offer(room: Room, ask: Ask, allowed: Collection[NodeName]) -> Offer:
    """NOTHING = no part of the job can start there now."""
    view, request = room.view, ask.request
    if not room.open or view.name in ask.closed or view.name not in allowed:
        return NOTHING
    if request.exclusive and (view.jobs or not _all_free(room)):
        return NOTHING
    need = ask.need_on(view.name)
    most = room.most
    if request.cpus is not None or request.host_memory_mib is not None:
        most = claims.gpus_within(room.rest, request, view.share)
    if most is not None and most < need:
        return NOTHING
    if not need:
        return NO_DEVICES
    if len(room.free) < need:
        return NOTHING
    if room.alike is not None and not request.gpu_ids and not request.pins:
        if not cap.is_of_kind(room.free[0], ask.kinds) or not cap.has_memory(room.free[0], request):
            return NOTHING
        return {"" if request.mixed else room.alike: within(room.free, most)}
    indices = cap.wanted_indices(request, view)
    groups: dict[str, list[DeviceView]] = {}
    for device in room.free:
        if cap.qualifies(device, indices, request, ask.kinds):
            groups.setdefault("" if request.mixed else kind_of(device), []).append(device)
    return {kind: within(tuple(devices), most) for kind, devices in groups.items() if len(devices) >= need}


def _all_free(room: Room) -> bool:
    sound = sum(1 for device in room.view.devices if device.state is not DeviceState.UNHEALTHY)
    return sound == len(room.free)


def without(room: Room, uuids: Collection[DeviceUuid], view: NodeView) -> Room:
    """These devices taken, by what `view` shows."""
    gone = frozenset(uuids)
    free = tuple([device for device in room.free if device.uuid not in gone])
    left = Room(view, free, room.alike, room.spots, room.doubtful)
    return left if view.there == NOT_COUNTED else counted(left, claims.left(view))


class Rooms:
    """Of all nodes, in the order of the inventory; found by name, or by how many devices are free."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._rooms = list(rooms)
        self._at = {room.view.name: at for at, room in enumerate(self._rooms)}
        self.switches = len({room.view.switch for room in self._rooms})
        self._by_free: dict[int, list[int]] = {}  # the places of the open rooms with so many free devices
        self.free = 0  # devices, in open rooms
        self.doubtful = False  # suspects are, or were, among them
        self.uneven = False  # or devices that differ within a node, or are not all to be had
        self.kinds: set[str | None] = set()
        self.sizes: set[int] = set()  # of devices, where those of a node are alike
        for at, room in enumerate(self._rooms):
            self._enter(at, room)

    def __getitem__(self, name: NodeName) -> Room:
        return self._rooms[self._at[name]]

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms)

    def place_of(self, name: NodeName) -> int:
        return self._at[name]

    def copy(self) -> Rooms:
        twin = Rooms.__new__(Rooms)
        twin._rooms, twin._at, twin.switches = self._rooms.copy(), self._at, self.switches
        twin._by_free = {count: places.copy() for count, places in self._by_free.items()}
        twin.free, twin.doubtful, twin.uneven = self.free, self.doubtful, self.uneven
        twin.kinds, twin.sizes = set(self.kinds), set(self.sizes)
        return twin

    def put(self, room: Room) -> None:
        """In the place of the one that this node had."""
        at = self._at[room.view.name]
        before, self._rooms[at] = self._rooms[at], room
        if before.open:
            count = len(before.free)
            places = self._by_free[count]
            del places[bisect_left(places, at)]
            if not places:
                del self._by_free[count]
            self.free -= count
        self._enter(at, room)

    def _enter(self, at: int, room: Room) -> None:
        if not room.open:
            return
        count = len(room.free)
        places = self._by_free.get(count)
        if places is None:
            self._by_free[count] = [at]
        elif places[-1] < at:
            places.append(at)
        else:
            insort(places, at)
        self.free += count
        if count:
            self.doubtful = self.doubtful or room.doubtful
            self.uneven = self.uneven or room.alike is None or (room.most is not None and room.most < count)
            self.kinds.add(room.alike)
            self.sizes.add(cap.size_class(room.free[0]))

    def with_free(self, need: int) -> list[Room]:
        """Those with at least so many free devices, in the order of the inventory."""
        if not need:
            return self._rooms
        found = [at for count, places in self._by_free.items() if count >= need for at in places]
        return [self._rooms[at] for at in sorted(found)]

    def tightest(self, need: int) -> Iterator[Room]:
        """The same, those with the fewest first."""
        for count in sorted(self._by_free):
            if count >= need:
                yield from map(self._rooms.__getitem__, self._by_free[count])

    def roomiest(self, need: int) -> Iterator[Room]:
        """The same, those with the most first."""
        for count in sorted(self._by_free, reverse=True):
            if count >= need:
                yield from map(self._rooms.__getitem__, self._by_free[count])
