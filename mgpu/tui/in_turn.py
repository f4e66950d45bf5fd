"""Keys one after the other, each to where the one before it led.

Textual hands a key on as soon as it comes. Of keys that come at once, as over a slow line, all would go to where the
first one goes: `/` and a word to search for would not be that word, but what its letters stand for in a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.events import Key
from textual.message_pump import MessagePump

PATIENCE_S = 0.5  # with one that is on its way out, and does nothing any more


class KeysInTurn:
    def __init__(self, app: App[Any], hand_on: Callable[[Key], Awaitable[None]]) -> None:
        self._app = app
        self._hand_on = hand_on
        self._typed: asyncio.Queue[Key] = asyncio.Queue()

    def put(self, key: Key) -> None:
        self._typed.put_nowait(key)

    async def run(self) -> None:
        while True:
            await self._hand_on(await self._typed.get())
            await _passed(self._app.focused or self._app.screen)
            await _passed(self._app)  # that moves the focus


async def _passed(who: MessagePump) -> None:
    """What it was to do is done."""
    over = asyncio.Event()
    if who.call_later(over.set):
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), PATIENCE_S)
