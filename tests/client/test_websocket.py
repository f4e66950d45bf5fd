from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.client import http
from mgpu.client.websocket import BINARY, PONG, TEXT, StreamClosed, WebSocket
from tests.client.peer import Peer, frame

SWITCH = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n"


def served(tmp_path: Path, script: Callable[[socket.socket], None]) -> WebSocket:
    """A stream whose other end `script` writes by hand."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with listener, connection:
            connection.recv(1 << 16)
            script(connection)

    threading.Thread(target=serve, daemon=True).start()
    return WebSocket(http.Endpoint(str(tmp_path / "s"), "", (os.getuid(),)), "/v1/jobs/1/stream")


def messages(stream: WebSocket) -> tuple[list[tuple[int, bytes]], int]:
    """All messages, and the code of the end."""
    found = []
    try:
        while True:
            if (message := stream.receive()) is not None:
                found.append(message)
    except StreamClosed as closed:
        return found, closed.code
    finally:
        stream.close()


def test_messages_of_every_length_come_whole(tmp_path: Path) -> None:
    sizes = (0, 1, 125, 126, 65535, 65536, 1 << 20)

    def script(connection: socket.socket) -> None:
        connection.sendall(SWITCH + b"".join(frame(2, b"x" * size) for size in sizes) + frame(8, b"\x03\xe9"))
        connection.recv(100)

    found, code = messages(served(tmp_path, script))
    assert [(opcode, len(data)) for opcode, data in found] == [(BINARY, size) for size in sizes]
    assert code == 1001


def test_fragments_are_joined_and_pings_between_them_answered(tmp_path: Path) -> None:
    answers: list[bytes] = []
    done = threading.Event()

    def script(connection: socket.socket) -> None:
        connection.sendall(SWITCH + frame(1, b"ab", final=False) + frame(9, b"hi") + frame(0, b"cd"))
        answers.append(connection.recv(100))
        done.set()

    found, code = messages(served(tmp_path, script))
    assert done.wait(10)
    assert found == [(TEXT, b"abcd")]
    assert answers[0][:8] == bytes((0x80 | PONG, 0x80 | 2)) + bytes(4) + b"hi"
    assert code == 1006


def test_bytes_may_come_one_at_a_time(tmp_path: Path) -> None:
    def script(connection: socket.socket) -> None:
        for byte in SWITCH + frame(2, b"y" * 130):
            connection.sendall(bytes((byte,)))

    assert messages(served(tmp_path, script)) == ([(BINARY, b"y" * 130)], 1006)


@pytest.mark.parametrize("bad", [b"\x82\x7f" + b"\xff" * 8, b"\x82\x81\0\0\0\0a", b"\xf2\x01a"])
def test_what_breaks_the_protocol_ends_the_stream(tmp_path: Path, bad: bytes) -> None:
    def script(connection: socket.socket) -> None:
        connection.sendall(SWITCH + bad)
        connection.recv(100)

    assert messages(served(tmp_path, script)) == ([], 1002)


def test_a_refused_stream_says_why(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer, pytest.raises(http.MasterError, match="not yours") as caught:
        peer.answers["GET", "/v1/jobs/1/stream"] = (403, {"error": {"code": "not_allowed", "message": "not yours"}}, {})
        WebSocket(http.Endpoint(str(tmp_path / "s"), "", (os.getuid(),)), "/v1/jobs/1/stream")
    assert caught.value.exit_code == 77
