"""The queue that is kept from pass to pass is the one that is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.core import lifecycle
from mgpu.core.dependency import parse_dependency
from mgpu.core.model import Job, JobId, JobState, Request
from mgpu.core.plan import Wait
from mgpu.master.waiting import Waiting
from mgpu.ops import arrays
from mgpu.store.store import Store
from tests.store.stored_values import job, spec


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "mgpu.db")
    yield opened
    opened.close()


def said(waiting: Waiting) -> Any:
    batches, later = waiting.read().at(1e9)
    assert not later
    return {(batch.request, batch.avoid, tuple(batch.jobs)) for batch in batches}


def test_what_is_kept_is_what_is_stored(store: Store) -> None:
    kept = Waiting(store)
    assert not said(kept)
    with store.write() as w:
        first, second, third = (w.add_job(job(name))[0] for name in ("a", "b", "c"))
    assert said(kept) == said(Waiting(store))
    with store.write() as w:
        w.save_job(replace(job("a"), job_id=first, state=JobState.CANCELLED))
        w.save_job(replace(job("b"), job_id=second, spec=spec(request=Request(gpus=7)), not_before=5.0))
        w.add_job(job("d"))
    assert said(kept) == said(Waiting(store))
    running = replace(job("c"), job_id=third, state=JobState.RUNNING, attempt=1)
    with store.write() as w:
        w.save_job(running, replace(job("c"), job_id=third))
    assert said(kept) == said(Waiting(store))
    with store.write() as w:
        w.save_job(replace(running, state=JobState.PENDING), running)
    assert said(kept) == said(Waiting(store))
    assert len(kept.read()) == 3


def test_what_is_held_is_not_in_the_queue(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        job_id = w.add_job(job("a"))[0]
        asked = w.job(job_id)
    assert asked is not None
    assert len(kept.read()) == 1
    assert kept.still(asked)
    held = lifecycle.hold(asked, "root", admin=True)
    assert not kept.still(held)  # held since the plan was made
    assert not kept.still(replace(asked, spec=spec(request=Request(gpus=7))))
    assert not kept.still(replace(asked, not_before=5.0))
    with store.write() as w:
        w.save_job(held, asked)
    for waiting in (kept, Waiting(store)):
        assert not waiting.read()
        assert waiting.barred == {job_id: Wait("JobHeldAdmin", "held by root: an admin releases it")}
    with store.write() as w:
        w.save_job(lifecycle.release(held), held)
    assert len(kept.read()) == 1
    assert kept.barred == {}
    assert kept.still(asked)


def depending(name: str, dependency: str, **changes: Any) -> Job:
    return job(name, spec=spec(dependency=parse_dependency(dependency)), **changes)


def numbers(waiting: Waiting, now: float = 1e9) -> set[int]:
    """Of the jobs that may start."""
    return {pending.job_id for batch in waiting.read().at(now)[0] for pending in batch.jobs}


def end(store: Store, job_id: JobId, state: JobState) -> None:
    with store.write() as w:
        before = w.job(job_id)
        assert before is not None
        running = replace(before, state=JobState.RUNNING, start_time=50.0)
        w.save_job(running, before)
    with store.write() as w:
        w.save_job(replace(running, state=state), running)


def test_a_dependent_comes_into_the_queue_with_the_end_of_what_it_waits_for(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        first = w.add_job(job("a"))[0]
        second = w.add_job(depending("b", f"afterok:{first}"))[0]
        third = w.add_job(depending("c", f"afterok:{first}?after:{second}+10"))[0]
    assert numbers(kept) == {first}
    waits = Wait("Dependency", f"job {first} has to end well first (PENDING)")
    assert kept.barred[second] == waits
    end(store, first, JobState.COMPLETED)
    for waiting in (kept, Waiting(store)):
        assert numbers(waiting) == {second, third}
        assert waiting.end_lost(1.0) == []
    with store.write() as w:  # it is queued again
        ended = w.job(first)
        assert ended is not None
        w.save_job(replace(ended, state=JobState.PENDING, start_time=None), ended)
    for waiting in (kept, Waiting(store)):
        assert numbers(waiting) == {first}
        assert waiting.barred[second] == waits
    end(store, second, JobState.FAILED)  # whatever let it start
    assert numbers(kept, 649.0) == {first}
    assert numbers(kept, 650.0) == {first, third}


def test_a_chain_that_can_never_be_ends_in_one_pass(store: Store) -> None:
    kept, length = Waiting(store), 300
    with store.write() as w:
        first = last = w.add_job(job("a"))[0]
        for number in range(length):
            last = w.add_job(depending(f"b{number}", f"afterok:{last}"))[0]
        keeps = replace(parse_dependency(f"afterok:{last}"), keep=True)
        waits = w.add_job(job("c", spec=spec(dependency=keeps)))[0]
        after = w.add_job(depending("d", f"afterany:{last}"))[0]
    assert numbers(kept) == {first}
    end(store, first, JobState.FAILED)
    kept.read()
    assert len(kept.end_lost(77.0)) == length
    assert numbers(kept) == {after}
    assert kept.barred[waits].reason == "DependencyNeverSatisfied"
    assert kept.end_lost(78.0) == []
    with store.read() as r:
        ended = r.job(last)
    assert ended is not None
    assert (ended.state, ended.reason, ended.end_time) == (JobState.CANCELLED, "DependencyNeverSatisfied", 77.0)
    assert ended.detail == f"job {last - 1} had to end well, and is CANCELLED"


def test_one_that_was_queued_again_meanwhile_loses_nobody(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        first = w.add_job(job("a"))[0]
        second = w.add_job(depending("b", f"afterok:{first}"))[0]
    end(store, first, JobState.FAILED)
    assert numbers(kept) == set()
    with store.write() as w:
        ended = w.job(first)
        assert ended is not None
        w.save_job(replace(ended, state=JobState.PENDING), ended)
    assert kept.end_lost(77.0) == []
    assert numbers(kept) == {first}
    assert kept.barred[second].reason == "Dependency"


def test_singletons_go_one_by_one(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        first = w.add_job(job("a"))[0]
        second, third = (w.add_job(depending(name, "singleton"))[0] for name in "bc")
        other = w.add_job(depending("d", "singleton", uid=1002))[0]
    assert numbers(kept) == {first, other}
    assert kept.barred[third].detail == f"job {first}, of the same name, has to end first"
    with store.write() as w:
        before = w.job(first)
        assert before is not None
        w.save_job(replace(before, spec=spec(name="another")), before)
    assert numbers(kept) == {first, second, other}
    end(store, second, JobState.FAILED)
    for waiting in (kept, Waiting(store)):
        assert numbers(waiting) == {first, third, other}


def test_what_was_rolled_back_never_happened(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        w.add_job(job("a"))
    before = said(kept)
    with pytest.raises(ZeroDivisionError), store.write() as w:
        w.add_job(job("b"))
        _ = 1 / 0
    assert said(kept) == before


def test_a_task_that_is_tried_again_goes_before_those_to_come(store: Store) -> None:
    with store.write() as w:
        array_id, _ = w.add_job(job("a", spec=spec(array="0-9%2"), rest="1-9", dropped=""))
        array = w.job(array_id)
        assert array is not None
        task = arrays.make_task(w, array, 3, 5.0)
    [(_, _, jobs)] = said(Waiting(store))
    assert [(one.job_id, one.array, one.tasks, one.at_once) for one in jobs] == [
        (task.job_id, array_id, 1, 2),
        (array_id, array_id, 8, 2),
    ]
