"""What has been used, out of the history and of what holds GPUs now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.config.model import Config, NodeConfig, PartitionConfig, SshSettings
from mgpu.core.fairshare import FairShare
from mgpu.core.model import Attempt, AttemptState, DeviceUuid, JobState, NodeName, Part
from mgpu.core.plan import AccountFacts, Limits, NodeFacts, Owner, PendingJob, Scope, Used
from mgpu.master.board import Board
from mgpu.master.use import Use
from mgpu.store.store import Store
from tests.store.stored_values import job, spec

NOW = 100_000.0
HOUR = 3600.0
CONFIG = Config(
    None,
    (NodeConfig(NodeName("a"), "ssh", SshSettings("a"), NodeFacts(NodeName("a"), partitions=("p",))),),
    partitions={"p": PartitionConfig("p", limits=Limits(gpu_hours=9), user_limits=Limits(jobs=3))},
    accounts={"x": AccountFacts("x", 1, ("bob",), Limits(gpus=5))},
    fair_share=FairShare(half_life_s=1e9),
)


def stored(store: Store, request: str, account: str, start: float, end: float | None, gpus: int) -> None:
    with store.write() as w:
        job_id, _ = w.add_job(job(request, spec=spec(account=account), state=JobState.RUNNING, attempt=1))
        state = AttemptState.RUNNING if end is None else AttemptState.ENDED
        uuids = tuple(DeviceUuid(f"GPU-{request}-{at}") for at in range(gpus))
        part = Part(job_id, 1, 0, NodeName("a"), "train", tuple(range(gpus)), uuids, AttemptState.STARTING)
        attempt = Attempt(job_id, 1, request * 8, AttemptState.STARTING, start)
        w.add_attempt(attempt, [part])
        w.save_part(replace(part, state=state, started=start, ended=end, collected=end is not None), part)


def test_history_and_what_runs_count_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "mgpu.db")
    stored(store, "a1", "x", NOW - 5 * HOUR, NOW - 3 * HOUR, 2)
    stored(store, "b2", "x", NOW - 2 * HOUR, None, 1)
    stored(store, "c3", "", NOW - 1 * HOUR, NOW - 0.5 * HOUR, 4)
    with store.read() as reader:
        board = Board.read(reader)
    use = Use(store, CONFIG)
    use.follow(board, NOW)
    use.follow(board, NOW + HOUR)
    again = Use(store, CONFIG)
    again.follow(board, NOW + HOUR)
    waits = PendingJob(job("x").job_id, "bob", spec().request, 0, NOW, owner=Owner(job("x").user, "x"))
    for one in (use, again):
        turn = one.turn(waits, NOW + HOUR)
        assert turn.standing.gpu_hours == pytest.approx(4 + 3, rel=1e-3)
        bounds = one.bounds(NOW + HOUR)
        assert bounds is not None
        assert bounds.used[Scope("account", "x")] == Used(1, 1, pytest.approx(4 + 3, rel=1e-3))
        assert bounds.used[Scope("partition", "p")].gpu_hours == pytest.approx(4 + 3 + 2, rel=1e-3)
        assert bounds.used[Scope("partition", "p", job("x").user)][:2] == (1, 1)
