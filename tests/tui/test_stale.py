"""A master that is away or hangs: what is shown is marked as old, keys are answered, and it comes back by itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mgpu.tui.freshness import Freshness, Pauses
from tests.tui.screen import monitor, opened, press, text_of, until
from tests.tui.stand_in import StandIn

REFUSAL = (503, {"error": {"code": "store", "message": "the disk is full", "hint": "make room"}}, {})


def tick(pilot: object, seconds: float) -> None:
    main = monitor(pilot)  # type: ignore[arg-type]
    main._clock.passed += seconds  # type: ignore[attr-defined]
    main._tick()


def test_what_is_old_is_marked_with_its_age_and_why_until_it_is_fresh_again(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master, (120, 30)) as pilot:
            assert "stale" not in text_of(pilot)
            master.failure = REFUSAL
            await until(pilot, lambda: "stale" in text_of(pilot))
            tick(pilot, 65)
            await until(pilot, lambda: "stale, 1:05 old: the disk is full: make room" in text_of(pilot))
            assert "train-1 " in text_of(pilot)  # what was known stays there
            assert "14:13:20" in text_of(pilot)  # and so does the time at which it was so
            master.failure = None
            await until(pilot, lambda: "stale" not in text_of(pilot))
            assert "14:14:25" in text_of(pilot)

    asyncio.run(run())


def test_a_master_that_hangs_is_told_of_and_keys_are_answered(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            master.hangs = threading.Event()
            asked = len(master.requests)
            await until(pilot, lambda: len(master.requests) >= asked + 2)
            tick(pilot, 8)
            await until(pilot, lambda: "stale, 0:08 old: the master is silent" in text_of(pilot))
            await press(pilot, "j", "j")
            assert monitor(pilot).queue.rows.cursor == 2
            tick(pilot, 60)
            await pilot.pause(0.1)
            assert len(master.requests) == asked + 2  # never two of a kind at once
            await press(pilot, "q")
            assert pilot.app._exit
        master.hangs.set()

    asyncio.run(run())


def test_without_any_answer_it_says_so(master: StandIn) -> None:
    master.failure = REFUSAL

    async def run() -> None:
        async with opened(master, answered=False) as pilot:
            await until(pilot, lambda: "no answer yet: the disk is full" in text_of(pilot))
            assert "the master has not answered yet" in text_of(pilot)

    asyncio.run(run())


@pytest.mark.parametrize("answer", [{"jobs": 1}, b"[]", b"{", {"jobs": [{}], "offset": 0, "matching": 1}])
def test_an_answer_of_another_kind_ends_nothing(master: StandIn, answer: object) -> None:
    master.answers["GET", "/v1/window"] = answer

    async def run() -> None:
        async with opened(master, (250, 30), answered=False) as pilot:
            await until(pilot, lambda: "cannot be read" in text_of(pilot) or "is not JSON" in text_of(pilot))
            del master.answers["GET", "/v1/window"]
            await until(pilot, lambda: "train-1 " in text_of(pilot))

    asyncio.run(run())


def test_freshness_in_words() -> None:
    fresh = Freshness(2.0)
    assert fresh.words(0) == ""
    fresh.asked(0)
    assert fresh.words(6) == ""
    assert fresh.words(6.5) == "no answer yet: the master is silent"
    fresh.good(7)
    assert fresh.words(13) == ""
    fresh.bad("no route\x1b[2J")
    assert fresh.words(8) == "stale, 0:01 old: no route\\e[2J"
    fresh.good(9)
    assert fresh.words(10) == ""


def test_a_node_is_old_after_twice_its_usual_pause() -> None:
    pauses = Pauses()
    assert pauses.old_after_s("a") == 60
    for at in (0, 20, 20, 40, 60, 960, 980):
        pauses.saw("a", at)
    pauses.saw("a", None)
    assert pauses.old_after_s("a") == 40  # one long silence is not usual
    for at in (1, 2, 3):
        pauses.saw("b", at)
    assert pauses.old_after_s("b") == 10
