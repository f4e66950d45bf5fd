"""What people do with jobs that they have queued: hold and release them at random, and what must be true meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from mgpu.core.array import each, parse_array, parse_reference
from mgpu.ops import cancel, hold, requeue
from mgpu.ops.context import Caller, Context
from tests.sim.books import Books
from tests.sim.truth import Truth
from tests.sim.weather import Weather
from tests.sim.world import World

Operate = Callable[[Callable[[Context], Any]], Any]
Wish = Callable[[Context, Caller, Mapping[str, Any]], Any]
ADMIN = Caller(1000, "operator")
_AGAIN_S = 20.0  # a word that came to nothing, the master having died, is said again


def one_name(job_id: int, payload: Mapping[str, Any]) -> int | str:
    """What somebody may call the job: of an array, some of its tasks or all."""
    array = payload["options"].get("array")
    if array is None:
        return job_id
    apart = Random(payload["request_id"])
    indices = list(each(parse_array(array).indices))
    one, other = apart.choice(indices), apart.choice(indices)
    return apart.choice((job_id, f"{job_id}_{one}", f"{job_id}_[{one},{other}]", f"{job_id}_[{array}]"))


class Wishes:
    def __init__(self, world: World, truth: Truth, books: Books, operate: Operate) -> None:
        self._world = world
        self._truth = truth
        self._books = books
        self._rows = books.rows
        self._operate = operate
        self._attempts: dict[int, int] = {}  # of jobs that depend on others
        self._held: dict[int, int] = {}  # job -> its attempts, as it was held when looked at last

    def come(self, caller: Caller, name: int | str, weather: Weather) -> None:
        """To a job that was just submitted."""
        if self._world.chance(weather.held):
            who = self._world.random.choice((caller, ADMIN))
            self._world.after(self._world.pause(20, 200, 0.2), lambda: self._say(hold.hold, who, name))
            self._world.after(self._world.pause(60, 400, 0.2), lambda: self._say(hold.release, caller, name))
        if self._world.chance(weather.requeued):
            self._world.after(self._world.pause(80, 300, 0.2), lambda: self._requeue(caller, name))

    def _requeue(self, caller: Caller, name: int | str) -> None:
        """Whether it ended, runs or waits; now and then to be held then."""
        self._books.requeued.add(parse_reference(name))
        self._say(requeue.requeue, caller, name, hold=self._world.chance(0.2))

    def adorn(self, payload: dict[str, Any], weather: Weather) -> None:
        """What is about to be submitted waits for jobs that are there, whatever they are."""
        chance = self._world.random
        known = [row["job_id"] for row in self._rows("SELECT job_id FROM jobs ORDER BY job_id")]
        if not known or not self._world.chance(weather.depends):
            return
        kinds = ("after", "afterok", "afterok", "afternotok", "afterany", "singleton")
        conditions = []
        for kind in chance.choices(kinds, k=chance.randint(1, 2)):
            conditions.append(kind if kind == "singleton" else f"{kind}:{chance.choice(known)}")
        payload["options"]["dependency"] = chance.choice(",?").join(conditions)
        payload["options"]["job_name"] = chance.choice("ab")

    def cancel(self, who: Caller, name: int | str) -> None:
        self._books.cancelled.add(parse_reference(name))
        self._say(cancel.cancel, who, name)

    def release_all(self) -> None:
        """From now on, whatever is still held."""
        for row in self._rows("SELECT job_id FROM jobs WHERE held <> ''"):
            self._say(hold.release, ADMIN, row["job_id"])
        self._world.after(_AGAIN_S, self.release_all)

    def _say(self, what: Wish, who: Caller, name: int | str, **more: bool) -> None:
        request = {"request_id": f"{self._world.random.getrandbits(64):016x}", "ids": [name], **more}
        self._world.note(f"job {name}: {what.__name__} by {who.user}")
        self._operate(lambda context: what(context, who, request))

    def check(self, planned: bool) -> None:
        """After every pass: nothing began that is held or waits for others, and nothing waits in vain."""
        self._check_held()
        self._check_dependents(planned)

    def _check_dependents(self, planned: bool) -> None:
        jobs = {row["job_id"]: row for row in self._rows("SELECT * FROM jobs")}
        for job_id, job in jobs.items():
            asked = json.loads(job["spec"]).get("dependency")
            if asked is None:
                continue
            met = [self._met(job, each, jobs) for each in asked["conditions"]]
            may_start = True in met if asked["either"] else all(met)
            began = job["attempt"] > self._attempts.get(job_id, 0)
            in_vain = not any(one is not False for one in met) if asked["either"] else False in met
            if began and not may_start:
                self._truth.violate(f"job {job_id} began, and what it waits for is {met}: {asked}")
            if planned and job["state"] == "PENDING" and in_vain:
                self._truth.violate(f"job {job_id} waits, and what it waits for can never be: {asked}")
            self._attempts[job_id] = job["attempt"]

    @staticmethod
    def _met(job: sqlite3.Row, condition: Mapping[str, Any], jobs: Mapping[int, sqlite3.Row]) -> bool | None:
        """None = not yet, False = never."""
        kind, other = condition["kind"], jobs.get(condition["job_id"])
        if other is None:
            namesakes = [one for one in jobs.values() if (one["uid"], one["name"]) == (job["uid"], job["name"])]
            own = job["array_id"] or job["job_id"]
            earlier = [one for one in namesakes if (one["array_id"] or one["job_id"]) < own]
            return None if any(one["state"] in ("PENDING", "RUNNING") for one in earlier) else True
        over = other["state"] not in ("PENDING", "RUNNING")
        if kind == "after":
            return True if over or other["start_time"] is not None else None
        well = other["state"] == "COMPLETED"
        return None if not over else kind == "afterany" or well is (kind == "afterok")

    def _check_held(self) -> None:
        held = {
            row["job_id"]: row["attempt"] for row in self._rows("SELECT job_id, attempt FROM jobs WHERE held <> ''")
        }
        for job_id, attempt in held.items():
            if self._held.get(job_id, attempt) != attempt:
                self._truth.violate(f"job {job_id} is held, and attempt {attempt} of it began")
        self._held = held
