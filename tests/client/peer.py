"""A real socket peer that speaks the wire with answers given beforehand: what a client sees of a master."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any, TypeVar

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CUT = object()  # in a stream: the connection is gone, without a word
P = TypeVar("P", bound="Peer")


class Peer:
    """`answers[method, path]` is a document, bytes, (status, document or bytes, headers), or a threading.Event: then
    no answer comes, and the end once it is set. `streams` are the messages of one WebSocket after another: bytes, an
    event, CUT, or a threading.Event to wait for."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self.answers: dict[tuple[str, str], Any] = {("GET", "/v1/status"): {"pid": os.getpid()}}
        self.streams: list[list[Any]] = []
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.arrived = threading.Condition()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._threads: list[threading.Thread] = []

    def __enter__(self: P) -> P:
        self._listener.bind(self.path)
        self._listener.listen(16)
        self._spawn(self._accept)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Path(self.path).unlink()
        for thread in self._threads:
            thread.join(10)

    def wait_for(self, method: str, path: str) -> Any:
        """The body of the first such request, once it has come."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.bodies(method, path), 20), f"no {method} {path} came"
        return self.bodies(method, path)[0]

    def bodies(self, method: str, path: str) -> list[Any]:
        """Of the requests of that kind."""
        wanted = (method, path)
        return [body for verb, target, _, body in self.requests if (verb, target.partition("?")[0]) == wanted]

    def paths(self) -> list[str]:
        return [path for _, path, _, _ in self.requests]

    def _spawn(self, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            try:
                self._answer(connection, reader)
            except (ConnectionError, ValueError):
                return

    def _answer(self, connection: socket.socket, reader: Any) -> None:
        method, path, _version = reader.readline().decode().split()
        headers = {}
        while line := reader.readline().strip():
            name, _, value = line.decode("utf-8", "surrogateescape").partition(":")
            headers[name.lower()] = value.strip()
        body = json.loads(reader.read(int(headers.get("content-length", 0))) or b"null")
        with self.arrived:
            self.requests.append((method, path, headers, body))
            self.arrived.notify_all()
        if headers.get("upgrade") == "websocket" and self.streams:
            self._stream(connection, headers["sec-websocket-key"])
            return
        answer = self.answer_to(method, path)
        if isinstance(answer, threading.Event):
            answer.wait(20)
            return
        status, document, extra = answer if isinstance(answer, tuple) else (200, answer, {})
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        head = {"Content-Length": len(payload), **extra}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        connection.sendall(f"HTTP/1.0 {status} Any\r\n{lines}\r\n".encode() + payload)

    def answer_to(self, method: str, path: str) -> Any:
        missing = (404, {"error": {"code": "not_found", "message": f"no {path}", "hint": "look"}}, {})
        return self.answers.get((method, path), self.answers.get((method, path.partition("?")[0]), missing))

    def _stream(self, connection: socket.socket, key: str) -> None:
        accept = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        connection.sendall(
            f"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}"
            "\r\n\r\n".encode()
        )
        for message in self.streams.pop(0):
            if message is CUT:
                return
            if isinstance(message, threading.Event):
                message.wait(20)
                continue
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            connection.sendall(frame(2 if isinstance(message, bytes) else 1, data))
        connection.sendall(frame(8, struct.pack(">H", 1000)))


def frame(opcode: int, payload: bytes, final: bool = True) -> bytes:
    """A server's frame: not masked."""
    first = (0x80 if final else 0) | opcode
    if len(payload) < 126:
        return struct.pack(">BB", first, len(payload)) + payload
    if len(payload) < 1 << 16:
        return struct.pack(">BBH", first, 126, len(payload)) + payload
    return struct.pack(">BBQ", first, 127, len(payload)) + payload


def output(data: bytes, kind: int = 1, rank: int = 0, offset: int = 0) -> bytes:
    return struct.pack(">BHQ", kind, rank, offset) + data


def job(state: str, **more: Any) -> dict[str, Any]:
    """A job as the wire shows it, on one node of two GPUs once it has begun."""
    part = {
        "rank": 0, "node": "gpu01", "hostname": "gpu01.lab", "address": "10.0.0.1", "devices": [0, 1],
        "uuids": ["GPU-a", "GPU-b"], "pid": 42, "state": "RUNNING", "exit_code": None,
        "start_time": "2026-01-01T00:00:10Z",
    }  # fmt: skip
    waits = state == "PENDING"
    return {
        "job_id": 17, "name": "train", "user": "alice", "state": state, "reason": "", "gpus": 2, "nodes": 1,
        "command": ["python", "train.py"], "submit_time": "2026-01-01T00:00:00Z",
        "start_time": None if waits else "2026-01-01T00:00:10Z", "end_time": None, "exit_code": None,
        "attempt": 0 if waits else 1, "allocation": [] if waits else [part], **more,
    }  # fmt: skip


def state(word: str, **more: Any) -> dict[str, Any]:
    return {"event": "state", "job": job(word, **more)}


def end(word: str, **more: Any) -> dict[str, Any]:
    return {"event": "end", "job": job(word, **more)}
