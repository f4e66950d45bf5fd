"""What is sent along with a request costs the others little, whoever sends it."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from mgpu.api import bodies, turns
from mgpu.core.errors import RequestError
from tests.api.conftest import submission


def connected(served):
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(30)
    found.connect(str(served.path))
    return found


def answer_of(connection):
    told = b""
    while piece := connection.recv(65536):
        told += piece
    return told


def test_a_body_of_many_parts_is_not_taken(served):
    body = b'{"ids": [' + b"[]," * bodies.MOST_CONTAINERS + b"[]]}"
    with connected(served) as connection:
        connection.sendall(b"POST /v1/cancel HTTP/1.1\r\nHost: mgpu\r\nConnection: close\r\n")
        connection.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        told = answer_of(connection)
    assert told.startswith(b"HTTP/1.1 400 ") and b"over 200000 brackets" in told and b"send fewer at once" in told


def test_large_ones_are_taken_all_the_same(served):
    body = submission("3" * 8)
    body["command"] = {"form": "script", "words": [], "script": "#!/bin/sh\n" + "# x\n" * 100_000, "script_name": "x"}
    for number in range(turns.LARGE_AT_ONCE + 2):
        assert served.ask("POST", "/v1/jobs", {**body, "request_id": f"{number:08d}", "kind": "batch"})[0] == 201


def test_read_object_refuses_what_is_no_object():
    async def told(text):
        async def read():
            return text

        return await bodies.read_object(SimpleNamespace(read=read))

    for text in (b"[]", b"1", b"{", b"[" * 100_000, b"\xff"):
        with pytest.raises(RequestError):
            asyncio.run(told(text))
