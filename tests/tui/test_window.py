"""A hundred thousand jobs: some hundred rows are here, the others come when they come into view."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import parse_qs, urlsplit

from mgpu.tui.wanted import LEAST_ROWS, MOST_ROWS, Wanted
from tests.tui.screen import monitor, opened, press, text_of, until
from tests.tui.stand_in import StandIn


def test_to_the_last_of_a_hundred_thousand_and_back(master: StandIn) -> None:
    master.total, master.running = 100_000, 400

    async def run() -> None:
        async with opened(master, (100, 30)) as pilot:
            rows = monitor(pilot).queue.rows
            assert rows.total == 100_000
            await press(pilot, "G")
            assert rows.cursor == 99_999
            await until(pilot, lambda: rows.current is not None)
            assert rows.current["job_id"] == 100_000
            assert "train-100000" in text_of(pilot)
            await press(pilot, *["pageup"] * 30)
            await until(pilot, lambda: rows.current is not None)
            assert rows.current["job_id"] == rows.cursor + 1
            await press(pilot, "g")
            assert rows.cursor == 0
            await until(pilot, lambda: rows.current is not None and "train-1 " in text_of(pilot))

    asyncio.run(run())
    asked = [parse_qs(urlsplit(path).query) for path in master.paths() if path.startswith("/v1/window")]
    assert all(int(query["limit"][0]) == LEAST_ROWS for query in asked)


def test_what_is_not_here_yet_is_no_job_to_act_on(master: StandIn) -> None:
    master.total = 100_000

    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            master.hangs = threading.Event()
            await press(pilot, "G", "c", "enter", "y")
            assert rows.cursor == 99_999 and rows.current is None
            assert len(pilot.app.screen_stack) == 1 and not monitor(pilot).details.open
        master.hangs.set()

    asyncio.run(run())


def test_a_window_is_asked_for_before_its_end_is_in_view() -> None:
    wanted = Wanted()
    assert not wanted.cover(0, 20, 1000)
    assert not wanted.cover(150, 170, 1000)
    assert wanted.cover(170, 190, 1000)
    assert (wanted.offset, wanted.limit) == (80, LEAST_ROWS)
    assert not wanted.cover(170, 190, 1000)
    assert wanted.cover(90, 110, 1000)
    assert wanted.offset == 0
    assert wanted.cover(980, 1000, 1000)
    assert not wanted.cover(980, 1000, 1000)
    assert wanted.cover(0, 900, 5000)
    assert wanted.limit == MOST_ROWS


def test_filters_in_words_and_for_the_master() -> None:
    wanted = Wanted(offset=300)
    wanted.search, wanted.mine, wanted.user = " a b ", True, "bob"
    wanted.sort_by("time")
    wanted.sort_by("time")
    assert wanted.words() == ["search “a b”", "mine", "of bob", "by time, turned round"]
    query = wanted.query()
    assert (query["search"], query["sort"], query["offset"], query["me"]) == ("a b", "-time", 0, "1")
    assert wanted.filtered
    wanted.drop_filters()
    assert not wanted.filtered
    assert wanted.words() == ["by time, turned round"]
