"""Asks the master again and again, in a thread: never twice at once, at once where something else is wanted now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mgpu.client.http import MasterError
from mgpu.clock import Clock
from mgpu.tui.freshness import Freshness

Answer = TypeVar("Answer")


class Poll(Generic[Answer]):
    """`question()` is made anew each time, on the loop, and called in a thread. Its answer goes to `tell`, unless
    something else was wanted meanwhile; `changed` hears whenever what is known of its freshness may be another."""

    def __init__(
        self,
        question: Callable[[], Callable[[], Answer]],
        tell: Callable[[Answer], None],
        changed: Callable[[], None],
        pause_s: float,
        clock: Clock,
    ) -> None:
        self.freshness = Freshness(pause_s)
        self._question = question
        self._tell = tell
        self._changed = changed
        self._clock = clock
        self._again = asyncio.Event()
        self._outdated = False

    def now(self) -> None:
        """Something else is wanted: what is under way is an answer to what nobody asks any more."""
        self._outdated = True
        self._again.set()

    def soon(self) -> None:
        """The same again, without the pause."""
        self._again.set()

    async def run(self) -> None:
        while True:
            self._again.clear()
            self._outdated = False
            self.freshness.asked(self._clock.now())
            try:
                answer: Any = await asyncio.to_thread(self._question())
            except MasterError as error:
                self.freshness.bad(error.told)
            except OSError as error:
                self.freshness.bad(error.strerror or str(error))
            else:
                self.freshness.good(self._clock.now())
                if not self._outdated:
                    self._tell(answer)
            self._changed()
            await self._pause()

    async def _pause(self) -> None:
        waiting = asyncio.ensure_future(self._again.wait())
        done, _ = await asyncio.wait([waiting], timeout=self.freshness.pause_s)
        if not done:
            waiting.cancel()
