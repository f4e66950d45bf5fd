"""Writers that come at the same time share one commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from mgpu.core.errors import StoreError
from mgpu.store.filters import JobFilter
from mgpu.store.store import Store
from tests.store.stored_values import job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "mgpu.db")
    yield opened
    opened.close()


def add(store: Store, name: str) -> None:
    with store.write() as w:
        w.add_job(job(name))


def fail(store: Store) -> None:
    with store.write() as w:
        w.add_job(job("of one who fails"))
        raise ZeroDivisionError


def stored(store: Store) -> set[str]:
    with store.read() as r:
        return {found.request_id for found in r.jobs(JobFilter(scope="all"))}


def together(store: Store, *writers: Callable[[], None]) -> list[Future[None]]:
    """All of them come while the first one has its turn."""
    begun = threading.Event()

    def first() -> None:
        with store.write() as w:
            w.add_job(job("first"))
            begun.set()
            while store._coming < len(writers):
                threading.Event().wait(0.001)

    with ThreadPoolExecutor(len(writers) + 1) as pool:
        done = [pool.submit(first)]
        begun.wait()
        done += [pool.submit(writer) for writer in writers]
    return done


def test_one_commit_for_all_who_wait(store: Store) -> None:
    commits: list[Any] = []
    event.listen(store._engine, "commit", commits.append)
    done = together(store, *(lambda name=name: add(store, name) for name in "abcdef"))  # type: ignore[misc]
    assert all(one.exception() is None for one in done)
    assert stored(store) == {"first", *"abcdef"}
    assert len(commits) - 1 == 1  # one of them reads


def test_who_fails_fails_alone(store: Store) -> None:
    done = together(store, lambda: add(store, "a"), lambda: fail(store), lambda: add(store, "b"))
    assert [type(one.exception()) for one in done].count(ZeroDivisionError) == 1
    assert stored(store) == {"first", "a", "b"}


def test_nobody_has_written_if_the_commit_fails(store: Store) -> None:
    def refuse(connection: Any) -> None:
        connection.connection.driver_connection.execute("INSERT INTO alembic_version VALUES (NULL)")

    event.listen(store._engine, "commit", refuse)
    done = together(store, lambda: add(store, "a"))
    event.remove(store._engine, "commit", refuse)
    assert all(one.exception() is not None for one in done)
    assert not stored(store)
    add(store, "later")
    assert stored(store) == {"later"}


def test_a_full_disk_refuses_those_who_meet_it_and_no_more(store: Store) -> None:
    def shrink(connection: Any) -> None:
        connection.connection.driver_connection.execute("PRAGMA max_page_count = 1")  # what there is already, that is

    event.listen(store._writing, "begin", shrink)
    with pytest.raises(StoreError, match="no space left"), store.write() as w:
        for number in range(1000):
            w.add_job(job(f"{number}", detail="x" * 4000))
    event.remove(store._writing, "begin", shrink)
    assert not stored(store)
