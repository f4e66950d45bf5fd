"""The threads that may wait for a node, so that the tick never does."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mgpu import clock

log = logging.getLogger(__name__)

Task = Callable[[], None]
T = TypeVar("T")


class Line(Protocol):
    """Does what it is given, one after the other."""

    def do(self, task: Task) -> None: ...
    def end(self) -> None: ...


class Threads(Protocol):
    """Where work goes that may take long. A simulation has its own, and decides what runs when."""

    def line(self, name: str) -> Line: ...
    def spawn(self, name: str, task: Task) -> None: ...

    def together(self, tasks: Sequence[Callable[[], T]], limit_s: float) -> list[T | None]:
        """All at the same time; None for what is not over in time, and then nothing ends it. None of them raises."""


class Worker:
    """A thread with a list of things to do, made when the first one comes. Never waited for: a call that hangs holds up
    this worker alone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def do(self, task: Task) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._queue.put(task)

    def end(self) -> None:
        """After what is queued."""
        self._queue.put(None)

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            try:
                task()
            except Exception:  # a programmer's error must not silence a whole node
                log.exception("%s: a task failed", self._name)


class SystemThreads:
    def line(self, name: str) -> Line:
        return Worker(name)

    def spawn(self, name: str, task: Task) -> None:
        threading.Thread(target=task, name=name, daemon=True).start()

    def together(self, tasks: Sequence[Callable[[], T]], limit_s: float) -> list[T | None]:
        answers: list[T | None] = [None] * len(tasks)

        def run(at: int) -> None:
            answers[at] = tasks[at]()

        threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(tasks))]
        deadline = clock.monotonic() + limit_s
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - clock.monotonic()))
        return list(answers)
