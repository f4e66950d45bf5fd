"""The server of `mgpu top --web`: each tab of the browser has a monitor of its own, a process like any `mgpu top`.

textual-serve carries keys and pictures between the two; who may come near, what pages may do, and how many there may
be is decided here (see `access`). All of it comes from this machine: the pages name no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import secrets
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from mgpu.tui.web.access import COOKIE, Access, why_not
from mgpu.tui.web.tab import DRIVER
from mgpu.wording.letters import clean

MOST_TABS = 8
PATIENCE_S = 3.0  # with a monitor that is to end
LARGEST_MESSAGE_B = 1 << 20
MOST_CELLS = 1000  # of a side
TEMPLATES = Path(__file__).parent / "templates"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ACCESS = web.AppKey("access", Access)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Tab(AppService):
    """The monitor of one tab."""

    process: asyncio.subprocess.Process | None = None

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        self.process = await super()._open_app_process(width, height)
        return self.process

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Raises TypeError, ValueError and OverflowError for what is no size."""
        await super().set_terminal_size(_bounded(int(width)), _bounded(int(height)))

    async def end(self) -> None:
        """It is asked to, then told to, then killed."""
        with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
            await asyncio.wait_for(self.stop(), PATIENCE_S)
        for act in ("wait", "terminate", "kill"):
            process = self.process
            if process is None or process.returncode is not None:
                return
            if act != "wait":
                with contextlib.suppress(ProcessLookupError):
                    getattr(process, act)()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), PATIENCE_S)

    async def run(self) -> None:
        """The tab is told when there is nothing more to show, also of one that could not begin."""
        try:
            await super().run()
        finally:
            await self.remote_close()


class WebMonitor(Server):
    """`words`: the command line of the monitor, `listener`: where it is served. `tell` is for what people are to read,
    `warn` for what monitors said as they ended."""

    def __init__(
        self, words: Sequence[str], listener: socket.socket, tell: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        host, port = listener.getsockname()[:2]
        # in the shell's place, and quoted: nothing of it is the shell's to read
        command = shlex.join(["env", f"TEXTUAL_DRIVER={DRIVER}", "TERM=xterm-256color", *words])
        super().__init__(f"exec {command}", host, port, title="mgpu top", templates_path=TEMPLATES)
        self._listener = listener
        self._tell, self._warn = tell, warn
        self._access = Access()
        self._tabs: set[Tab] = set()
        self._ended_by = 0

    def serve(self, debug: bool = False) -> None:
        """Until a signal comes."""
        logging.getLogger("textual-serve").addHandler(logging.NullHandler())
        logging.getLogger("textual-serve").propagate = False
        with contextlib.redirect_stdout(_Told(self._warn)):  # there textual-serve writes what went wrong
            asyncio.run(self._serve())

    @property
    def ended_by(self) -> int:
        return self._ended_by

    # --- the course of it ---

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def end(number: int) -> None:
            self._ended_by = self._ended_by or number
            stop.set()

        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            loop.add_signal_handler(number, end, number)
        # no log of requests: the first one holds the token
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=PATIENCE_S)
        await runner.setup()
        try:
            await web.SockSite(runner, self._listener).start()
            self._tell_address()
            if os.isatty(0):
                loop.add_reader(0, self._on_typed)
            await stop.wait()
        finally:
            await runner.cleanup()

    def _tell_address(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._tell(f"Open this: http://{host}:{self.port}/?token={self._access.new_token()}")

    def _on_typed(self) -> None:
        """Enter: another address, as for another browser."""
        if os.tcgetpgrp(0) != os.getpgrp():
            return  # it was typed to somebody else, and who reads it is stopped
        if os.read(0, 4096):
            self._tell_address()
        else:
            asyncio.get_running_loop().remove_reader(0)

    # --- what is served ---

    async def _make_app(self) -> web.Application:
        monitor = await super()._make_app()
        outer = web.Application(middlewares=[_guard])
        outer[_ACCESS] = self._access
        outer.on_response_prepare.append(_protect)
        aiohttp_jinja2.setup(outer, loader=jinja2.FileSystemLoader(TEMPLATES))
        outer.add_subapp(self._access.place, monitor)
        return outer

    async def on_startup(self, app: web.Application) -> None:
        """Said by `_serve`, once it listens."""

    async def on_shutdown(self, app: web.Application) -> None:
        await asyncio.gather(*(tab.end() for tab in self._tabs))

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """The page of a tab. Where it is reached may be another port than ours: there may be a tunnel between."""
        nonce = secrets.token_urlsafe(16)
        size = min(max(to_int(request.query.get("fontsize", ""), 14), 6), 60)
        stream = f"ws://{request.host}{self._access.place}ws"
        known = {"title": self.title, "nonce": nonce, "font_size": size, "stream": stream}
        answer = aiohttp_jinja2.render_template("app_index.html", request, known)
        answer.headers["Content-Security-Policy"] = policy(nonce, request.host)
        return answer

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Keys one way, pictures the other, as long as both are there."""
        if len(self._tabs) >= MOST_TABS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_TABS} tabs show it already: close one")
        stream = web.WebSocketResponse(heartbeat=15, max_msg_size=LARGEST_MESSAGE_B)
        tab = Tab(
            self.command,
            write_bytes=stream.send_bytes,
            write_str=stream.send_str,
            close=partial(_close, stream),
            download_manager=self.download_manager,
        )
        self._tabs.add(tab)
        try:
            await stream.prepare(request)
            await tab.start(_cells(request, "width", 80), _cells(request, "height", 24))
            await self._process_messages(stream, tab)
        except (AssertionError, AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError):
            await stream.close()  # what came is none of the page's messages
        except ConnectionError:
            pass  # the tab is gone
        finally:
            await asyncio.shield(tab.end())
            self._tabs.discard(tab)
        return stream


async def _close(stream: web.WebSocketResponse) -> None:
    await stream.close()


def _cells(request: web.Request, side: str, usual: int) -> int:
    return _bounded(to_int(request.query.get(side, ""), usual))


def _bounded(cells: int) -> int:
    return min(max(cells, 1), MOST_CELLS)


def policy(nonce: str, host: str) -> str:
    """What the page may do: with what lies here, and nothing else. xterm.js makes style sheets of its own."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        f"img-src 'self' data:; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


@web.middleware
async def _guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Nobody but those who have a session gets past this, whatever they ask for."""
    access = request.app[_ACCESS]
    trouble = why_not(request.headers, request.headers.get("Upgrade", "").lower() == "websocket")
    if trouble:
        return web.Response(status=403, text=f"mgpu top: refused: {trouble}\n")
    if request.path.startswith(access.place) and access.knows(request.cookies.get(COOKIE, "")):
        return await handler(request)
    if request.path == "/" and request.method == "GET" and "token" in request.query:
        session = access.exchange(request.query["token"])
        if session is not None:
            answer = web.Response(status=303, headers={"Location": access.place})
            answer.set_cookie(COOKIE, session, path=access.place, httponly=True, samesite="Strict")
            return answer
    refused = aiohttp_jinja2.render_template("refused.html", request, {}, status=403)
    refused.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    return refused


async def _protect(_request: web.Request, answer: web.StreamResponse) -> None:
    for name, value in {**HEADERS, "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}.items():
        answer.headers.setdefault(name, value)


class _Told(io.TextIOBase):
    """What is written is told line by line, as text that steers no terminal."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last = ""  # a monitor that cannot begin is told of twice

    def write(self, text: str) -> int:
        for line in text.splitlines() if text != self._last else ():
            if line.strip():
                self._tell(clean(line.removeprefix("mgpu: ")))
        self._last = text
        return len(text)
