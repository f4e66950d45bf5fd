from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from mgpu.api import connection
from mgpu.client import http
from mgpu.client.kept import MOST, Kept
from mgpu.client.locate import Location
from mgpu.sdk.way import Way
from tests.api.conftest import Served


def test_one_connection_answers_again_and_again(served: Served) -> None:
    kept = Kept()
    for _ in range(3):
        answer = http.request(served.endpoint, "GET", "/v1/nodes", kept=kept)
        assert answer.status == 200
    assert served.ask("GET", "/v1/status")[1]["connections"]["clients"] == 2  # the kept one, and that of `ask`
    kept.close()
    assert kept.take() is None


def test_one_that_the_other_side_closed_is_not_taken(served: Served) -> None:
    kept = Kept()
    http.request(served.endpoint, "GET", "/v1/nodes", kept=kept)
    served.restart()
    assert http.request(served.endpoint, "GET", "/v1/nodes", kept=kept).status == 200
    kept.close()


def test_no_more_are_kept_than_are_of_use() -> None:
    kept, pairs = Kept(), [socket.socketpair() for _ in range(MOST + 1)]
    for ours, _ in pairs:
        kept.keep(ours)
    assert [ours.fileno() < 0 for ours, _ in pairs].count(True) == 1
    kept.close()
    for _, theirs in pairs:
        theirs.close()


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_process_that_was_forked_has_none() -> None:
    kept, (ours, theirs) = Kept(), socket.socketpair()
    kept.keep(ours)
    child = os.fork()
    if child == 0:
        os._exit(0 if kept.take() is None and ours.fileno() < 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kept.take() is ours
    ours.close()
    theirs.close()


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_way_of_its_own_to_a_master_elsewhere() -> None:
    closed: list[bool] = []

    class Dialer:
        start_there, timeout_s, wake_fd, shown, headers = False, None, -1, "head", {}

        def close(self) -> None:
            closed.append(True)

    def found() -> Location:
        return Location("", "", http.Endpoint("ssh://head", None, (), Dialer()), False)  # type: ignore[arg-type]

    way = Way(found, True, None)
    ours = way.master()
    child = os.fork()
    if child == 0:
        way.close()  # leaves what is its parent's
        good = not closed and way.master() is not ours and way.master() is way.master()
        way.close()
        os._exit(0 if good and closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert way.master() is ours
    way.close()
    assert closed == [True]


def test_threads_never_get_the_same_one(tmp_path: Path) -> None:
    kept, pairs = Kept(), [socket.socketpair() for _ in range(8)]
    for ours, _ in pairs:
        kept.keep(ours)
    taken: list[socket.socket | None] = []
    threads = [threading.Thread(target=lambda: taken.append(kept.take())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(one) for one in taken} == {id(ours) for ours, _ in pairs}
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_who_asks_is_found_out_once_a_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    named = connection.user_name

    def user_name(uid: int) -> str | None:
        asked.append(uid)
        return named(uid)

    monkeypatch.setattr(connection, "user_name", user_name)
    kept = Kept()
    for _ in range(3):
        assert http.request(served.endpoint, "GET", "/v1/nodes", kept=kept).status == 200
    assert asked == [os.getuid()]
    kept.close()
    http.request(served.endpoint, "GET", "/v1/nodes")
    assert asked == [os.getuid()] * 2
