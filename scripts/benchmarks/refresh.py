"""A screen of the monitor drawn anew from an answer, beside nobody else: what it costs apart from polling."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

from textual.drivers.headless_driver import HeadlessDriver

from scripts.benchmarks.measure import BenchError, Row, Series
from tests.tui.screen import monitor, opened, settled
from tests.tui.stand_in import StandIn

ROWS = 2000
SIZE = (160, 48)
AT = 1200  # the row of the cursor


def refresh(_nothing: Any, repeats: int) -> list[Row]:
    """2,000 rows in one answer, each of them changed, one gone from above the cursor; the cursor and what is in view
    have to stay."""
    with (
        tempfile.TemporaryDirectory(prefix="mgpu-bench-") as folder,
        StandIn(Path(folder) / "m.sock", total=ROWS, running=8) as master,
    ):
        drawn = asyncio.run(_measure(master, repeats))
    return [Row(f"`mgpu top`, {ROWS} rows, all changed: from the answer to what is drawn", drawn.values, goal=100)]


async def _measure(master: StandIn, repeats: int) -> Series:
    drawn = Series()
    async with opened(master, SIZE) as pilot:
        jobs = monitor(pilot).queue.jobs
        master.hangs = Event()  # no answers but ours
        driver = pilot.app._driver
        assert isinstance(driver, HeadlessDriver)
        written: list[str] = []
        type(driver).is_headless = False  # type: ignore[assignment,method-assign]
        driver.write = written.append  # type: ignore[assignment,method-assign]
        jobs.put(master.window({"limit": str(ROWS)})["jobs"], 0, ROWS)
        jobs.move_to(AT)
        await settled(pilot)
        for number in range(1, repeats + 1):
            master.gone.add(number)
            answer = master.window({"limit": str(ROWS)})
            for job in answer["jobs"]:
                job["name"] = f"after-{number}"
            text, key, top = json.dumps(answer), jobs.current["job_id"], jobs.scroll_offset.y
            written.clear()
            began = perf_counter()
            found = json.loads(text)
            jobs.put(found["jobs"], 0, found["matching"])
            while f"after-{number}" not in "".join(written):
                if perf_counter() - began > 10:
                    raise BenchError("the new rows are not drawn")
                await asyncio.sleep(0)
            drawn.add(perf_counter() - began)
            await settled(pilot)
            if jobs.current["job_id"] != key or jobs.scroll_offset.y != top - 1:
                raise BenchError("the cursor or the view has moved")
        master.hangs.set()
    return drawn
