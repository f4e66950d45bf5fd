"""What the monitor asks, and how threads share the way to the master."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any, ClassVar

import pytest

from mgpu.client.address import Address
from mgpu.client.http import Endpoint, MasterError, NoMaster
from mgpu.client.locate import Location
from mgpu.client.tcp import Dialer
from mgpu.tui.source import Source
from tests.tui.stand_in import StandIn


class Way:
    """A dialer to a socket of this machine."""

    start_there, timeout_s, wake_fd, shown = True, None, -1, "there"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, path: str) -> None:
        self.path = path
        self.kept: list[socket.socket] = []

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        return connection

    def keep(self, connection: socket.socket) -> None:
        connection.close()


def test_each_question_and_wish_goes_where_it_should(master: StandIn) -> None:
    asked = ["jobs/7", "jobs/7/why", "jobs/7/use", "nodes/a%2Fb", "nodes/a%2Fb/use"]
    for path in asked:
        master.answers["GET", f"/v1/{path}"] = {"path": path, "job_id": 7, "node_id": "a/b", "state": "UP"}
    for word in ("drain", "resume"):
        master.answers["POST", f"/v1/nodes/gpu01/{word}"] = {"node_id": word}
    source = master.source()
    answers: list[Any] = [source.job(7), source.why("7"), source.job_use(7), source.node("a/b"), source.node_use("a/b")]
    assert [answer["path"] for answer in answers] == asked
    assert source.drain("gpu01", "fan")["node_id"] == "drain"
    assert source.resume("gpu01")["node_id"] == "resume"
    assert source.status()["pid"]
    for verb in ("cancel", "hold", "release", "requeue"):
        source.act(verb, "7_3")
        assert master.bodies("POST", f"/v1/{verb}")[-1]["ids"] == ["7_3"]


def test_what_is_refused_of_one_job_is_an_error(master: StandIn) -> None:
    refusal = {"job_id": 7, "code": "not_allowed", "message": "no", "hint": "ask"}
    master.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": [refusal]}
    with pytest.raises(MasterError, match="no") as raised:
        master.source().act("cancel", 7)
    assert (raised.value.code, raised.value.told) == ("not_allowed", "no: ask")


def test_a_master_that_was_stopped_is_not_started_again(master: StandIn) -> None:
    endpoint = Endpoint(master.path + ".gone", None, (os.getuid(),))
    source = Source(Location("", "", endpoint, personal=True))
    with pytest.raises(NoMaster, match="no master runs"):
        source.window()


def test_what_wakes_a_stream_wakes_no_other_thread(master: StandIn) -> None:
    way = Way(master.path)
    source = Source(Location("", "", Endpoint("ssh://there", None, (), way), personal=False))
    assert way.start_there is False
    stream = source.stream(7)
    ours, theirs = socket.socketpair()
    with ours, theirs, stream._master.woken_by(ours.fileno()):
        assert way.wake_fd == -1
        assert source.window()["matching"] == master.total


def test_threads_take_kept_connections_side_by_side() -> None:
    dialer = Dialer(Address("localhost", 1, False))
    pairs = [socket.socketpair() for _ in range(200)]
    for ours, _ in pairs:
        dialer.keep(ours)
    taken: list[socket.socket] = []

    def take() -> None:
        while (kept := dialer._kept()) is not None:
            taken.append(kept)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(id, taken)) == sorted(id(ours) for ours, _ in pairs)
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
