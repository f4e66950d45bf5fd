"""The queue that is kept from pass to pass is the one that is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.core import lifecycle
from mgpu.core.model import JobState, Request
from mgpu.core.plan import Wait
from mgpu.master.waiting import Waiting
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


def test_what_was_rolled_back_never_happened(store: Store) -> None:
    kept = Waiting(store)
    with store.write() as w:
        w.add_job(job("a"))
    before = said(kept)
    with pytest.raises(ZeroDivisionError), store.write() as w:
        w.add_job(job("b"))
        _ = 1 / 0
    assert said(kept) == before
