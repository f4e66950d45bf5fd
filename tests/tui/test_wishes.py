"""What is wished is about the job that was meant, however the rows move meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from mgpu.tui.dialogs import Confirm
from mgpu.tui.threads import MOST
from mgpu.tui.wishes import Errand, drained, named, resumed, untold
from tests.tui.screen import monitor, notices, opened, press, settled, text_of, until
from tests.tui.stand_in import StandIn, job

EVIL = "\x1b]0;gone\x07[red]x[/red] \u202egnp.exe\n"


def test_a_job_is_cancelled_though_its_row_has_moved(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            main = monitor(pilot)
            await press(pilot, "j", "j", "j", "c")
            assert "Cancel job 4, train-4, of ann?" in text_of(pilot)
            master.gone = {1, 2, 4}
            main.queue.poll.now()
            await until(pilot, lambda: main.queue.rows.total == 9)
            assert main.queue.rows.current["job_id"] != 4
            await press(pilot, "y")
            await until(pilot, lambda: notices(pilot))
            assert notices(pilot) == ["Job 4 cancelled"]

    asyncio.run(run())
    assert [body["ids"] for body in master.bodies("POST", "/v1/cancel")] == [[4]]


def test_a_refusal_is_told_in_the_masters_words(master: StandIn) -> None:
    refusal = {"job_id": 1, "code": "not_allowed", "message": "job 1 is bob's", "hint": "ask bob"}
    master.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": [refusal]}

    async def run() -> None:
        async with opened(master, (120, 30)) as pilot:
            await press(pilot, "c", "y")
            await until(pilot, lambda: notices(pilot))
            assert notices(pilot) == ["Cancel job 1: job 1 is bob's: ask bob"]
            await until(pilot, lambda: "ask bob" in text_of(pilot))

    asyncio.run(run())


def test_a_master_that_does_not_answer_is_told_of_and_keys_go_on(
    master: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgpu.tui.wishes.SLOW_S", 0.05)
    master.answers["POST", "/v1/hold"] = hanging = threading.Event()

    async def run() -> None:
        async with opened(master) as pilot:
            await press(pilot, "h", "y")
            await until(pilot, lambda: notices(pilot))
            assert notices(pilot) == ["Hold job 1: sent; the master has not answered yet"]
            await press(pilot, "j")
            assert monitor(pilot).queue.rows.cursor == 1
            hanging.set()
            await until(pilot, lambda: len(notices(pilot)) > 1)
            assert "Hold job 1: " in notices(pilot)[1] and "did not answer" in notices(pilot)[1]

    asyncio.run(run())


@pytest.mark.parametrize("answered", [True, False])
def test_a_wish_that_is_on_its_way_when_the_monitor_ends_is_told_of(
    master: StandIn, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    master.answers["POST", "/v1/cancel"] = hanging = threading.Event()
    monkeypatch.setattr(Errand, "under_way", {})

    async def run() -> None:
        async with opened(master) as pilot:
            await press(pilot, "c", "y")
            master.wait_for("POST", "/v1/cancel")

    asyncio.run(run())
    if answered:
        hanging.set()
        [words] = untold()
        assert words.startswith("Cancel job 1: ") and "did not answer" in words
    else:
        monkeypatch.setattr("mgpu.tui.wishes.SLOW_S", 0.01)
        assert untold() == ["Cancel job 1: sent; the master has not answered yet"]
        hanging.set()
    assert len(master.bodies("POST", "/v1/cancel")) == 1


def test_requests_that_hang_by_the_dozen_hold_up_no_wish(master: StandIn) -> None:
    hanging = threading.Event()

    async def run() -> None:
        async with opened(master) as pilot:
            others = [asyncio.ensure_future(asyncio.to_thread(hanging.wait)) for _ in range(MOST)]
            await press(pilot, "c", "y")
            await until(pilot, lambda: notices(pilot))
            assert notices(pilot) == ["Job 1 cancelled"]
            hanging.set()
            await asyncio.gather(*others)

    asyncio.run(run())


@pytest.mark.parametrize("answer", [[], None, b"[" * 100_000, {"errors": ["x"]}, {"errors": [{"code": 5}]}])
def test_an_answer_of_another_kind_is_told_of(master: StandIn, answer: Any) -> None:
    master.answers["POST", "/v1/cancel"] = answer

    async def run() -> None:
        async with opened(master) as pilot:
            await press(pilot, "c", "y")
            await until(pilot, lambda: notices(pilot))
            assert "is it of this version?" in notices(pilot)[0] or "is not JSON" in notices(pilot)[0]

    asyncio.run(run())


def test_names_of_others_do_nothing_to_a_dialog_or_a_notice(master: StandIn) -> None:
    master.instead[1] = {"name": EVIL, "user": EVIL}
    refusal = {"job_id": 1, "code": "error", "message": f"no {EVIL}", "hint": ""}
    master.answers["POST", "/v1/requeue"] = {"requeued": [], "errors": [refusal]}

    async def run() -> None:
        async with opened(master, (100, 30)) as pilot:
            await press(pilot, "R")
            assert isinstance(pilot.app.screen, Confirm)
            assert "\\e]0;gone\\x07[red]x[/red] \\u202egnp.exe" in text_of(pilot)
            await press(pilot, "y")
            await until(pilot, lambda: notices(pilot))
            await settled(pilot)
            assert text_of(pilot).replace("\n", "").isprintable()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "job 7, train-7, of dora"),
        ({"name": "", "user": ""}, "job 7"),
        ({"job_id": "7_3"}, "job 7_3, train-7, of dora"),
        ({"array_rest": "4-9"}, "job 7_[4-9], train-7, of dora"),
    ],
)
def test_how_a_job_is_named(more: dict[str, Any], said: str) -> None:
    assert named(job(7, 0, **more)) == said


def test_of_an_array_only_the_tasks_that_wait_are_meant(master: StandIn) -> None:
    master.instead[6] = {"array_rest": "4-9,12%2", "array": "0-12%2"}

    async def run() -> None:
        async with opened(master) as pilot:
            await press(pilot, *"jjjjj", "c", "y")
            await until(pilot, lambda: notices(pilot))
            assert notices(pilot) == ["Job 6_[4-9,12] cancelled"]

    asyncio.run(run())
    assert [body["ids"] for body in master.bodies("POST", "/v1/cancel")] == [["6_[4-9,12]"]]


def test_what_came_of_drain_and_resume() -> None:
    assert drained({"node_id": "a", "running": []}) == "a drained; nothing runs there"
    assert drained({"node_id": "a", "running": [1, 2]}) == "a drained; 2 jobs still on it"
    assert resumed({"node_id": "a", "changed": True}) == "a resumed"
    left = {"node_id": "a", "changed": False, "still_drained": ["3"]}
    assert resumed(left) == "a was not drained; 1 GPU still drained"
