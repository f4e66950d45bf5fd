"""What is left on nodes, asked and removed for somebody who waits: each node in a thread of its own, for so long and no
longer. A node that hangs costs that one thread; until it answers, it is not asked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from mgpu.core.errors import MgpuError
from mgpu.core.model import NodeName
from mgpu.core.residue import LATE_S, Residue
from mgpu.master.links import Links
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError
from mgpu.remote.runner import Runner

T = TypeVar("T")

LOOK_S = 30.0  # also for a login, and for many run directories on a slow disk
REMOVE_S = 120.0
BATCH = 50  # names in a request


class Residues:
    def __init__(self, links: Links, threads: Threads) -> None:
        self._links = links
        self._threads = threads
        self._lock = threading.Lock()
        self._asked: set[NodeName] = set()

    def look(self, node: NodeName) -> Residue:
        return self._ask(node, LOOK_S, lambda runner: runner.residue())

    def remove(self, node: NodeName, places: Sequence[str], leases: Sequence[str]) -> dict[str, str]:
        """Of each run directory and lease by name, what became of it, in a word (`removed`, or as in WHY_REFUSED)."""

        def task(runner: Runner) -> dict[str, str]:
            came_of_it: dict[str, str] = {}
            for some in _batches(places):
                came_of_it |= runner.remove(LATE_S, some)
            for some in _batches(leases):
                came_of_it |= runner.remove_leases(some)
            return came_of_it

        return self._ask(node, REMOVE_S, task)

    def _ask(self, node: NodeName, limit_s: float, task: Callable[[Runner], T]) -> T:
        link = self._links.named(node)
        with self._lock:
            if node in self._asked:
                raise MgpuError(f"{node} has not answered the last such request yet", "mgpu nodes shows its state")
            self._asked.add(node)
        answers: list[T] = []
        failures: list[RemoteError] = []
        done = threading.Event()

        def ask() -> None:
            try:
                answers.append(task(link.runner))
            except RemoteError as error:
                failures.append(error)
            finally:
                with self._lock:
                    self._asked.discard(node)
                done.set()

        self._threads.spawn(f"residue {node}", ask)
        if not done.wait(limit_s):
            raise MgpuError(f"{node} did not answer in {limit_s:.0f} s", "mgpu nodes shows its state")
        if failures:
            raise MgpuError(f"{node}: {failures[0].message}", "mgpu nodes shows its state")
        if not answers:
            raise MgpuError(f"{node}: its answer could not be read", "see the master's log")
        return answers[0]


def _batches(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at : at + BATCH] for at in range(0, len(names), BATCH)]
