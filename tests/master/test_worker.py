"""The threads that may wait: one that fails is told of, and one that there is no room for comes later."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mgpu.master import worker
from mgpu.master.worker import SystemThreads

NO_MACHINE_HAS_B = 1 << 46
PATIENCE_S = 15.0


@pytest.fixture
def threads() -> SystemThreads:
    return SystemThreads()


@pytest.fixture
def no_room(threads: SystemThreads, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Until the test sets the size of stacks back."""
    monkeypatch.setattr(worker, "AGAIN_S", 0.01)
    before = threading.stack_size(NO_MACHINE_HAS_B)
    try:
        with pytest.raises(RuntimeError):
            threading.Thread().start()
        yield
    finally:
        threading.stack_size(before)


def test_what_there_is_no_room_for_comes_once_there_is(
    threads: SystemThreads, no_room: None, caplog: pytest.LogCaptureFixture
) -> None:
    spawned, done = threading.Event(), threading.Event()
    threads.spawn("probe a", spawned.set)
    line = threads.line("orders a")
    line.do(done.set)
    assert not spawned.wait(0.05) and not done.is_set()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["probe a", "orders a"]
    threading.stack_size(0)
    assert spawned.wait(PATIENCE_S) and done.wait(PATIENCE_S)


def test_what_there_is_no_room_for_is_not_over_in_time(threads: SystemThreads, no_room: None) -> None:
    assert threads.together([lambda: 1, lambda: 2], 1.0) == [None, None]
    threading.stack_size(0)
    assert threads.together([lambda: 1, lambda: 2], PATIENCE_S) == [1, 2]


def test_one_that_fails_is_told_of(threads: SystemThreads, caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    def fail() -> None:
        begun.set()
        raise ZeroDivisionError

    threads.spawn("events a", fail)
    assert begun.wait(PATIENCE_S)
    for thread in threading.enumerate():
        if thread.name == "events a":
            thread.join(PATIENCE_S)
    assert "events a: it failed" in caplog.text and "ZeroDivisionError" in caplog.text


def test_a_line_goes_on_behind_what_fails(threads: SystemThreads, caplog: pytest.LogCaptureFixture) -> None:
    line, done = threads.line("orders a"), threading.Event()
    line.do(lambda: 1 // 0 and None)
    line.do(done.set)
    assert done.wait(PATIENCE_S)
    assert "orders a: a task failed" in caplog.text


def test_a_line_does_what_its_tasks_give_it_and_leaves_no_thread(
    threads: SystemThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    line, done = threads.line("ended"), []
    over = threading.Event()
    line.do(lambda: line.do(lambda: done.append("given while it ends")))
    for number in range(3):
        line.do(lambda number=number: done.append(number))  # type: ignore[misc]
    line.do(over.set)
    assert over.wait(PATIENCE_S)
    assert sorted(map(str, done)) == ["0", "1", "2", "given while it ends"]
    for thread in threading.enumerate():
        if thread.name == "ended":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_a_line_with_nothing_to_do_has_no_thread(threads: SystemThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    line = threads.line("idle")
    for _ in range(3):
        done = threading.Event()
        line.do(done.set)
        assert done.wait(PATIENCE_S)
        for thread in threading.enumerate():
            if thread.name == "idle":
                thread.join(PATIENCE_S)
                assert not thread.is_alive()
