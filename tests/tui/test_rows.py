"""The cursor follows its row, the scroll position stays, and only what has changed is painted anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from textual.geometry import Region

from mgpu.tui.rows import Rows
from tests.tui.screen import lines_of, monitor, opened, press, settled, text_of, until
from tests.tui.stand_in import StandIn, held, job, node, zoo


def put(rows: Rows, numbers: Any, running: int = 5) -> None:
    rows.put([job(number, running) for number in numbers])


def test_the_cursor_follows_its_job_and_stays_on_its_line(master: StandIn) -> None:
    master.total = 200

    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            await press(pilot, "G", "pageup", "pageup")
            here, line = rows.current["job_id"], rows.cursor - rows.scroll_offset.y
            master.gone = set(range(1, 40))
            monitor(pilot).queue.poll.now()
            await until(pilot, lambda: rows.total == 161)
            await settled(pilot)
            assert rows.current["job_id"] == here
            assert rows.cursor - rows.scroll_offset.y == line

    asyncio.run(run())


def test_who_is_at_the_top_stays_there(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            put(rows, range(10, 40))
            await press(pilot, "j")
            put(rows, [1, 2, *range(10, 40)])
            await settled(pilot)
            assert rows.scroll_offset.y == 0
            assert rows.current["job_id"] == 11 and rows.cursor == 3

    asyncio.run(run())


def test_where_its_job_is_gone_the_cursor_stays_where_it_was(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            await press(pilot, "j", "j")
            put(rows, [1, 2, 4, 5])
            assert rows.cursor == 2 and rows.current["job_id"] == 4
            put(rows, [1])
            assert rows.cursor == 0 and rows.current["job_id"] == 1
            put(rows, [])
            assert rows.current is None
            await press(pilot, "j", "k", "G", "g", "pagedown", "pageup", "enter", "c")
            put(rows, [7, 8])
            assert rows.cursor == 0

    asyncio.run(run())


def test_only_what_has_changed_is_painted_anew(master: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[Region] = []

    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            put(rows, range(1, 9))
            await settled(pilot)
            monkeypatch.setattr(rows, "refresh", lambda *regions, **how: painted.extend(regions))
            put(rows, range(1, 9))
            assert painted == []
            rows.put(
                [{**job(number, 5), "user": "zoe" if number == 3 else job(number, 5)["user"]} for number in range(1, 9)]
            )
            (one,) = painted
            assert (one.y, one.height) == (3, 1)
            assert lines_of(pilot)[9][1 + one.x : 1 + one.right].strip() == "USER"

    asyncio.run(run())


def test_two_thousand_rows_come_and_go_without_being_drawn(master: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ends each time: what is drawn is what can be seen."""
    drawn: list[Any] = []

    async def run() -> None:
        async with opened(master) as pilot:
            rows = monitor(pilot).queue.rows
            real: Callable[..., Any] = rows.cells_of
            monkeypatch.setattr(rows, "cells_of", lambda item, *how: drawn.append(item) or real(item, *how))
            for gone in range(1, 6):
                put(rows, range(gone, 2001), 2001)
                await settled(pilot)
            assert rows.total == 1996

    asyncio.run(run())
    assert 0 < len(drawn) < 5 * 60


def test_a_click_chooses_a_row_a_second_opens_it_and_one_on_the_head_sorts(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master) as pilot:
            main = monitor(pilot)
            await pilot.click(main.queue.rows, offset=(20, 4))
            assert main.queue.rows.current["job_id"] == 4
            assert not main.details.open
            await pilot.click(main.queue.rows, offset=(14, 0))
            assert main.queue.wanted.sort == "name"
            await pilot.click(main.queue.rows, offset=(14, 0))
            assert main.queue.wanted.sort == "-name"
            await pilot.click(main.queue.rows, offset=(20, 2), times=2)
            await settled(pilot)
            assert main.details.open

    asyncio.run(run())


def test_wide_letters_leave_the_columns_where_they_are(master: StandIn) -> None:
    names = [
        "plain",
        "训练模型训练模型训练",
        "🚀🚀🚀",
        "é" * 5,
        "e\u0301" * 5,
        "❤️ heart",
        "한국어",
        "a\u200db",
        "\u202egnp",
    ]
    for number, name in enumerate(names, 1):
        master.instead[number] = {"name": name}

    async def run() -> None:
        async with opened(master) as pilot:
            await settled(pilot)
            widths = set()
            for line in text_of(pilot).splitlines()[10 : 10 + len(names)]:
                before, state, _ = line.partition(" RUNNING " if " RUNNING " in line else " PENDING ")
                assert state, line
                widths.add(cell_len(before))
            assert len(widths) == 1

    asyncio.run(run())


def test_nodes_of_several_lines_are_passed_one_by_one(master: StandIn) -> None:
    master.nodes = [node(number, [held(number, index, number) for index in range(8)]) for number in range(1, 31)]

    async def run() -> None:
        async with opened(master, (100, 40)) as pilot:
            rows = monitor(pilot).nodes.rows
            await press(pilot, "tab", "b", "G")
            assert rows.cursor == 29 and "gpu30 " in text_of(pilot)
            assert rows.line_count() == 30 * 5
            await press(pilot, "k")
            assert rows.current["node_id"] == "gpu29"
            await press(pilot, "g", "pagedown")
            assert 0 < rows.cursor < 10

    asyncio.run(run())


def test_a_node_of_which_nothing_new_is_known_is_not_drawn_again(
    master: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    async def run() -> None:
        async with opened(master) as pilot:
            pane = monitor(pilot).nodes
            real = pane.nodes._made
            monkeypatch.setattr(
                pane.nodes, "_made", lambda each, *how: drawn.append(each["node_id"]) or real(each, *how)
            )
            master.nodes = [*zoo()[:3], {**zoo()[3], "reason": "it burns"}]
            pane.poll.now()
            await until(pilot, lambda: "it burns" in text_of(pilot))
            assert set(drawn) == {"gpu04"}

    asyncio.run(run())
