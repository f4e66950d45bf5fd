"""What is done with a key in the details is done to what they show, wherever the cursor is by now."""

from __future__ import annotations

import asyncio

from tests.tui.screen import lines_of, monitor, notices, opened, press, text_of, until
from tests.tui.stand_in import StandIn, job


def test_the_job_that_is_shown_is_meant_also_when_its_row_is_gone(master: StandIn) -> None:
    master.answers["GET", "/v1/jobs/2"] = job(2, 5)

    async def run() -> None:
        async with opened(master, (160, 48)) as pilot:
            main = monitor(pilot)
            await press(pilot, "j", "enter", "enter")
            assert main.details.has_focus_within
            await until(pilot, lambda: main.details.job)
            master.gone = {2}
            main.queue.poll.now()
            await until(pilot, lambda: main.queue.rows.total == 11)
            assert main.queue.rows.current["job_id"] == 3
            await press(pilot, "c")
            assert "Cancel job 2, train-2, of chen?" in text_of(pilot)
            await press(pilot, "n", "y")
            assert notices(pilot) == ["2 copied"]
            await press(pilot, "l")
            assert pilot.app.screen.id == "log"

    asyncio.run(run())


def test_a_node_has_its_own_keys(master: StandIn) -> None:
    master.answers["GET", "/v1/nodes/gpu02"] = master.nodes[1]

    async def run() -> None:
        async with opened(master, (160, 48)) as pilot:
            main = monitor(pilot)
            await press(pilot, "tab", "j", "enter", "enter")
            assert main.details.has_focus_within and main.details.shows_node
            assert "d Drain" in lines_of(pilot)[-1] and "Cancel" not in lines_of(pilot)[-1]
            await press(pilot, "c", "l")
            assert pilot.app.screen is main
            await press(pilot, "d")
            assert "Drain gpu02?" in text_of(pilot)
            await press(pilot, "escape", "D")
            assert "Resume gpu02?" in text_of(pilot)
            await press(pilot, "n", "escape", "tab", "enter", "enter")
            assert "c Cancel" in lines_of(pilot)[-1] and "Drain" not in lines_of(pilot)[-1]

    asyncio.run(run())
