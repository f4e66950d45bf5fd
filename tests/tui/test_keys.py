"""Each key of the table does what its line in the help says. A key without a test fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from mgpu.tui.dialogs import Ask, Confirm
from mgpu.tui.help import Help
from mgpu.tui.keys import KEYS, Key
from tests.tui.screen import lines_of, monitor, notices, opened, press, settled, text_of, until
from tests.tui.stand_in import StandIn

Test = Callable[[Pilot[None], StandIn, str], Awaitable[None]]
TESTS: dict[tuple[str, str], Test] = {}
IN_DETAILS = ("lines", "log")  # test_detail_keys.py
EACH = [(key, name) for key in KEYS if key.where not in IN_DETAILS for name in key.keys.split(",")]


def of(where: str, action: str) -> Callable[[Test], Test]:
    def kept(test: Test) -> Test:
        TESTS[where, action] = test
        return test

    return kept


@pytest.mark.parametrize(("key", "name"), EACH, ids=[f"{key.where}-{name}" for key, name in EACH])
def test_a_key(master: StandIn, key: Key, name: str) -> None:
    master.total = 40

    async def run() -> None:
        async with opened(master) as pilot:
            if key.where == "nodes":
                await to_the_nodes(pilot)
            await TESTS[key.where, key.action](pilot, master, name)

    asyncio.run(run())


def test_no_test_is_of_a_key_that_is_gone() -> None:
    assert TESTS.keys() == {(key.where, key.action) for key, _ in EACH}


async def to_the_nodes(pilot: Pilot[None]) -> None:
    monitor(pilot).nodes.rows.focus()
    await settled(pilot)


# --- in a list ---


@of("rows", "pick")
async def picks(pilot: Pilot[None], master: StandIn, name: str) -> None:
    assert not monitor(pilot).details.open
    await press(pilot, "j", name)
    assert monitor(pilot).details.open
    assert not monitor(pilot).details.shows_node


@of("rows", "move('down')")
async def goes_down(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name, name)
    assert monitor(pilot).queue.rows.cursor == 2


@of("rows", "move('up')")
async def goes_up(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "j", "j", name)
    assert monitor(pilot).queue.rows.cursor == 1
    await press(pilot, name, name)
    assert monitor(pilot).queue.rows.cursor == 0


@of("rows", "move('page_down')")
async def goes_a_page_down(pilot: Pilot[None], master: StandIn, name: str) -> None:
    rows = monitor(pilot).queue.rows
    await press(pilot, name)
    assert rows.cursor == rows.page > 5
    await press(pilot, *[name] * 9)
    assert rows.cursor == 39


@of("rows", "move('page_up')")
async def goes_a_page_up(pilot: Pilot[None], master: StandIn, name: str) -> None:
    rows = monitor(pilot).queue.rows
    await press(pilot, "G", name)
    assert rows.cursor == 39 - rows.page


@of("rows", "move('first')")
async def goes_to_the_first(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "G", name)
    assert monitor(pilot).queue.rows.cursor == 0
    assert "train-1 " in text_of(pilot)


@of("rows", "move('last')")
async def goes_to_the_last(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    assert monitor(pilot).queue.rows.cursor == 39
    assert "train-40 " in text_of(pilot)


# --- in the queue ---


@of("queue", "search")
async def searches(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name, *"train-3")
    rows = monitor(pilot).queue.rows
    await until(pilot, lambda: rows.total == 11)  # 3, and 30 to 39
    await press(pilot, "enter", "j")
    assert rows.has_focus and rows.cursor == 1
    assert "Queue 11 of 40 · search “train-3”" in text_of(pilot)
    await press(pilot, name, "enter", "enter")
    assert monitor(pilot).details.open
    await press(pilot, "escape")
    assert not monitor(pilot).details.open and rows.total == 11
    found = rows.current["job_id"]
    await press(pilot, "escape")
    await until(pilot, lambda: rows.total == 40)
    await settled(pilot)
    assert rows.current["job_id"] == found == 30
    await press(pilot, name, *"x1", "escape")
    assert rows.has_focus
    await until(pilot, lambda: rows.total == 40)


@of("queue", "act('cancel')")
async def cancels(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await acts(pilot, master, name, "/v1/cancel", "Cancel job 2, train-2, of chen?", "Job 2 cancelled")


@of("queue", "act('hold')")
async def holds(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await acts(pilot, master, name, "/v1/hold", "Hold job 2, train-2, of chen?", "Job 2 held")


@of("queue", "act('release')")
async def releases(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await acts(pilot, master, name, "/v1/release", "Release job 2, train-2, of chen?", "Job 2 released")


@of("queue", "act('requeue')")
async def requeues(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await acts(pilot, master, name, "/v1/requeue", "Requeue job 2, train-2, of chen?", "Job 2 requeued")


async def acts(pilot: Pilot[None], master: StandIn, name: str, path: str, question: str, told: str) -> None:
    for no in ("n", "escape", "enter"):
        await press(pilot, "g", "j", name)
        assert isinstance(pilot.app.screen, Confirm)
        assert question in text_of(pilot)
        await press(pilot, no)
        assert not isinstance(pilot.app.screen, Confirm)
    assert master.bodies("POST", path) == []
    await press(pilot, name, "y")
    await until(pilot, lambda: notices(pilot))
    assert notices(pilot) == [told]
    (body,) = master.bodies("POST", path)
    assert body["ids"] == [2] and len(body["request_id"]) == 32


@of("queue", "log")
async def follows_the_log(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "j", name)
    assert pilot.app.screen.id == "log"
    assert "? Help" in lines_of(pilot)[-1] and "log of job 2" in text_of(pilot)
    await press(pilot, "question_mark")
    assert "show what comes, as it comes" in text_of(pilot) and "cancel" not in text_of(pilot)
    await press(pilot, "escape")
    assert pilot.app.screen.id == "log"


@of("queue", "sort")
async def sorts(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    await until(pilot, lambda: any("sort=id&" in path for path in master.paths()))
    assert "ID↓" in text_of(pilot)
    for _ in range(7):
        await press(pilot, name)
    assert monitor(pilot).queue.wanted.sort == "queue"


@of("queue", "turn")
async def turns_round(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "s", name)
    await until(pilot, lambda: "train-40 " in text_of(pilot))
    assert "ID↑" in text_of(pilot)


@of("queue", "mine")
async def shows_mine(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    await until(pilot, lambda: monitor(pilot).queue.rows.total == 10)
    assert "Queue 10 of 40 · mine" in text_of(pilot)
    await press(pilot, "j", name)
    await until(pilot, lambda: monitor(pilot).queue.rows.total == 40)
    await settled(pilot)
    assert monitor(pilot).queue.rows.current["job_id"] == 8


@of("queue", "user")
async def shows_those_of_a_user(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    assert isinstance(pilot.app.screen, Ask)
    await press(pilot, *"bob", "enter")
    await until(pilot, lambda: monitor(pilot).queue.rows.total == 10)
    assert "of bob" in text_of(pilot)


@of("queue", "ended")
async def shows_what_ended(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    await until(pilot, lambda: "TIMEOUT" in text_of(pilot))
    assert "Ended 40" in text_of(pilot)
    master.running = 9  # what runs and waits is told all the same
    await until(pilot, lambda: "9 running, 31 waiting" in text_of(pilot))
    await press(pilot, name)
    await until(pilot, lambda: "PENDING" in text_of(pilot))


# --- among the nodes ---


@of("nodes", "search")
async def searches_nodes(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name, *"erin")
    assert monitor(pilot).nodes.rows.total == 1
    assert "Nodes 1 of 4 · search “erin”" in text_of(pilot)
    await press(pilot, "escape")
    assert monitor(pilot).nodes.rows.total == 4


@of("nodes", "drain")
async def drains(pilot: Pilot[None], master: StandIn, name: str) -> None:
    master.answers["POST", "/v1/nodes/gpu02/drain"] = {"node_id": "gpu02", "running": [5], "changed": True}
    await press(pilot, "j", name)
    assert isinstance(pilot.app.screen, Ask)
    await press(pilot, "escape", name, "enter")
    assert isinstance(pilot.app.screen, Ask)  # a reason is needed
    await press(pilot, *"fan", "enter")
    await until(pilot, lambda: notices(pilot))
    assert notices(pilot) == ["gpu02 drained; 1 job still on it"]
    assert master.bodies("POST", "/v1/nodes/gpu02/drain") == [{"reason": "fan"}]


@of("nodes", "resume")
async def resumes(pilot: Pilot[None], master: StandIn, name: str) -> None:
    refusal = {"code": "not_allowed", "message": "ann may not resume nodes", "hint": "ask an admin"}
    master.answers["POST", "/v1/nodes/gpu03/resume"] = (403, {"error": refusal}, {})
    await press(pilot, "j", "j", name, "n", name, "y")
    await until(pilot, lambda: notices(pilot))
    assert notices(pilot) == ["Resume gpu03: ann may not resume nodes: ask an admin"]


@of("app", "bars")
async def draws_bars(pilot: Pilot[None], master: StandIn, name: str) -> None:
    assert "26/80G" not in text_of(pilot)
    await press(pilot, name)
    assert "26/80G" in text_of(pilot)
    await press(pilot, name)
    assert "26/80G" not in text_of(pilot)


# --- everywhere ---


@of("app", "copy")
async def copies(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "j", name)
    assert pilot.app.clipboard == "2"
    await to_the_nodes(pilot)
    await press(pilot, name)
    assert pilot.app.clipboard == "gpu01"
    assert notices(pilot) == ["2 copied", "gpu01 copied"]


@of("rows", "screen.pane(1)")
async def goes_to_the_next_pane(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    assert monitor(pilot).nodes.rows.has_focus
    await press(pilot, name)
    assert monitor(pilot).queue.rows.has_focus


@of("rows", "screen.pane(-1)")
async def goes_to_the_pane_before(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name)
    assert monitor(pilot).nodes.rows.has_focus


@of("app", "close")
async def closes(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, "m", "enter")
    assert monitor(pilot).details.open
    await press(pilot, name)
    assert not monitor(pilot).details.open
    assert monitor(pilot).queue.rows.has_focus
    assert monitor(pilot).queue.wanted.mine
    await press(pilot, name)
    assert not monitor(pilot).queue.wanted.mine


@of("app", "app.command_palette")
async def opens_the_palette(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await press(pilot, name, *"theme: light")
    await until(pilot, lambda: "Theme: light" in text_of(pilot))
    await press(pilot, "enter", "enter")
    await until(pilot, lambda: pilot.app.theme == "mgpu-light")


@of("app", "help")
async def shows_help(pilot: Pilot[None], master: StandIn, name: str) -> None:
    for close in (name, "escape", "q"):
        await press(pilot, name)
        assert isinstance(pilot.app.screen, Help)
        assert "cancel the job (asks first)" in text_of(pilot)
        await press(pilot, close)
        assert not isinstance(pilot.app.screen, Help)


@of("app", "app.suspend_process")
async def stops(pilot: Pilot[None], master: StandIn, name: str) -> None:
    """That it does: tests/end_to_end/test_top.py. Without a terminal there is nothing to stop."""
    await press(pilot, name)
    assert pilot.app.is_running


@of("app", "app.quit")
async def quits(pilot: Pilot[None], master: StandIn, name: str) -> None:
    await pilot.press(name)
    assert pilot.app._exit


# --- without their keys ---


def test_the_palette_does_what_a_key_of_another_list_does(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            await press(pilot, "ctrl+p", *"drain the node")
            await until(pilot, lambda: "Drain the node (d)" in text_of(pilot))
            await press(pilot, "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, Ask))
            assert "Drain gpu01?" in text_of(pilot)

    asyncio.run(run())


def test_a_click_on_the_line_of_keys_is_the_key(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            line = text_of(pilot).splitlines()[23]
            await pilot.click(offset=(line.index("Help"), 23))
            await until(pilot, lambda: isinstance(pilot.app.screen, Help))

    asyncio.run(run())
