"""Each key of details and logs does what its line in the help says. A key without a test fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from mgpu.tui.keys import KEYS, Key
from mgpu.tui.log_lines import LogLines
from mgpu.tui.log_view import LogView
from tests.client.peer import Peer, job, output, state
from tests.tui.host import Host, screen_text, until, until_shown

Test = Callable[[Pilot[None], LogLines, str], Awaitable[None]]
TESTS: dict[tuple[str, str], Test] = {}
EACH = [(key, name) for key in KEYS if key.where in ("lines", "log") for name in key.keys.split(",")]
PAGE = 9  # lines that are visible
LAST = 100 - PAGE


def of(where: str, action: str) -> Callable[[Test], Test]:
    def kept(test: Test) -> Test:
        TESTS[where, action] = test
        return test

    return kept


def stream_of(*ranks: int) -> list[Any]:
    """Of a job with two ranks, of which these are followed."""
    first = job("RUNNING")["allocation"][0]
    written = b"".join(b"%d %s\n" % (number, b"word " * 20) for number in range(100 // len(ranks)))
    begun = [state("RUNNING", allocation=[first, {**first, "rank": 1}]), {"event": "attempt", "attempt": 1}]
    offsets = [[kind, rank, 0] for kind in (1, 2) for rank in ranks]
    return [*begun, {"event": "begin", "offsets": offsets}, *(output(written, rank=rank) for rank in ranks)]


@pytest.mark.parametrize(("key", "name"), EACH, ids=[f"{key.where}-{name}" for key, name in EACH])
def test_a_key(tmp_path: Path, key: Key, name: str) -> None:
    wait = threading.Event()

    async def run(peer: Peer) -> None:
        peer.streams = [[*stream_of(*ranks), wait] for ranks in ((0, 1), (0,), (1,), (0, 1))]
        if name == "left_square_bracket":
            del peer.streams[1]
        app = Host(peer.path, lambda source, _clock: LogView(source))
        async with app.run_test(size=(60, PAGE + 1)) as pilot:
            app.query_one(LogView).show("17")
            lines = app.query_one(LogLines)
            lines.focus()
            lines.folds = False
            await until(pilot, lambda: lines.top == LAST, "all of it")
            await TESTS[key.where, key.action](pilot, lines, name)
            wait.set()

    with Peer(tmp_path / "socket") as peer:
        asyncio.run(run(peer))


def test_no_test_is_of_a_key_that_is_gone() -> None:
    assert TESTS.keys() == {(key.where, key.action) for key, _ in EACH}


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


# --- in details and logs ---


@of("lines", "scroll('down')")
async def goes_down(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "g", name, name)
    assert lines.top == 2
    await press(pilot, "G", name)
    assert lines.top == LAST


@of("lines", "scroll('up')")
async def goes_up(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name)
    assert lines.top == LAST - 1
    await press(pilot, "g", name)
    assert lines.top == 0


@of("lines", "scroll('page_down')")
async def goes_a_page_down(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "g", name)
    assert lines.top == PAGE - 1


@of("lines", "scroll('page_up')")
async def goes_a_page_up(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name)
    assert lines.top == LAST - (PAGE - 1)


@of("lines", "scroll('first')")
async def goes_to_the_first(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name)
    assert lines.top == 0
    assert not lines.following


@of("lines", "scroll('last')")
async def goes_to_the_last(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "g", name)
    assert lines.top == LAST
    assert lines.following


@of("lines", "scroll('right')")
async def goes_right(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    before = screen_text(pilot.app)[1]
    await press(pilot, name)
    half = lines.wide // 2
    assert lines.scroll_offset.x == half
    assert screen_text(pilot.app)[1].startswith(before[half : lines.wide])


@of("lines", "scroll('left')")
async def goes_left(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "right", name, name)
    assert lines.scroll_offset.x == 0


# --- in a log ---


@of("log", "follow")
async def follows(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "g", name)
    assert lines.following
    assert lines.top == LAST


@of("log", "search")
async def searches(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name, *"12 word", "enter")
    await until_shown(pilot, "1 >12 word")
    assert lines.has_focus


@of("log", "next(True)")
async def goes_to_the_one_before(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "slash", *"7 word", "enter", name)
    await until_shown(pilot, "1 >37 word")


@of("log", "next(False)")
async def goes_to_the_next_one(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, "slash", *"7 word", "enter", "n", "n", name)
    await until_shown(pilot, "1 >37 word")


@of("log", "fold")
async def folds(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name)
    assert lines.line_count() == 200
    await press(pilot, name)
    assert lines.line_count() == 100


@of("log", "rank(1)")
async def goes_to_the_next_rank(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    for head in ("job 17, rank 0 of 2", "job 17, rank 1 of 2", "job 17, all ranks"):
        await press(pilot, name)
        await until_shown(pilot, head)
        await until(pilot, lambda: lines.line_count() == 100, "all of it")


@of("log", "rank(-1)")
async def goes_to_the_rank_before(pilot: Pilot[None], lines: LogLines, name: str) -> None:
    await press(pilot, name)
    await until_shown(pilot, "log of job 17, rank 1 of 2")
    await until(pilot, lambda: lines.line_count() == 100, "all of it")
