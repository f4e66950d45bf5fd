"""From one letter to a wall of them, and back again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from textual.events import Resize
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from mgpu.tui.layout import CLASSES, arrange
from tests.tui.screen import lines_of, monitor, opened, press, settled, text_of, until
from tests.tui.stand_in import StandIn

SIZES = [(1, 1), (20, 5), (20, 16), (40, 10), (80, 24), (160, 48), (300, 100)]


async def resize(pilot: Pilot[None], width: int, height: int) -> None:
    await pilot.resize_terminal(width, height)
    await settled(pilot)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_it_opens_and_each_key_works_at_any_size(master: StandIn, size: tuple[int, int]) -> None:
    async def run() -> None:
        async with opened(master, size) as pilot:
            await press(pilot, "j", "G", "enter", "escape", "tab", "enter", "escape", "tab", "slash", "x", "escape")
            for key in ("c", "question_mark", "u", "l"):
                await press(pilot, key)
                await press(pilot, "escape")
            assert pilot.app.is_running

    asyncio.run(run())


def test_after_a_storm_of_sizes_the_picture_is_right(master: StandIn) -> None:
    chance = random.Random(7)

    async def run() -> None:
        async with opened(master) as pilot:
            await pilot.pause(0.3)
            before = text_of(pilot)
            for _ in range(40):
                await pilot.resize_terminal(chance.randint(1, 300), chance.randint(1, 100))
            await resize(pilot, 80, 24)
            await until(pilot, lambda: text_of(pilot) == before)

    asyncio.run(run())


@pytest.mark.parametrize("keys", [(), ("question_mark",), ("l",), ("ctrl+p",)], ids=str)
def test_two_sizes_at_once_come_to_rest(
    master: StandIn, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    """Else the screen would be laid out for the one and for the other in turn, for ever."""
    laid_out: list[Size] = []
    lay_out = Screen._refresh_layout

    def nothing() -> None:
        pass

    def counted(screen: Screen[Any], size: Size | None = None, scroll: bool = False) -> None:
        laid_out.append(screen.size)
        assert len(laid_out) < 100
        screen.call_later(nothing)  # as what is drawn meanwhile: else the sizes in the queue are taken for one
        lay_out(screen, size, scroll)

    async def run() -> None:
        async with opened(master, (160, 48)) as pilot:
            await press(pilot, *keys)
            monkeypatch.setattr(Screen, "_refresh_layout", counted)
            for width in (158, 160, 158, 160):
                size = Size(width, 48)
                pilot.app.screen.post_message(Resize(size, size))
                pilot.app.screen.call_later(nothing)
            await pilot.pause(0.5)
            assert len(laid_out) < 30
            assert pilot.app.screen.size == Size(160, 48)

    asyncio.run(run())


def test_80_by_24_shows_the_main_columns_the_keys_and_the_footer(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            text = text_of(pilot)
            for word in (
                "ID",
                "NAME",
                "USER",
                "STATE",
                "GPUS",
                "TIME",
                "WHERE / WHY",
                "Cancel",
                "Help",
                "Quit",
                "gpu04",
            ):
                assert word in text
            assert max(map(len, lines_of(pilot))) <= 80

    asyncio.run(run())


def test_a_low_terminal_shows_one_list_at_a_time(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master, (60, 10)) as pilot:
            assert "train-1 " in text_of(pilot) and "gpu02 " not in text_of(pilot)
            await press(pilot, "tab")
            assert "train-1 " not in text_of(pilot) and "gpu02 " in text_of(pilot)
            await press(pilot, "tab")
            assert "train-1 " in text_of(pilot) and monitor(pilot).queue.rows.has_focus

    asyncio.run(run())


@pytest.mark.parametrize(("size", "where"), [((160, 48), "beside"), ((100, 40), "below"), ((80, 24), "alone")])
def test_details_stand_where_there_is_room(master: StandIn, size: tuple[int, int], where: str) -> None:
    async def run() -> None:
        async with opened(master, size) as pilot:
            await press(pilot, "j", "enter")
            await settled(pilot)
            lists, details = pilot.app.query_one("#lists"), monitor(pilot).details
            assert details.region.area > 0
            if where == "beside":
                assert details.region.x >= lists.region.right and lists.region.area > 0
            elif where == "below":
                assert details.region.y >= lists.region.bottom and lists.region.area > 0
            else:
                assert lists.region.area == 0
            await press(pilot, "escape")
            assert details.region.area == 0 and lists.region.area > 0

    asyncio.run(run())


def test_details_that_are_open_follow_the_cursor(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master, (160, 48)) as pilot:
            await press(pilot, "enter", "j", "j")
            await until(pilot, lambda: monitor(pilot).details.shown == "3")

    asyncio.run(run())


def test_layouts_leave_room_for_the_queue() -> None:
    for width in range(1, 301, 13):
        for height in range(1, 101):
            for details in (False, True):
                for wish in (None, False, True):
                    found = arrange(width, height, 300, 100, wish, details)
                    assert found.classes <= CLASSES
                    assert found.nodes_height <= max(height * 6 // 10, 3)
                    assert not (wish is None and not found.compact), "a hundred nodes do not fit with bars"
