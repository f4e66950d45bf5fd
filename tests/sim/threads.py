"""The master's threads, without threads: the simulation decides what runs when.

A task is carried out at once, but what it puts into the inbox arrives when its calls into the node have taken their
time; until then its line does nothing else. What belongs to a master that died is never run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from mgpu.core.errors import StoreError
from mgpu.master.inbox import Inbox, Message
from mgpu.master.worker import Task
from tests.sim.world import Crash, World

T = TypeVar("T")


class Post(Inbox):
    """The inbox as a node's link sees it: what is put arrives when the task that put it is over."""

    def __init__(self, to: Inbox) -> None:
        super().__init__()
        self._to = to
        self._held: list[Message] | None = None

    def hold(self) -> None:
        self._held = []

    def held(self) -> list[Message]:
        held, self._held = self._held or [], None
        return held

    def put(self, message: Message, within_s: float = 0.0) -> None:
        if self._held is None:
            self._to.put(message, within_s)
        else:
            self._held.append(message)

    def wake(self, within_s: float = 0.0) -> None:
        self._to.wake(within_s)


class VirtualThreads:
    """Of one life of a master."""

    def __init__(self, world: World, slow: Callable[[], float], failed: Callable[[str, BaseException], None]) -> None:
        self.world = world
        self.slow = slow
        self.alive = True
        self.posts: list[Post] = []
        self.spawned: set[str] = set()  # followers and listeners, which only ever wait
        self._failed = failed
        self._inbox: Inbox | None = None

    def post(self, inbox: Inbox) -> Post:
        self._inbox = inbox
        self.posts.append(Post(inbox))
        return self.posts[-1]

    def line(self, name: str) -> VirtualLine:
        return VirtualLine(self, name)

    def spawn(self, name: str, task: Task) -> None:
        if name.startswith(("probe ", "tree ", "calls ", "samples")):
            VirtualLine(self, name).do(task)
        else:
            self.spawned.add(name)

    def together(self, tasks: Sequence[Callable[[], T]], limit_s: float) -> list[T | None]:
        """Their time counts up to the limit; what takes longer is not heard of."""
        answers: list[T | None] = []
        before, longest = self.world.lag, 0.0
        for task in tasks:
            self.world.lag = 0.0
            answer = task()
            took, longest = self.world.lag, max(longest, self.world.lag)
            answers.append(answer if took <= limit_s else None)
        self.world.lag = before + min(longest, limit_s)
        return answers

    def run(self, name: str, task: Task) -> float:
        """How long it takes."""
        for post in self.posts:
            post.hold()
        self.world.lag = 0.0
        try:
            task()
        except Crash as crash:
            self._failed(name, crash)
            return 0.0
        except StoreError:
            pass  # the worker logs it and goes on
        except Exception as error:  # noqa: BLE001  likewise, but it should not have come
            self._failed(name, error)
        finally:
            took, self.world.lag = self.world.lag, 0.0
            arriving = [message for post in self.posts for message in post.held()]
            self.world.after(took, lambda: self._arrive(arriving))
        return took

    def _arrive(self, messages: list[Message]) -> None:
        if self.alive and self._inbox is not None:
            for message in messages:
                self._inbox.put(message)


class VirtualLine:
    def __init__(self, threads: VirtualThreads, name: str) -> None:
        self._threads = threads
        self._name = name
        self._tasks: deque[Task] = deque()
        self._busy = False

    def do(self, task: Task) -> None:
        self._tasks.append(task)
        if not self._busy:
            self._busy = True
            self._threads.world.after(self._threads.slow(), self._next)

    def _next(self) -> None:
        if not self._threads.alive:
            return
        if not self._tasks:
            self._busy = False
            return
        took = self._threads.run(self._name, self._tasks.popleft())
        self._threads.world.after(took + self._threads.slow(), self._next)
