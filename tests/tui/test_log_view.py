"""The log of a job on the screen: it follows, stops where somebody reads, finds words, and says what keeps it back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.pilot import Pilot

from mgpu.tui.log_lines import LogLines, folded, height_of
from mgpu.tui.log_text import Line
from mgpu.tui.log_view import LogView
from mgpu.tui.sgr import Look
from tests.client.peer import CUT, Peer, end, job, output, state
from tests.tui.host import Host, screen_text, until, until_shown

BEGIN = {"event": "begin", "offsets": [[1, 0, 0], [2, 0, 0]]}
ATTEMPT = {"event": "attempt", "attempt": 1}
NUMBERS = b"".join(b"line %d\n" % number for number in range(300))


@asynccontextmanager
async def log_of(
    peer: Peer, *streams: list[Any], size: tuple[int, int] = (60, 12)
) -> AsyncIterator[tuple[Pilot[None], LogLines]]:
    peer.streams = list(streams)
    app = Host(peer.path, lambda source, _clock: LogView(source))
    async with app.run_test(size=size) as pilot:
        view = app.query_one(LogView)
        view.show("17")
        view.lines.focus()
        yield pilot, view.lines


@pytest.fixture
def peer(tmp_path: Path) -> Any:
    with Peer(tmp_path / "socket") as made:
        yield made


def rows(pilot: Pilot[None]) -> list[str]:
    """What stands below the head, without the scroll bar."""
    return [line[:-1].rstrip() for line in screen_text(pilot.app)[1:]]


def two_ranks() -> dict[str, Any]:
    first = job("RUNNING")["allocation"][0]
    return state("RUNNING", allocation=[first, {**first, "rank": 1, "node": "gpu02"}])


def test_it_shows_what_is_written_as_it_is_written(peer: Peer) -> None:
    more, last = threading.Event(), threading.Event()
    stream = [
        state("RUNNING"), ATTEMPT, BEGIN, output(b"\x1b[32mstep 1\x1b[0m\n 10%"), more, output(b"\r 20%", offset=20),
        output(b"warning\n", kind=2), last, end("COMPLETED", exit_code=0),
    ]  # fmt: skip

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, lines):
            await until_shown(pilot, " 10%")
            more.set()
            await until_shown(pilot, "e warning")
            assert rows(pilot)[:3] == ["  step 1", "   20%", "e warning"]
            step = lines.strip_of(0)
            assert [segment.style.color.number for segment in step if segment.text == "step 1"] == [2]  # type: ignore[union-attr]
            last.set()
            await until_shown(pilot, "- job 17 COMPLETED, exit 0")
            await until_shown(pilot, "log of job 17  ended")

    asyncio.run(look())
    assert "tail=10000" in next(path for path in peer.paths() if "/stream" in path)


def test_it_follows_until_somebody_scrolls_up_and_again_when_told_to(peer: Peer) -> None:
    more, again = threading.Event(), threading.Event()
    stream = [
        state("RUNNING"), ATTEMPT, BEGIN, output(NUMBERS), more, output(b"new\n" * 5, offset=len(NUMBERS)), again,
        output(b"newer\n", offset=len(NUMBERS) + 20), threading.Event(),
    ]  # fmt: skip

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, lines):
            await until_shown(pilot, "line 299")
            await pilot.press("up")
            await until_shown(pilot, "stopped at line 289 of 300")
            shown = rows(pilot)
            more.set()
            await until_shown(pilot, "stopped at line 289 of 305")
            assert rows(pilot) == shown
            await pilot.press("f")
            await until_shown(pilot, "  new ")
            again.set()
            await until_shown(pilot, "  newer")
            assert lines.following

            await pilot.press("g")
            await until_shown(pilot, "  line 0 ")
            await pilot.press("pagedown")
            await until_shown(pilot, "stopped at line 11 of")
            await pilot.press("pageup", "down")
            await until_shown(pilot, "stopped at line 2 of")
            await pilot.press("G")
            await until_shown(pilot, "log of job 17  follows")
            stream[-1].set()

    asyncio.run(look())


def test_the_mouse_wheel_scrolls_too(peer: Peer) -> None:
    stream = [state("RUNNING"), ATTEMPT, BEGIN, output(NUMBERS), threading.Event()]

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, lines):
            await until_shown(pilot, "line 299")
            lines._on_mouse_scroll_up(_wheel(lines))
            await until(pilot, lambda: not lines.following, "the end of following")
            stream[-1].set()

    asyncio.run(look())


def _wheel(lines: LogLines) -> Any:
    from textual.events import MouseScrollUp

    return MouseScrollUp(lines, 1, 1, 0, 0, 0, False, False, False)


def test_lines_that_fall_out_do_not_move_what_is_read(peer: Peer) -> None:
    begin = b"".join(b"old %d\n" % number for number in range(10_000))
    more = threading.Event()
    stream = [
        state("RUNNING"), ATTEMPT, BEGIN, output(begin), more, output(NUMBERS, offset=len(begin)), threading.Event(),
    ]  # fmt: skip

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, _lines):
            await until_shown(pilot, "old 9999")
            await pilot.press(*["pageup"] * 100)
            await until_shown(pilot, "stopped at line")
            shown = rows(pilot)
            more.set()
            await until_shown(pilot, "of 10300")
            assert rows(pilot) == shown
            stream[-1].set()

    asyncio.run(look())


def test_words_are_found_back_and_forth(peer: Peer) -> None:
    stream = [state("RUNNING"), ATTEMPT, BEGIN, output(NUMBERS), threading.Event()]

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, lines):
            await until_shown(pilot, "line 299")
            await pilot.press("slash", *"LINE 15", "enter")
            await until_shown(pilot, " >line 159")
            assert pilot.app.focused is lines
            await pilot.press("n")
            await until_shown(pilot, " >line 158")
            await pilot.press("N", "N")
            await until_shown(pilot, " >line 159")
            strip = lines.strip_of(159)
            assert [segment.text for segment in strip if segment.style and segment.style.reverse] == ["line 15"]
            await pilot.press("slash", "escape")
            await until(pilot, lambda: not lines.needle, "the end of searching")
            stream[-1].set()

    asyncio.run(look())


def test_long_lines_are_folded_or_scrolled_to_the_side(peer: Peer) -> None:
    long = b"".join(b"%04d " % number for number in range(40)) + b"\n"
    stream = [state("RUNNING"), ATTEMPT, BEGIN, output(long), threading.Event()]

    async def look() -> None:
        async with log_of(peer, stream, size=(43, 8)) as (pilot, lines):
            await until_shown(pilot, "0039")
            assert screen_text(pilot.app)[1].rstrip() == "  0000 0001 0002 0003 0004 0005 0006 0007"
            assert screen_text(pilot.app)[2].rstrip() == "  0008 0009 0010 0011 0012 0013 0014 0015"
            await pilot.press("w")
            await until(pilot, lambda: lines.line_count() == 1, "one line")
            await pilot.press("right", "right")
            await until_shown(pilot, "0008 0009")
            await pilot.press("left", "left", "w")
            await until_shown(pilot, "0039")
            stream[-1].set()

    asyncio.run(look())


def test_one_rank_or_all(peer: Peer) -> None:
    wait = threading.Event()
    offsets = {"event": "begin", "offsets": [[kind, rank, 0] for kind in (1, 2) for rank in (0, 1)]}
    both = [two_ranks(), ATTEMPT, offsets, output(b"from 0\n"), output(b"from 1\n", rank=1), wait]
    one = [
        two_ranks(),
        ATTEMPT,
        {"event": "begin", "offsets": [[1, 1, 0], [2, 1, 0]]},
        output(b"alone\n", rank=1),
        wait,
    ]

    async def look() -> None:
        async with log_of(peer, both, one, both) as (pilot, _lines):
            await until_shown(pilot, "1  from 1")
            await until_shown(pilot, "0  from 0")
            await until_shown(pilot, "log of job 17, all ranks")
            await pilot.press("left_square_bracket")
            await until_shown(pilot, "log of job 17, rank 1 of 2")
            await until_shown(pilot, "alone")
            await pilot.press("right_square_bracket")
            await until_shown(pilot, "0  from 0")
            wait.set()

    asyncio.run(look())
    assert [("rank=1" in path) for path in peer.paths() if "/stream" in path] == [False, True, False]


def test_it_goes_on_where_it_was_after_the_master_was_away(peer: Peer) -> None:
    cut, wait = threading.Event(), threading.Event()
    first = [state("RUNNING"), ATTEMPT, BEGIN, output(b"one\n"), cut, CUT]
    second = [state("RUNNING"), output(b"one\ntwo\n"), wait]

    async def look() -> None:
        async with log_of(peer, first) as (pilot, _lines):
            await until_shown(pilot, "one")
            peer.answers["GET", "/v1/jobs/17/stream"] = cut  # the end, without an answer
            cut.set()
            await until_shown(pilot, "the master is away")
            peer.streams = [second]
            await until_shown(pilot, "two")
            await until(pilot, lambda: "away" not in screen_text(pilot.app)[0], "the end of that")
            assert rows(pilot)[:3] == ["  one", "  two", ""]
            wait.set()

    asyncio.run(look())


def test_what_keeps_it_back_is_told(peer: Peer) -> None:
    lost = {**job("RUNNING")["allocation"][0], "state": "LOST", "lost_since": "2026-01-01T00:00:30Z"}
    wait = threading.Event()
    streams = [state("PENDING"), wait], [state("RUNNING", allocation=[lost], reason="ContactLost"), ATTEMPT, wait]

    async def look(stream: list[Any], words: str) -> None:
        async with log_of(peer, stream, size=(100, 6)) as (pilot, _lines):
            await until_shown(pilot, words)

    asyncio.run(look(streams[0], "it has not begun"))
    asyncio.run(look(streams[1], "no contact with gpu01 since "))
    wait.set()
    peer.answers["GET", "/v1/jobs/17/stream"] = (
        404, {"error": {"code": "not_found", "message": "there is no job 17", "hint": "mgpu queue"}}, {},
    )  # fmt: skip
    asyncio.run(look([], "there is no job 17"))


def test_another_attempt_begins_lines_of_its_own(peer: Peer) -> None:
    wait = threading.Event()
    stream = [
        state("RUNNING"), ATTEMPT, BEGIN, output(b"half"), {"event": "attempt", "attempt": 2}, output(b"whole\n"), wait,
    ]  # fmt: skip

    async def look() -> None:
        async with log_of(peer, stream) as (pilot, _lines):
            await until_shown(pilot, "whole")
            assert rows(pilot)[:3] == [
                "  half", "- attempt 2 begins", "  whole",
            ]  # fmt: skip
            wait.set()

    asyncio.run(look())


@pytest.mark.parametrize(
    ("text", "room", "rows"),
    [
        ("", 10, [""]),
        ("abcdef", 3, ["abc", "def"]),
        ("日本語", 3, ["日", "本", "語"]),
        ("a日b本", 3, ["a日", "b本"]),
        ("日本", 1, ["日", "本"]),
        ("e\u0301e\u0301", 1, ["e\u0301", "e\u0301"]),
    ],
)
def test_folding_counts_columns(text: str, room: int, rows: list[str]) -> None:
    assert ["".join(part for part, _ in row) for row in folded(Line((1, 0), text), room)] == rows


LETTERS = st.text(st.sampled_from("ab 日é\u0301█👩"), max_size=60)
RUNS = st.lists(st.tuples(st.integers(1, 9), st.just(Look(1))), max_size=4).map(tuple)


@given(LETTERS, RUNS, st.integers(2, 30))
def test_so_many_rows_as_were_counted(text: str, runs: tuple[tuple[int, Look], ...], room: int) -> None:
    """Of any letters, with colours that may end behind them."""
    line = Line((1, 0), text, runs)
    rows = [[part for part, _ in row] for row in folded(line, room)]
    assert height_of(line, room) == len(rows)
    assert "".join("".join(row) for row in rows) == text
    assert all(cell_len("".join(row)) <= room for row in rows)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "state"},
        {"event": "end", "job": 5},
        state("RUNNING", allocation=5),
        state("RUNNING", attempt="x"),
        {"event": "attempt", "attempt": None},
        {"event": "begin", "offsets": [[1]]},
        [],
    ],
)
def test_a_stream_of_another_kind_is_told_of(peer: Peer, event: Any) -> None:
    async def look() -> None:
        async with log_of(peer, [event], size=(120, 12)) as (pilot, _):
            await until(pilot, lambda: "is it of this version?" in screen_text(pilot.app)[0])

    asyncio.run(look())
