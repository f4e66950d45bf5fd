"""What a stranger says, read twice: the gate takes nothing for a token that the server behind would read otherwise."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from mgpu.api import knock
from mgpu.api.knock import bearer, is_ours, parse_knock

TOKEN = "mgpu_00000000_" + "5" * 64
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                f"Authorization: Bearer {TOKEN}",
                f"authorization:bearer {TOKEN}",
                f" Authorization: Bearer {TOKEN}",
                f"Authorization : Bearer {TOKEN}",
                f"Authorization\t: Bearer {TOKEN}",
                "Authorization: Bearer other",
                f"X: y\nAuthorization: Bearer {TOKEN}",
                f"X: y\rAuthorization: Bearer {TOKEN}",
                "Host: mgpu",
                "Origin: https://elsewhere",
                "Transfer-Encoding: chunked",
                "Content-Length: 5",
                "Content-Length: 6",
                "\x00",
                ":",
            ]
        ),
        st.text(st.characters(max_codepoint=255), max_size=30),
    ),
    max_size=6,
)
FIRST = st.one_of(
    st.sampled_from(
        ["GET / HTTP/1.1", "POST /v1/jobs HTTP/1.0", "GET  / HTTP/1.1", "GET / HTTP/1.1 x", "PRI * HTTP/2.0"]
    ),
    st.text(st.characters(max_codepoint=255), max_size=30),
)


@given(st.binary(max_size=400))
def test_whatever_is_said_is_read_or_refused(head: bytes) -> None:
    assert parse_knock(head) is None or b" HTTP/1." in head


async def as_the_server_reads(head: bytes) -> list[str | None]:
    """The Authorization of each request that it hears."""
    heard: list[str | None] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        heard.append(request.headers.get("Authorization"))
        return web.Response()

    server = web.Server(handle)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(head + knock.END)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
    finally:
        listener.close()
        await server.shutdown(1)
    return heard


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(FIRST, LINES)
def test_the_server_behind_reads_no_other_token(first: str, lines: list[str]) -> None:
    head = "\r\n".join([first, *lines]).encode("latin-1")
    if knock.END in head:
        return
    found = parse_knock(head)
    if found is None or not found.token:
        return
    heard = asyncio.run(as_the_server_reads(head))
    assert all(bearer(said or "") == found.token for said in heard[:1])


def test_a_head_as_our_client_sends_it() -> None:
    found = parse_knock(f"GET /v1/jobs HTTP/1.1\r\nHost: mgpu\r\nAuthorization: Bearer {TOKEN}".encode())
    assert found is not None
    assert (found.token, found.host, found.origin) == (TOKEN, "mgpu", "")


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("mgpu", True),
        ("MGPU:8443", True),
        ("head.lab.:8443", True),
        ("10.0.0.1:8443", True),
        ("[2001:db8::1]:8443", True),
        ("", False),
        ("evil.example", False),
        ("10.0.0.1.evil.example", False),
        ("mgpu.evil.example", False),
    ],
)
def test_under_which_names_it_is_asked(host: str, ours: bool) -> None:
    assert is_ours(host, ("mgpu", "head.lab")) is ours
