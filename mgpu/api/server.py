"""The server: a thread with an event loop of its own, listening on a unix socket, and on TCP where it is told to."""

from __future__ import annotations

import asyncio
import grp
import logging
import os
import secrets
import socket
import stat
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from mgpu.api.app import build_app
from mgpu.api.door import Door
from mgpu.api.tcp import Tcp
from mgpu.config.model import Listen
from mgpu.core.errors import StoreError
from mgpu.ops.context import Context

SHUTDOWN_S = 3.0  # for answers that are being made
BACKLOG = 512
PATH_LIMIT = 107  # of the kernel
WATCH_S = 1.0  # how long the socket's file may be missing


class _OneLine(logging.Filter):
    """What is no HTTP is its sender's mistake: it has a line in the log, and not the way through our code; nor what was
    sent, which may have a token in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            what = error.message.partition("\n")[0]
            record.msg, record.args, record.exc_info = "a request that is none: %.200r", (what,), None
        return True


logging.getLogger("aiohttp.server").addFilter(_OneLine())


class Server:
    """`start` returns once it can be connected to. The caller holds the master's lock: a socket file that is there
    already was left by a master that died, and is replaced. `listen`: where else, instead of what the configuration
    says."""

    def __init__(self, context: Context, path: Path, listen: Listen | None = None) -> None:
        self._context = context
        self._path = path
        self._at = listen or context.config.listen
        self._mode, self._gid = access(context)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)
        self._ready: Future[None] = Future()
        self._identity: tuple[int, int] | None = None

    def start(self) -> None:
        """Raises StoreError if the socket cannot be made."""
        self._thread.start()
        self._ready.result()

    def stop(self) -> None:
        """The socket's file goes first, so that nobody connects to what is ending; open streams are told to come back
        later. Returns when the thread has ended."""
        self._unlink()
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it ends by itself just now
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        app = build_app(self._context)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        if (server := runner.server) is not None:
            self._context.control.meters.clients = lambda: len(server.connections)
        tcp = Tcp(self._context, self._at, app, runner) if self._at is not None else None
        door: Door | None = None
        try:
            door = self._listen(runner)
            if tcp is not None:
                await tcp.start()
            self._ready.set_result(None)
            while not await self._stopped():
                if not self._path.exists():  # somebody tidied up: nobody could reach us any more, nor take our place
                    with suppress(StoreError):  # tried again
                        fresh = self._listen(runner)
                        await door.close()
                        door = fresh
        finally:
            if door is not None:
                await door.close()
            if tcp is not None:
                await tcp.close()
            await runner.cleanup()
            self._unlink()  # of one that was made just while we were stopped
            await asyncio.sleep(0.01)  # aborted connections close their sockets in the loop's next turns

    def _listen(self, runner: web.AppRunner) -> Door:
        assert runner.server is not None
        door = Door(self._context, runner.server)
        door.open(listen(self._path, self._mode, self._gid))
        found = self._path.stat()
        self._identity = (found.st_dev, found.st_ino)
        return door

    async def _stopped(self) -> bool:
        """Whether it is time to end; waits for it a while."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stop.wait(), WATCH_S)
        return self._stop.is_set()

    def _unlink(self) -> None:
        """Only our own: after us another master may have put its socket there."""
        with suppress(FileNotFoundError):
            found = self._path.stat()
            if (found.st_dev, found.st_ino) == self._identity:
                self._path.unlink()


def access(context: Context) -> tuple[int, int]:
    """Mode and group of the socket; -1 = whichever group it gets."""
    group = context.config.socket_group
    if context.personal or not group:
        return (0o600 if context.personal else 0o666), -1
    return 0o660, grp.getgrnam(group).gr_gid


def listen(path: Path, mode: int, gid: int = -1) -> socket.socket:
    """A socket that listens at `path` with that mode and group (-1 = any). It gets all that in a private folder and is
    then moved to its place: at no moment, and under no umask, can anybody else connect to it or nobody at all. Raises
    StoreError."""
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise StoreError(f"{path}: not a socket: it is in the way", "move it away, or name another --state-dir")
    if len(os.fsencode(path)) > PATH_LIMIT:
        raise StoreError(f"{path}: too long for a socket ({PATH_LIMIT} bytes)", "name a shorter --state-dir")
    folder = path.with_name(f".{secrets.token_hex(4)}")
    made = folder / "s"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700)
        listener.bind(str(made))
        if gid >= 0:
            os.chown(made, -1, gid)
        made.chmod(mode)
        listener.listen(BACKLOG)
        made.replace(path)
    except OSError as error:
        listener.close()
        hint = "name another --state-dir"
        if gid >= 0 and isinstance(error, PermissionError):
            hint = "its master has to be a member of `socket_group`: usermod -aG GROUP (its account)"
        raise StoreError(f"{path}: cannot listen there: {error.strerror or error}", hint) from error
    finally:
        with suppress(FileNotFoundError):
            made.unlink()
        with suppress(FileNotFoundError):
            folder.rmdir()
    return listener
