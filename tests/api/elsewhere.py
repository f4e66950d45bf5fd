"""A served store that listens on TCP too, and those who knock there by hand."""

from __future__ import annotations

import json
import socket
import ssl
import time
from dataclasses import replace
from typing import Any

from mgpu.config.model import Listen
from mgpu.core.model import Audit
from tests.api.conftest import Served


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def listens(served: Served, tls: bool = False, **more: Any) -> int:
    """From now on; the port."""
    port = free_port()
    served.config = replace(served.config, listen=Listen("127.0.0.1", port, tls, **more))
    served.restart(config=served.config)
    return port


def token(served: Served, **body: Any) -> str:
    status, answer = served.ask("POST", "/v1/tokens", body)
    assert status == 201, answer
    return str(answer["token"])


def head(shown: str = "", method: str = "GET", path: str = "/v1/jobs", **more: str) -> bytes:
    headers = {"Host": "mgpu", **({"Authorization": f"Bearer {shown}"} if shown else {}), **more}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def connect(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    return tls.wrap_socket(connection, server_hostname="localhost") if tls else connection


def answer_on(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Status, headers, and what the JSON says."""
    with connection.makefile("rb") as reader:
        status = int(reader.readline().split()[1])
        headers = {}
        while line := reader.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers, json.loads(reader.read(int(headers["content-length"])) or b"null")


def ask(port: int, said: bytes, tls: ssl.SSLContext | None = None) -> tuple[int, dict[str, str], Any]:
    with connect(port, tls) as connection:
        connection.sendall(said)
        return answer_on(connection)


def is_closed(connection: socket.socket, within_s: float = 20.0) -> bool:
    """Whether the other side ends it by itself."""
    connection.settimeout(within_s)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def until(what: str, holds: Any, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def everything_under(folder: Any) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def audit(served: Served) -> list[Audit]:
    with served.store.read() as r:
        return r.audits()
