"""What `mgpu top --web` gives to whom, and what it leaves when it ends. Asked over real connections."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mgpu.tui.web.server import MOST_TABS
from tests.web.conftest import LONG_S, Web

Start = Callable[..., Web]


def ask(web: Web, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(web.netloc, timeout=LONG_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=named)
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def log_in(web: Web) -> tuple[str, str]:
    """Cookie and place."""
    status, headers, _ = ask(web, f"/?token={web.token}")
    assert status == 303
    return headers["set-cookie"].partition(";")[0], headers["location"]


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_token_gives_a_cookie_once(web: Start) -> None:
    served = web()
    assert ask(served, f"/?token={served.token}x")[0] == 403
    assert ask(served, f"/?token={served.token}", "HEAD")[0] == 403  # who only looks uses nothing up
    status, headers, body = ask(served, f"/?token={served.token}")
    assert (status, body) == (303, "") and "token" not in headers["location"]
    cookie, *rest = headers["set-cookie"].split("; ")
    assert sorted(rest) == ["HttpOnly", f"Path={headers['location']}", "SameSite=Strict"]
    status, again, body = ask(served, f"/?token={served.token}")
    assert status == 403 and "set-cookie" not in again and "press Enter" in body
    page = ask(served, headers["location"], Cookie=cookie)
    assert page[0] == 200 and 'class="textual-terminal"' in page[2]
    assert page[1]["content-security-policy"].startswith("default-src 'none'; script-src 'self' 'nonce-")
    assert page[1]["cache-control"] == "no-store" and page[1]["referrer-policy"] == "no-referrer"


def test_without_the_cookie_nothing_is_served(web: Start) -> None:
    served = web()
    cookie, place = log_in(served)
    stream = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": served.origin}
    for path in ("/", "/ws", "/static/js/textual.js", "/favicon.ico", place, f"{place}static/js/textual.js"):
        for wrong in ({}, {"Cookie": "mgpu_top=x"}, {"Cookie": f"mgpu_top={served.token}"}, {"Cookie": "=;;,"}):
            status, headers, body = ask(served, path, **wrong)
            assert status == 403 and "textual" not in body and "set-cookie" not in headers
    assert ask(served, f"{place}ws", **stream)[0] == 403
    assert ask(served, f"{place}static/js/textual.js", Cookie=cookie)[0] == 200
    assert ask(served, "/", Cookie=cookie)[0] == 403  # it is of use at its place alone
    assert ask(served, place, "POST", Cookie=cookie)[0] == 405
    for path in ("static/../../server.py", "static/..%2f..%2fserver.py", "static//etc/passwd"):
        assert ask(served, place + path, Cookie=cookie)[0] in (403, 404)
    assert served.monitors() == []


def test_other_names_and_other_pages_are_refused_with_the_cookie_too(web: Start) -> None:
    served = web()
    cookie, place = log_in(served)
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    ):
        status, _, body = ask(served, place, Cookie=cookie, **headers)
        assert status == 403 and body.startswith("mgpu top: refused: ")
    stream = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13", "Cookie": cookie}
    stream["Sec_WebSocket_Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    for origin in ({}, {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:1"}):
        assert ask(served, f"{place}ws", **stream, **origin)[0] == 403
    assert served.monitors() == []


class Tabs:
    """Streams as pages open them."""

    def __init__(self, web: Web) -> None:
        self._cookie, self._place = log_in(web)
        self._web = web

    async def open(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        address = f"ws://{self._web.netloc}{self._place}ws?width=80&height=24"
        return await session.ws_connect(address, headers={"Cookie": self._cookie, "Origin": self._web.origin})


async def picture(stream: aiohttp.ClientWebSocketResponse) -> bytes:
    """What a tab is shown first."""
    async for message in stream:
        if message.type == aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
    raise AssertionError("it ended without one")


def test_each_tab_has_a_monitor_that_ends_with_it(web: Start) -> None:
    served = web()
    tabs = Tabs(served)

    async def course() -> None:
        async with aiohttp.ClientSession() as session:
            first, second = await tabs.open(session), await tabs.open(session)
            assert await picture(first) and await picture(second)
            assert len(served.monitors()) == 2
            await first.close()
            await asyncio.to_thread(until, lambda: len(served.monitors()) == 1)
            await second.send_str('["stdin", "q"]')  # the monitor's own way to end
            async for message in second:
                assert message.type == aiohttp.WSMsgType.BINARY
            await asyncio.to_thread(until, lambda: not served.monitors())

    asyncio.run(course())


NONSENSE = [
    "{",
    "[]",
    '{"a": 1}',
    '["resize", {}]',
    '["resize", {"width": "x", "height": 1}]',
    '["stdin"]',
    '["stdin", 7]',
]


@pytest.mark.parametrize("nonsense", [*NONSENSE, '["resize", {"width": 1e999, "height": 1}]', "[" * 100_000])
def test_a_message_that_no_page_sends_ends_that_tab_alone(web: Start, nonsense: str) -> None:
    served = web()
    tabs = Tabs(served)

    async def course() -> None:
        async with aiohttp.ClientSession() as session:
            stream, other = await tabs.open(session), await tabs.open(session)
            await stream.send_str(nonsense)
            async for message in stream:
                assert message.type == aiohttp.WSMsgType.BINARY
            assert await picture(other)

    asyncio.run(course())
    assert served.end()[2] == ""


def test_there_are_so_many_tabs(web: Start) -> None:
    served = web()
    tabs = Tabs(served)

    async def course() -> None:
        async with aiohttp.ClientSession() as session:
            streams = [await tabs.open(session) for _ in range(MOST_TABS)]
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await tabs.open(session)
            assert refused.value.status == 503
            assert len(served.monitors()) == MOST_TABS
            for stream in streams:
                await stream.close()

    asyncio.run(course())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_it_leaves_no_monitor_behind(web: Start, number: int, status: int) -> None:
    served = web()
    tabs = Tabs(served)

    async def course() -> list[int]:
        async with aiohttp.ClientSession() as session:
            stream = await tabs.open(session)
            assert await picture(stream)
            monitors = served.monitors()
            ended, _, err = await asyncio.to_thread(served.end, number)
            assert (ended, err) == (status, "")
            return monitors

    (monitor,) = asyncio.run(course())
    until(lambda: not Path(f"/proc/{monitor}").exists() or " Z " in Path(f"/proc/{monitor}/stat").read_text())


def test_no_secret_is_on_a_command_line_or_in_what_is_said(web: Start) -> None:
    served = web(PYTHONASYNCIODEBUG="1")  # with that, aiohttp would have a log of requests
    tabs = Tabs(served)

    async def course() -> list[str]:
        async with aiohttp.ClientSession() as session:
            stream = await tabs.open(session)
            assert await picture(stream)
            return [
                Path(f"/proc/{process}/{told}").read_text(errors="replace")
                for process in (served.process.pid, *served.monitors())
                for told in ("cmdline", "environ")
            ]

    told = asyncio.run(course())
    assert len(told) == 4
    _, out, err = served.end()
    for secret in (served.token, tabs._cookie.partition("=")[2], tabs._place):
        assert secret not in "".join([*told, out, err])


def test_a_monitor_that_fails_is_told_of_without_control_characters(web: Start, state_dir: Path) -> None:
    """Its words may hold what a job or a file is called."""
    served = web()
    tabs = Tabs(served)
    (state_dir / "mgpu.sock").rename(state_dir / "gone")

    async def course() -> None:
        async with aiohttp.ClientSession() as session:
            async for message in await tabs.open(session):
                assert message.type == aiohttp.WSMsgType.BINARY

    (state_dir / "start.lock").mkdir()  # so that no other master can be started
    asyncio.run(course())
    (state_dir / "gone").rename(state_dir / "mgpu.sock")
    _, _, err = served.end()
    assert err.startswith("mgpu: cannot write ") and err.count("\n") == 1


def test_enter_tells_another_address_and_the_one_before_is_worth_nothing(web: Start) -> None:
    ours, theirs = os.openpty()
    served = web(stdin=theirs)
    first = served.token
    os.write(ours, b"\n")
    assert served.process.stdout is not None
    second = served.process.stdout.readline().strip().partition("token=")[2]
    assert second and second != first
    assert [ask(served, f"/?token={token}")[0] for token in (first, second, second)] == [403, 303, 403]
    os.close(theirs)
    os.close(ours)  # the terminal is gone
    assert served.process.wait(LONG_S) == 129


def run(*words: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "mgpu", *words], capture_output=True, text=True, timeout=LONG_S, check=False
    )
    return ran.returncode, ran.stderr


def test_where_it_is_served(web: Start, state_dir: Path) -> None:
    for host in ("0.0.0.0", "10.0.0.1", "head.example", "::"):
        status, err = run("top", "--web", "--host", host)
        assert status == 2 and err.startswith(f"mgpu: --host {host}: the monitor is served on this machine alone")
        assert "ssh -L 8000:127.0.0.1:8000" in err
    served = web("--host", "localhost", SSH_CONNECTION="10.0.0.9 50000 10.0.0.1 22")
    port = served.netloc.rpartition(":")[2]
    assert served.said[0].startswith(f"From your own machine, first: ssh -L {port}:127.0.0.1:{port} ")
    status, err = run("top", "--web", "--state-dir", str(state_dir), "--port", port)
    assert status == 2 and f"--port {port}: 127.0.0.1 cannot be listened at: Address already in use" in err
    assert run("top", "--web", "--state-dir", str(state_dir), "--port", "70000")[0] == 2
