"""Asking a master that may go away at any moment."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from mgpu.client.http import Endpoint, NoMaster
from mgpu.client.locate import Location
from mgpu.client.lock import master_lock
from mgpu.client.master import TRIES, Master

STATUS = "/v1/status"


class Mortal:
    """Gives no whole answer to the first `cuts` requests; being asked for its status does not count."""

    def __init__(self, path: Path, cuts: int) -> None:
        self.wishes: list[bytes] = []
        self._cuts = cuts
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                asked = b""
                while b"last" not in asked and STATUS.encode() not in asked:
                    asked += connection.recv(1 << 16)
                if STATUS.encode() not in asked:
                    self.wishes.append(asked.partition(b"\r\n\r\n")[2])
                    if len(self.wishes) <= self._cuts:
                        continue
                connection.sendall(b'HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n{"job_id": 7}')

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@pytest.mark.parametrize(("cuts", "answered"), [(0, True), (1, True), (TRIES - 1, True), (TRIES, False)])
def test_the_same_wish_is_sent_again_until_it_is_answered(tmp_path: Path, cuts: int, answered: bool) -> None:
    mortal = Mortal(tmp_path / "mgpu.sock", cuts)
    master = Master(Location("", str(tmp_path), Endpoint(str(tmp_path / "mgpu.sock"), "", (os.getuid(),)), True))
    wish = {"request_id": "abc", "z": "last"}
    try:
        if answered:
            assert master.call("POST", "/v1/jobs", wish) == {"job_id": 7}
        else:
            with pytest.raises(NoMaster):
                master.call("POST", "/v1/jobs", wish)
    finally:
        mortal.close()
    assert len(mortal.wishes) == min(cuts + 1, TRIES)
    assert len(set(mortal.wishes)) == 1


def test_a_named_master_is_waited_for_as_long_as_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mgpu.sock"
    place = Location("", "", Endpoint(str(path), None, (os.getuid(),)), False)
    with pytest.raises(NoMaster, match="no master answers") as caught:
        Master(place).call("GET", STATUS)
    assert caught.value.hint == "start it, or leave --master and MGPU_MASTER out to use your own"
    made: list[Mortal] = []
    threading.Timer(0.5, lambda: made.append(Mortal(path, 0))).start()
    try:
        assert Master(place, patience_s=60).call("GET", STATUS) == {"job_id": 7}
    finally:
        made[0].close()


def test_one_that_takes_up_another_configuration_is_waited_for(tmp_path: Path) -> None:
    """Whoever does not start one (stop, status): it holds its lock all the while, and has no socket."""
    path = tmp_path / "mgpu.sock"
    master = Master(Location("", str(tmp_path), Endpoint(str(path), "", (os.getuid(),)), True), start_if_missing=False)
    with pytest.raises(NoMaster, match="no master runs"):
        master.call("GET", STATUS)
    made: list[Mortal] = []
    with master_lock(tmp_path):
        threading.Timer(0.3, lambda: made.append(Mortal(path, 0))).start()
        try:
            assert master.call("GET", STATUS) == {"job_id": 7}
        finally:
            made[0].close()
