"""The details of a job and of a node: asked for while they are shown, stale when nobody answers, and no longer
asked for afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from mgpu.tui import followed
from mgpu.tui.job_pane import JobPane
from mgpu.tui.node_pane import NodePane
from mgpu.tui.source import Source
from tests.client.peer import Peer, job, output, state
from tests.clocks import HandClock
from tests.tui import stand_in
from tests.tui.host import Host, screen_text, until, until_shown


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(followed, "PAUSE_S", 0.05)
    with Peer(tmp_path / "socket") as made:
        yield made


@asynccontextmanager
async def opened(
    peer: Peer, make: Callable[[Source, HandClock], Widget], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[None], Host]]:
    app = Host(peer.path, make)
    async with app.run_test(size=size) as pilot:
        yield pilot, app


def asked(peer: Peer, path: str) -> int:
    return sum(each.partition("?")[0] == path for each in peer.paths())


def test_a_job_is_followed_from_its_wait_to_its_end(peer: Peer) -> None:
    held = threading.Event()
    peer.streams = [[state("PENDING"), held]]
    peer.answers["GET", "/v1/jobs/17"] = job("PENDING", reason="Resources", detail="no node has 2 free GPUs")
    peer.answers["GET", "/v1/jobs/17/why"] = {"nodes": [{"node": "gpu01", "reason": "all of it is taken"}], "ahead": 2}

    async def look() -> None:
        async with opened(peer, JobPane) as (pilot, app):
            app.query_one(JobPane).show("17")
            await until_shown(pilot, "gpu01: all of it is taken")
            await until_shown(pilot, "2 jobs before it")
            peer.answers["GET", "/v1/jobs/17"] = job("RUNNING", time_limit_s=3600)
            await until_shown(pilot, "0:50 of 1:00:00")
            assert "all of it is taken" not in "\n".join(screen_text(app))
            app.clock.passed += 10
            await until_shown(pilot, "1:00 of 1:00:00")
            peer.answers["GET", "/v1/jobs/17"] = job("FAILED", exit_code=3, end_time="2026-01-01T00:01:10Z")
            await until_shown(pilot, "FAILED, exit 3")
        held.set()

    asyncio.run(look())


def test_nothing_is_asked_of_what_is_shown_no_more(peer: Peer) -> None:
    held = threading.Event()
    peer.streams = [[state("RUNNING"), held], [state("RUNNING", job_id=18), held]]
    for number in (17, 18):
        peer.answers["GET", f"/v1/jobs/{number}"] = job("RUNNING", job_id=number, name=f"name{number}")

    async def look() -> None:
        async with opened(peer, JobPane) as (pilot, app):
            pane = app.query_one(JobPane)
            pane.show("17")
            await until_shown(pilot, "name17")
            pane.show("18")
            await until_shown(pilot, "name18")
            before = asked(peer, "/v1/jobs/17")
            seen = asked(peer, "/v1/jobs/18")
            await until(pilot, lambda: asked(peer, "/v1/jobs/18") > seen + 3, "further looks")
            assert asked(peer, "/v1/jobs/17") == before
            pane.show(None)
            await until(pilot, lambda: not "".join(screen_text(app)).strip(), "an empty pane")
        held.set()

    asyncio.run(look())


def test_what_is_old_says_so_and_comes_back(peer: Peer) -> None:
    held = threading.Event()
    peer.streams = [[state("RUNNING"), held]]
    peer.answers["GET", "/v1/jobs/17"] = job("RUNNING", name="first")

    async def look() -> None:
        async with opened(peer, JobPane) as (pilot, app):
            app.query_one(JobPane).show("17")
            await until_shown(pilot, "first")
            peer.answers["GET", "/v1/jobs/17"] = (
                500,
                {"error": {"code": "error", "message": "no room", "hint": ""}},
                {},
            )
            await until_shown(pilot, "no room")
            assert any("first" in line for line in screen_text(app))
            peer.answers["GET", "/v1/jobs/17"] = job("RUNNING", name="second")
            await until_shown(pilot, "second")
            await until(pilot, lambda: "no room" not in "".join(screen_text(app)), "the end of that")
        held.set()

    asyncio.run(look())


def test_a_master_of_another_version_breaks_nothing(peer: Peer) -> None:
    held = threading.Event()
    peer.streams = [[state("RUNNING"), ("no", "event"), held]]  # type: ignore[list-item]
    peer.answers["GET", "/v1/jobs/17"] = {"job_id": 17, "state": "RUNNING", "allocation": [{"rank": None}], "begin": 7}
    peer.answers["GET", "/v1/nodes/gpu01"] = {"node_id": "gpu01", "state": 7, "gpus": [{}]}

    async def look(make: Callable[[Source, HandClock], Any], what: str) -> None:
        async with opened(peer, make) as (pilot, app):
            app.query(make(app.source, app.clock).__class__).first().show(what)
            await until_shown(pilot, what)
            await pilot.pause(0.3)
            assert app.is_running

    asyncio.run(look(JobPane, "17"))
    asyncio.run(look(NodePane, "gpu01"))
    held.set()


def test_a_node_is_followed(peer: Peer) -> None:
    peer.answers["GET", "/v1/nodes/gpu02"] = stand_in.zoo()[1]
    points = [{"at": "x", "utilization": value, "memory_mib": 1, "state": "free"} for value in (0, 100)]
    peer.answers["GET", "/v1/nodes/gpu02/use"] = {"step_s": 300, "gpus": [{"uuid": "GPU-gpu02-0", "points": points}]}

    async def look() -> None:
        async with opened(peer, NodePane, (100, 40)) as (pilot, app):
            app.query_one(NodePane).show("gpu02")
            await until_shown(pilot, "pid 4242 of erin")
            await until_shown(pilot, "▁█")
            await until_shown(pilot, "mean 50 % in the last 10:00")
            peer.answers["GET", "/v1/nodes/gpu02"] = {**stand_in.zoo()[1], "state": "DRAINED", "barred": "NodeDrained"}
            await until_shown(pilot, "none for jobs: drained")

    asyncio.run(look())
    assert asked(peer, "/v1/nodes/gpu02/use") == 1


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (20, 5), (300, 100)])
def test_panes_of_any_size(peer: Peer, size: tuple[int, int]) -> None:
    held = threading.Event()
    peer.streams = [[state("RUNNING"), {"event": "attempt", "attempt": 1}, output(b"a word\n" * 9), held]]
    peer.answers["GET", "/v1/jobs/17"] = job("RUNNING")

    async def look() -> None:
        async with opened(peer, JobPane, size) as (pilot, app):
            app.query_one(JobPane).show("17")
            await until(pilot, lambda: app.query_one(JobPane).log_view.lines.known == 9, "the log")
            for wide, high in ((80, 24), (1, 1), (20, 5), size):
                await pilot.resize_terminal(wide, high)
                await pilot.pause()
                assert {
                    sum(segment.cell_length for segment in strip) for strip in app.screen._compositor.render_strips()
                } == {wide}
        held.set()

    asyncio.run(look())
