"""An operator who drains nodes and GPUs in the storm and resumes them later, and what must be true meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future

from mgpu.core.marks import Order
from mgpu.core.model import DeviceUuid, NodeName
from mgpu.master.inbox import Ordered
from mgpu.master.master import Master
from tests.sim.node import VirtualNode
from tests.sim.truth import Truth
from tests.sim.world import World

SAID = "2026-12-01T08:00:00Z"
_AGAIN_S = 20.0  # a word that came to nothing, the master having died, is said again
_Place = tuple[str, str]  # node and device, "" = the node


class Drains:
    def __init__(
        self, world: World, truth: Truth, rows: Callable[[str], list[sqlite3.Row]], master: Callable[[], Master | None]
    ) -> None:
        self._world = world
        self._truth = truth
        self._rows = rows
        self._master = master
        self._resumed: set[_Place] = set()
        self._held: dict[_Place, set[tuple[int, int]]] = {}  # the attempts on what was drained when looked at last

    def drain(self, node: VirtualNode) -> None:
        device = self._world.random.choice(("", *node.uuids))
        place = (node.name, device)
        self._say(place, drain=True)
        self._world.after(self._world.pause(60, 400, 0.1), lambda: self._resume(place))

    def _resume(self, place: _Place) -> None:
        if place in self._drained():
            self._resumed.add(place)
            self._say(place, drain=False)

    def resume_all(self) -> None:
        """From now on, whatever is still drained."""
        for place in self._drained():
            self._resume(place)
        self._world.after(_AGAIN_S, self.resume_all)

    def _say(self, place: _Place, drain: bool) -> None:
        master, (node, device) = self._master(), place
        if master is not None:
            self._world.note(f"{node} {device}: {'drain' if drain else 'resume'}")
            devices = (DeviceUuid(device),) if device else ()
            master.inbox.put(Ordered(NodeName(node), Order(drain, "operator", SAID, "a test", devices), Future()))

    def check(self) -> None:
        """After every pass: nothing began on what is drained, and nobody but the operator resumed it."""
        live: dict[_Place, set[tuple[int, int]]] = {}
        for row in self._rows("SELECT node, uuids, job_id, attempt FROM parts WHERE state <> 'ENDED'"):
            for device in ("", *json.loads(row["uuids"])):
                live.setdefault((row["node"], device), set()).add((row["job_id"], row["attempt"]))
        drained = self._drained()
        for place in self._held.keys() - drained.keys():
            del self._held[place]
            if place not in self._resumed:
                self._truth.violate(f"{place} was drained, and nobody resumed it")
            self._resumed.discard(place)
        for place, state in drained.items():
            there = live.get(place, set())
            if there - self._held.setdefault(place, there):
                self._truth.violate(f"{place} is drained, and {there - self._held[place]} began there")
            if place[1] == "" and (state == "DRAINED") == bool(there):
                self._truth.violate(f"{place} is {state}, and {there} are there")
            self._held[place] = there

    def _drained(self) -> dict[_Place, str]:
        found = {}
        for row in self._rows("SELECT name, state, marks FROM nodes"):
            places = {mark["device"] for mark in json.loads(row["marks"]) if mark["kind"] == "drained"}
            found.update({(row["name"], device): row["state"] for device in places})
            if (row["state"] in ("DRAINING", "DRAINED")) != ("" in places):
                self._truth.violate(f"{row['name']} is {row['state']}, but drained are {places}")
        return found
