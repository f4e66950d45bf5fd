"""The threads that may wait for a node, so that the tick never does."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Protocol, TypeVar

from mgpu import clock

log = logging.getLogger(__name__)

IDLE_S = 2.0  # a thread waits so long for more: of many nodes most have nothing to do at a time
AGAIN_S = 1.0  # until a thread is wanted again that there was no room for

Task = Callable[[], None]
T = TypeVar("T")


class Line(Protocol):
    """Does what it is given, one after the other."""

    def do(self, task: Task) -> None: ...


class Threads(Protocol):
    """Where work goes that may take long. A simulation has its own, and decides what runs when."""

    def line(self, name: str) -> Line: ...
    def spawn(self, name: str, task: Task) -> None: ...

    def together(self, tasks: Sequence[Callable[[], T]], limit_s: float) -> list[T | None]:
        """All at the same time; None for what is not over in time, and then nothing ends it. None of them raises."""


class Worker:
    """A thread with a list of things to do, made when the first one comes, gone when none has come for a while. Never
    waited for: a call that hangs holds up this worker alone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._is_made = False
        self._lock = threading.Lock()

    def do(self, task: Task) -> None:
        with self._lock:
            self._queue.put(task)
            if not self._is_made:
                self._is_made = True
                _reserve().spawn(self._name, self._run)

    def _run(self) -> None:
        while task := self._next():
            try:
                task()
            except Exception:  # a programmer's error must not silence a whole node
                log.exception("%s: a task failed", self._name)

    def _next(self) -> Task | None:
        """None = nothing has come for a while; what comes then gets another thread."""
        with suppress(queue.Empty):
            return self._queue.get(timeout=IDLE_S)
        with self._lock:
            self._is_made = not self._queue.empty()
            return self._queue.get() if self._is_made else None


class SystemThreads:
    def __init__(self) -> None:
        _reserve()  # while there is room

    def line(self, name: str) -> Line:
        return Worker(name)

    def spawn(self, name: str, task: Task) -> None:
        def run() -> None:
            try:
                task()
            except Exception:  # nobody else would tell of it
                log.exception("%s: it failed", name)

        _reserve().spawn(name, run)

    def together(self, tasks: Sequence[Callable[[], T]], limit_s: float) -> list[T | None]:
        answers: list[T | None] = [None] * len(tasks)

        def run(at: int) -> None:
            answers[at] = tasks[at]()

        threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(tasks))]
        deadline = clock.monotonic() + limit_s
        began = [thread for thread in threads if _begins(thread)]
        for thread in began:
            thread.join(max(0.0, deadline - clock.monotonic()))
        return list(answers)


class _Reserve:
    """Makes threads; where the machine has no room for one more (a container's limit, a user's), again until it has:
    who asked for it has noted that it is under way. Its own thread for that is there from the beginning."""

    def __init__(self) -> None:
        self._late: queue.SimpleQueue[tuple[str, Task]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="late threads", daemon=True).start()

    def spawn(self, name: str, task: Task) -> None:
        if not _begins(threading.Thread(target=task, name=name, daemon=True)):
            log.warning("%s: there is no room for another thread; it is tried again", name)
            self._late.put((name, task))

    def _run(self) -> None:
        while True:
            name, task = self._late.get()
            while not _begins(threading.Thread(target=task, name=name, daemon=True)):
                threading.Event().wait(AGAIN_S)


@cache
def _reserve() -> _Reserve:
    """One for all: there may be hundreds of SystemThreads."""
    return _Reserve()


def _begins(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
