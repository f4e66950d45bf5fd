"""What is going on, as it is stored: the attempts that are not done with, and the wishes.

A pass reads it afresh, unless nothing was written since the pass before it did: the master executes what is stored,
never what it has just computed, so that a crash between any two steps is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mgpu.core.model import Attempt, Job, JobId, NodeName, Part, PartKey
from mgpu.core.reconcile import ANY_RANK
from mgpu.store.reading import Reader


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt with its job and all of its parts, in rank order."""

    job: Job
    attempt: Attempt
    parts: tuple[Part, ...]

    @property
    def current(self) -> bool:
        return self.job.attempt == self.attempt.number


class Board:
    def __init__(self, running: Iterable[Running]) -> None:
        self._running = {(item.job.job_id, item.attempt.number): item for item in running}

    @classmethod
    def read(cls, reader: Reader) -> Board:
        return cls(Running(job, attempt, tuple(parts)) for job, attempt, parts in reader.open_attempts())

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running.values())

    def get(self, job_id: JobId, attempt: int) -> Running | None:
        return self._running.get((job_id, attempt))

    def put(self, item: Running) -> None:
        self._running[item.job.job_id, item.attempt.number] = item

    def resolve(self, key: PartKey, node: NodeName | None) -> Part | None:
        """The part of that key; where the rank is not told, the one on `node`."""
        item = self._running.get((key.job_id, key.attempt))
        if item is None:
            return None
        for part in item.parts:
            if part.rank == key.rank or (key.rank == ANY_RANK and part.node == node):
                return part
        return None

    @property
    def wishes(self) -> bool:
        """Somebody wants a job ended, and not all of its parts know yet."""
        return any(
            item.job.stop and item.current and any(not part.stop and part.state.holds_devices for part in item.parts)
            for item in self
        )

    def parts(self) -> Iterator[tuple[Running, Part]]:
        for item in self._running.values():
            for part in item.parts:
                yield item, part

    def on(self, node: NodeName) -> list[tuple[Running, Part]]:
        return [(item, part) for item, part in self.parts() if part.node == node]

    def by_node(self) -> dict[NodeName, list[tuple[Running, Part]]]:
        found: dict[NodeName, list[tuple[Running, Part]]] = {}
        for item, part in self.parts():
            found.setdefault(part.node, []).append((item, part))
        return found
