"""What people do with jobs that they have queued: hold and release them at random, and what must be true meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mgpu.ops import cancel, hold
from mgpu.ops.context import Caller, Context
from tests.sim.books import Books
from tests.sim.truth import Truth
from tests.sim.world import World

Operate = Callable[[Callable[[Context], Any]], Any]
ADMIN = Caller(1000, "operator")
_AGAIN_S = 20.0  # a word that came to nothing, the master having died, is said again


class Wishes:
    def __init__(self, world: World, truth: Truth, books: Books, operate: Operate) -> None:
        self._world = world
        self._truth = truth
        self._books = books
        self._rows = books.rows
        self._operate = operate
        self._held: dict[int, int] = {}  # job -> its attempts, as it was held when looked at last

    def come(self, caller: Caller, job_id: int, likely: float) -> None:
        """To a job that was just submitted."""
        if self._world.chance(0.4 * likely):
            who = self._world.random.choice((caller, ADMIN))
            self._world.after(self._world.pause(20, 200, 0.2), lambda: self._say(hold.hold, who, job_id))
            self._world.after(self._world.pause(60, 400, 0.2), lambda: self._say(hold.release, caller, job_id))

    def cancel(self, who: Caller, job_id: int) -> None:
        self._books.cancelled.add(job_id)
        self._say(cancel.cancel, who, job_id)

    def release_all(self) -> None:
        """From now on, whatever is still held."""
        for row in self._rows("SELECT job_id FROM jobs WHERE held <> ''"):
            self._say(hold.release, ADMIN, row["job_id"])
        self._world.after(_AGAIN_S, self.release_all)

    def _say(self, what: Callable[[Context, Caller, Mapping[str, Any]], Any], who: Caller, job_id: int) -> None:
        request = {"request_id": f"{self._world.random.getrandbits(64):016x}", "ids": [job_id]}
        self._world.note(f"job {job_id}: {what.__name__} by {who.user}")
        self._operate(lambda context: what(context, who, request))

    def check(self) -> None:
        """After every pass: nothing that is held began."""
        held = {
            row["job_id"]: row["attempt"] for row in self._rows("SELECT job_id, attempt FROM jobs WHERE held <> ''")
        }
        for job_id, attempt in held.items():
            if self._held.get(job_id, attempt) != attempt:
                self._truth.violate(f"job {job_id} is held, and attempt {attempt} of it began")
        self._held = held
