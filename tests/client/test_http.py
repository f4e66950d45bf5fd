from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

import mgpu
from mgpu.client import http
from tests.client.peer import Peer


def endpoint(path: Path, config: str | None = "", uids: tuple[int, ...] = ()) -> http.Endpoint:
    return http.Endpoint(str(path), config, uids or (os.getuid(), 0))


def test_a_request_says_which_configuration_is_meant(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer:
        peer.answers["POST", "/v1/x"] = (200, {"ok": [1]}, {"X-Mgpu-Size": "7"})
        answer = http.request(endpoint(tmp_path / "s", "/etc/c.yaml"), "POST", "/v1/x?a=b", {"word": "caf\udce9"})
        assert (answer.status, answer.body, answer.headers["x-mgpu-size"]) == (200, b'{"ok": [1]}', "7")
        method, path, headers, body = peer.requests[0]
        assert (method, path, body) == ("POST", "/v1/x?a=b", {"word": "caf\udce9"})
        assert headers["x-mgpu-config"] == "/etc/c.yaml"
        assert headers["x-mgpu-version"] == mgpu.__version__
        http.request(endpoint(tmp_path / "s", None), "GET", "/v1/status")
        assert "x-mgpu-config" not in peer.requests[1][2]


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "bad_request", 2),
        (403, "not_allowed", 77),
        (404, "not_found", 1),
        (409, "other_config", 2),
        (503, "store", 69),
        (503, "something_new", 69),
        (500, "internal", 1),
    ],
)
def test_errors_keep_the_masters_words(status: int, code: str, exit_code: int) -> None:
    body = b'{"error": {"code": "%s", "message": "no", "hint": "do"}}' % code.encode()
    with pytest.raises(http.MasterError) as caught:
        http.raise_for_error(http.Response(status, {}, body))
    assert caught.value.as_json() == {"code": code, "message": "no", "hint": "do"}
    assert caught.value.exit_code == exit_code


def test_an_error_that_is_no_document_is_told_by_its_status() -> None:
    with pytest.raises(http.MasterError, match="HTTP status 502"):
        http.raise_for_error(http.Response(502, {}, b"<html>"))


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(http.NoMaster, match=r"no master answers at .*/s .*No such file") as caught:
        http.request(endpoint(tmp_path / "s"), "GET", "/v1/status")
    assert caught.value.exit_code == 69


def test_a_stranger_at_the_socket_is_refused_with_both_named(tmp_path: Path) -> None:
    with (
        Peer(tmp_path / "s") as peer,
        pytest.raises(http.MasterError, match=f"served by uid {os.getuid()}, not by uid 4242") as caught,
    ):
        http.request(endpoint(tmp_path / "s", uids=(4242,)), "GET", "/v1/status")
    assert caught.value.exit_code == 77
    assert peer.requests == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort", b"hello\r\n\r\n"])
def test_an_answer_that_does_not_come_whole_is_none(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(http.NoMaster, match="did not answer"):
            http.request(endpoint(tmp_path / "s"), "GET", "/v1/status")
        thread.join()


def test_a_path_cannot_add_headers(tmp_path: Path) -> None:
    with pytest.raises(http.MasterError, match="control characters"):
        http.request_head(endpoint(tmp_path, "/tmp/a\r\nX-Evil: 1"), "GET", "/", "1.0", {})


def test_queries_are_percent_encoded() -> None:
    assert http.with_query("/v1/jobs", user="a b&c", node=None, name="", limit=3) == "/v1/jobs?user=a%20b%26c&limit=3"
    assert http.quote("../é\udcff") == "..%2F%C3%A9%FF"


def test_a_crowd_before_the_master_is_no_missing_master(tmp_path: Path) -> None:
    """More wait than its list holds; it takes them as soon as it can."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(0)
    crowd = []
    try:
        while True:
            crowd.append(socket.socket(socket.AF_UNIX))
            crowd[-1].setblocking(False)
            crowd[-1].connect(str(tmp_path / "s"))
    except BlockingIOError:
        pass
    accepted: list[socket.socket] = []
    many = len(crowd)  # the last of them was turned away, and ours comes
    taker = threading.Timer(0.3, lambda: accepted.extend(listener.accept()[0] for _ in range(many)))
    taker.start()
    crowd.append(http.connect(endpoint(tmp_path / "s")))
    taker.join()
    for one in (*crowd, *accepted, listener):
        one.close()
    assert len(accepted) == many


def test_what_was_given_is_not_said_in_full(tmp_path: Path) -> None:
    error = http.MasterError("bad_request", f"first\n'{'x' * 100_000}' is wrong", "y" * 5000)
    assert (
        len(error.message) < 1000 and error.message.startswith("first\n'xxx") and error.message.endswith("' is wrong")
    )
    assert len(error.hint) < 1000
    with pytest.raises(http.MasterError, match="too long for one request") as caught:
        http.request(endpoint(tmp_path / "s"), "GET", "/v1/jobs?states=" + "x" * 60_000)
    assert caught.value.exit_code == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
def test_a_socket_that_one_may_not_use_is_told_as_that(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Peer(tmp_path / "s"):
        (tmp_path / "s").chmod(0o600)
        os.seteuid(65534)
        try:
            with pytest.raises(http.MasterError, match="Permission denied") as caught:
                http.request(endpoint(tmp_path / "s"), "GET", "/v1/status")
        finally:
            os.seteuid(0)
    assert (caught.value.code, caught.value.exit_code) == ("not_allowed", 77)
