"""The composition root: builds store, master, operations and API from the configuration, and runs them.

One master at a time a state directory: a kernel lock, held for life. A lock file that a dead master left behind means
nothing; one that is locked names who holds it.
"""

from __future__ import annotations

import fcntl
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import mgpu
from mgpu import clock, config
from mgpu.api.server import Server
from mgpu.client.locate import socket_path
from mgpu.config.model import Config
from mgpu.core.errors import ConfigError, StoreError
from mgpu.core.policies import POLICIES, Policy
from mgpu.master.links import make_links
from mgpu.master.master import KNOWN_HOSTS, Master
from mgpu.ops.context import Context
from mgpu.store.spool import Spool
from mgpu.store.store import Store

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005  # streams and the tick share the interpreter: 5 times quicker answers for one line
STILL_S = 1.0  # a pass is complete when nothing has moved for so long
TICK_LIMIT_S = 120.0


def run(config_path: Path | None, state_dir: Path, personal: bool) -> int:
    """Be the master until SIGTERM, ^C or `mgpu stop`; a personal one also ends when idle. Jobs run on without it.

    Raises ConfigError, and StoreError (another master holds the lock, the database cannot be used).
    """

    def over(master: Master, settings: Config) -> bool:
        return personal and master.idle_for() > settings.idle_exit_s

    return _serve(config_path, state_dir, over)


def tick(config_path: Path | None, state_dir: Path) -> int:
    """One full pass: probe, look, plan, start, collect; the API is served meanwhile. Nothing while a master lives."""
    began = clock.monotonic()

    def over(master: Master, settings: Config) -> bool:
        limit = TICK_LIMIT_S + 2 * settings.probe_timeout_s
        return master.still_for() > STILL_S or clock.monotonic() - began > limit

    try:
        return _serve(config_path, state_dir, over)
    except AlreadyRunning:
        return 0


class AlreadyRunning(StoreError):
    code = "already_running"


def _serve(config_path: Path | None, state_dir: Path, over: Callable[[Master, Config], bool]) -> int:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _log_to_stderr()
    os.umask(0o077)
    settings = config.load(config_path)
    for warning in settings.warnings:
        log.warning("%s", warning)
    with _lock(state_dir / "lock"):
        store = Store.open(state_dir / "mgpu.db")
        spool = Spool(state_dir / "spool")
        links = make_links(settings, store.database_id, state_dir / KNOWN_HOSTS)
        master = Master(settings, store, spool, links, _policies(settings))
        context = Context(store, spool, settings, master, master, clock.now(), os.getuid())
        server = Server(context, Path(socket_path(state_dir)))
        _stop_on_signals(master)
        master.load()
        server.start()
        log.info("mgpu %s: master of %s, pid %d", mgpu.__version__, state_dir, os.getpid())
        try:
            while not master.stopping.is_set() and not over(master, settings):
                master.inbox.wait(master.tick())
        finally:
            # the socket goes first, so that nobody asks a master that is on its way out
            server.stop()
            master.close()
            store.close()
            log.info("master of %s ends; jobs run on", state_dir)
    return 0


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held until the block ends, and by nobody else meanwhile. Raises AlreadyRunning."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}", "name another place with --state-dir") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()}\n".encode(), 0)
        yield
    except BlockingIOError as error:
        holder = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "a process that does not say"
        raise AlreadyRunning(
            f"another master holds {path}: {holder}", "`mgpu status` asks it, `mgpu stop` ends it"
        ) from error
    finally:
        os.close(descriptor)


def _stop_on_signals(master: Master) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: master.stop())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _policies(settings: Config) -> Mapping[str, Policy]:
    """Ours, and the one that the configuration names as package.module:function."""
    name = settings.default_policy
    module, colon, function = name.partition(":")
    if not colon:
        return POLICIES
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError([f"{settings.path}: scheduling.default_policy: {name} cannot be loaded: {error}"]) from error
    return {**POLICIES, name: cast(Policy, found)}


def _log_to_stderr() -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    # paramiko reports each lost link with a traceback; we tell it in one line ourselves
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("alembic").setLevel(logging.WARNING)
