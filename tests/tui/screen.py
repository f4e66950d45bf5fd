"""The monitor in a test: opened on a stand-in, waited for, and read as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from mgpu.tui.app import Monitor
from mgpu.tui.main_screen import Main
from tests.clocks import HandClock
from tests.tui.stand_in import NOW, StandIn

PATIENCE_S = 30.0


@asynccontextmanager
async def opened(
    master: StandIn, size: tuple[int, int] = (80, 24), theme: str = "dark", answered: bool = True
) -> AsyncIterator[Pilot[None]]:
    """With the first answers on the screen, unless none will come."""
    app = Monitor(master.source(), theme, "head.lab", HandClock(NOW))
    async with app.run_test(size=size, notifications=True) as pilot:
        main = app.main
        if answered:
            await until(pilot, lambda: bool(main.queue.answer) and main.nodes.poll.freshness.good_at is not None)
        await settled(pilot)
        yield pilot


async def until(pilot: Pilot[None], holds: Callable[[], Any]) -> None:
    """Waits as long as it takes, within reason."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while not holds():
        assert loop.time() < deadline, "it did not come to that:\n" + text_of(pilot)
        await pilot.pause(0.01)


async def settled(pilot: Pilot[None]) -> None:
    """What was set off has been drawn."""
    for _ in range(4):
        await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settled(pilot)


def monitor(pilot: Pilot[None]) -> Main:
    """Its screen of lists and details, whatever lies over it."""
    assert isinstance(pilot.app, Monitor)
    return pilot.app.main


def strips_of(pilot: Pilot[None]) -> list[Any]:
    screen = pilot.app.screen
    return list(screen._compositor.render_strips(screen.size))


def lines_of(pilot: Pilot[None]) -> list[str]:
    return [strip.text.rstrip() for strip in strips_of(pilot)]


def text_of(pilot: Pilot[None]) -> str:
    return "\n".join(lines_of(pilot)) + "\n"


def styles_of(pilot: Pilot[None]) -> str:
    """Each run of letters with its colours, line by line; blanks are left out."""
    lines = []
    for strip in strips_of(pilot):
        runs = [f"{segment.text.strip()}  [{segment.style}]" for segment in strip if segment.text.strip()]
        lines.append("\n".join(f"  {run}" for run in runs))
    return "\n--\n".join(lines) + "\n"


def notices(pilot: Pilot[None]) -> list[str]:
    """What was told in the corner."""
    return [notice.message for notice in pilot.app._notifications]
