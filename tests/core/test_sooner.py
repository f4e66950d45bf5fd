"""What makes a plan quick changes nothing in it: a memory, the shortcut of the built-in policies, starts alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from cluster import A100, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from test_backfill import runs, waiting

from mgpu.core import shortcut
from mgpu.core.memory import Memory
from mgpu.core.model import NodeName
from mgpu.core.plan import Backfill, NodeView, Running, Snapshot
from mgpu.core.policies import POLICIES, fill_first, spread
from mgpu.core.schedule import plan, starts_of

R3090 = "NVIDIA GeForce RTX 3090"
BY_HAND = {**POLICIES, "fill_first": partial(fill_first), "spread": partial(spread)}  # not known as the built-in ones
NAMES = "abcdef"


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[NodeView], tuple[Running, ...]]:
    """Mostly of nodes whose devices are alike, where the shortcut applies."""
    nodes, running = [], list[Running]()
    for name in draw(st.sampled_from([NAMES[:1], NAMES[:2], NAMES])):
        letters = draw(st.text("...hh" + draw(st.sampled_from(["", "", "sx"])), min_size=1, max_size=4))
        models = [A100, A100, A100, R3090] if draw(st.integers(0, 6)) == 0 else draw(st.sampled_from([A100, R3090]))
        nodes.append(node(name, letters, models, usable=draw(st.integers(0, 5)) > 0))
        held = [index for index, letter in enumerate(letters) if letter == "h"]
        running += [runs(100 + len(running), 1100.0 + 100 * draw(st.integers(0, 3)), f"{name}{at}") for at in held]
    return nodes, tuple(running)


REQUESTS = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(0, 9), "mixed": st.booleans()}),
    st.fixed_dictionaries({"gpus": st.integers(1, 9), "policy": st.just("spread")}),
    st.fixed_dictionaries({"nodes": st.integers(1, 3), "gpus_per_node": st.integers(1, 3)}),
    st.fixed_dictionaries({"gpus": st.integers(1, 4), "exclude": st.just((NodeName("a"),))}),
    st.fixed_dictionaries({"gpus": st.integers(1, 4), "gpu_types": st.just(("A100",))}),
    st.fixed_dictionaries({"gpus": st.integers(1, 9), "gpu_memory_mib": st.sampled_from([1024, 81920])}),
    st.fixed_dictionaries({"nodelist": st.just((NodeName("b"), NodeName("a")))}),
)
JOBS = st.lists(st.tuples(REQUESTS, st.integers(0, 5)), min_size=1, max_size=8)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    nodes, running = draw(clusters())
    jobs = [waiting(at, 100.0 * span, **asked) for at, (asked, span) in enumerate(draw(JOBS), 1)]
    return snapshot(nodes, *jobs, running=running, backfill=draw(st.sampled_from(list(Backfill))))


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_the_shortcut_places_jobs_where_the_policy_does(seen: Snapshot) -> None:
    short, whole = plan(seen), plan(seen, BY_HAND)
    assert short.starts == whole.starts
    assert short.reservation == whole.reservation
    assert short.waits == whole.waits


@st.composite
def sizes(draw: st.DrawFn) -> Snapshot:
    """Nodes whose GPUs are of several sizes, and jobs that ask for one."""
    nodes, running = draw(clusters())
    memory = [draw(st.sampled_from([81920, 81559, 24564])) for _ in nodes]
    nodes = [
        view._replace(devices=tuple(device._replace(memory_total_mib=size) for device in view.devices))
        for view, size in zip(nodes, memory, strict=True)
    ]
    shape = st.fixed_dictionaries(
        {"gpu_memory_mib": st.sampled_from([1024, 81920]), "policy": st.sampled_from(["", "spread"])},
        optional={"gpus": st.integers(1, 6), "nodes": st.integers(1, 2)},
    )
    asked = draw(st.lists(shape, min_size=1, max_size=6))
    return snapshot(nodes, *[waiting(at, 100.0, **one) for at, one in enumerate(asked, 1)], running=running)


@settings(max_examples=100, deadline=None)
@given(sizes())
def test_the_shortcut_takes_the_smallest_that_suffice(seen: Snapshot) -> None:
    short = plan(seen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortcut, "applies", lambda *_: False)
        whole = plan(seen)
    assert short.starts == whole.starts
    assert short.reservation == whole.reservation


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_starts_alone_are_those_of_the_whole_plan(seen: Snapshot) -> None:
    assert starts_of(seen, POLICIES, Memory())[0] == plan(seen).starts


@settings(max_examples=40, deadline=None)
@given(snapshots(), st.lists(snapshots(), max_size=2), st.data())
def test_a_memory_changes_nothing_while_plans_are_carried_out(seen: Snapshot, more: list[Snapshot], data: Any) -> None:
    """The clock goes on, jobs come, and what was planned has started or not."""
    memory = Memory()
    for later in [seen, *more]:
        made = plan(seen, memory=memory)
        assert made == plan(seen)
        started = {one.job_id: one for one in made.starts} if data.draw(st.booleans()) else {}
        left = [job for batch in seen.batches for job in batch.jobs if job.job_id not in started]
        jobs = {job.job_id: job for batch in later.batches for job in batch.jobs} | {job.job_id: job for job in left}
        held = tuple(
            Running(job_id, seen.now + 300, tuple((part.node, part.uuids) for part in start.parts))
            for job_id, start in started.items()
        )
        nodes = list(starts_of(seen, POLICIES, memory)[1]) if started else list(seen.nodes)
        rest = {"running": (*seen.running, *held), "backfill": seen.backfill}
        seen = replace(snapshot(nodes, *jobs.values(), **rest), now=seen.now + data.draw(st.sampled_from([0, 50, 400])))
