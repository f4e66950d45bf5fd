"""The composition root: builds store, master, operations and API from the configuration, and runs them.

The caller holds the lock of the state directory (mgpu.client.lock): there is one master at a time.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import mgpu
from mgpu import clock, descriptors, logbook
from mgpu.api.server import Server
from mgpu.client.config_home import config_home
from mgpu.client.launcher import leave_launcher
from mgpu.client.locate import CONFIG_NAME, socket_path
from mgpu.client.lock import lock_path
from mgpu.client.start import log_path
from mgpu.config.apart import Reading
from mgpu.config.listening import listen_at
from mgpu.config.model import Config, Listen
from mgpu.config.policies import load_policies
from mgpu.core.errors import ConfigError, MgpuError, NotAllowed, StoreError
from mgpu.master.entering import Entering
from mgpu.master.master import Master
from mgpu.master.notifying import Notifier
from mgpu.memory import few_arenas
from mgpu.ops import exports, tokens, trees
from mgpu.ops import reload as operations
from mgpu.ops.context import Caller, Context
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from mgpu.systemd import Systemd, is_confined

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005  # streams and the tick share the interpreter: 5 times quicker answers for one line
STILL_S = 1.0  # a pass is complete when nothing has moved for so long
TICK_LIMIT_S = 120.0
ANEW = -1  # no exit status: the program is to be run anew in our place


def run(reading: Reading, state_dir: Path, personal: bool, listen: str = "", level: int = logging.INFO) -> int:
    """Be the master until SIGTERM, ^C or `mgpu stop`; a personal one also ends when idle. Jobs run on without it. The
    exit status, or ANEW. `listen`: HOST:PORT, instead of where the configuration says.

    Raises ConfigError, and StoreError if the database cannot be used.
    """
    with descriptors.room():
        return _run(reading, state_dir, personal, listen, level)


def _run(reading: Reading, state_dir: Path, personal: bool, listen: str, level: int) -> int:
    def over(master: Master, settings: Config) -> bool:
        # clients elsewhere cannot start one again
        return personal and not (settings.listen or listen) and master.idle_for() > settings.idle_exit_s

    systemd = Systemd(os.environ)
    if systemd.watchdog_s < float("inf"):
        faulthandler.enable()  # it ends one that hangs by SIGABRT: then each thread says where it stands
    logbook.to_stderr(Path(log_path(state_dir)), level)
    settings, before = reading.result(), None
    if personal and settings.shared:
        raise NotAllowed(
            f"{settings.path} is of a shared master, which does not run",
            "its administrator starts it (docs/service.md)",
        )
    while True:
        try:
            after = _serve(settings, state_dir, over, systemd, _place(listen, settings))
        except ConfigError as error:
            if before is None:
                raise
            log.error("the configuration cannot be used, so the one before it is: %s", "; ".join(error.faults))
            settings, before = before, None  # once: should it be of no use either, we end
            continue
        if after is None:
            return 0
        if isinstance(after, int):
            os.environ.update(systemd.variables if after == ANEW else {})
            return after
        before, settings = settings, after


def tick(reading: Reading, state_dir: Path) -> int:
    """One full pass: probe, look, plan, start, collect; the API is served meanwhile."""
    began = clock.monotonic()

    def over(master: Master, settings: Config) -> bool:
        limit = TICK_LIMIT_S + 2 * settings.probe_timeout_s
        return master.still_for() > STILL_S or clock.monotonic() - began > limit

    logbook.to_stderr(Path(log_path(state_dir)), logging.WARNING)  # one a minute would say the same each time
    with descriptors.room():
        after = _serve(reading.result(), state_dir, over, Systemd(os.environ))
    return after if isinstance(after, int) and after != ANEW else 0


def _place(listen: str, settings: Config) -> Listen | None:
    """Raises ConfigError."""
    try:
        return listen_at(listen, settings.listen) if listen else settings.listen
    except ValueError as error:
        raise ConfigError([f"--listen: {error}"]) from error


def _serve(
    settings: Config,
    state_dir: Path,
    over: Callable[[Master, Config], bool],
    systemd: Systemd,
    listen: Listen | None = None,
) -> int | Config | None:
    """Until its end: the exit status of a trouble, ANEW, None, or the configuration that another master is to go by."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    few_arenas()
    os.umask(0o077)
    leave_launcher()
    logbook.write_as(settings.log_format, journal=systemd.has_our_stderr())
    for warning in settings.warnings:
        log.warning("%s", warning)
    if is_confined() and any(node.connection == "local" for node in settings.nodes):
        what = "this process may gain no privileges, so sudo and setuid programs fail in the jobs of this machine"
        log.warning("%s; of a service: install it again, it sees then that this machine is a node", what)
    _open_to(state_dir, settings)
    policies = load_policies(settings)  # may be refused, and then nothing is open yet
    store = Store.open(state_dir / "mgpu.db")
    store.listen(logbook.happened)
    spool = Spool(state_dir / "spool", settings.output_max)
    entering = Entering(settings, store.database_id, state_dir)
    master = Master(settings, store, spool, entering.links, policies)
    context = Context(
        store,
        spool,
        settings,
        master,
        master,
        clock.now(),
        os.getuid(),
        own_config=Path(config_home(os.environ), CONFIG_NAME),
    )
    server = Server(context, Path(socket_path(state_dir)), listen)
    # without them another master could begin beside us, and what we store would be nowhere
    anchors = (Path(lock_path(state_dir)), store.path)
    held = _identities(anchors)
    _take_signals(master, context)
    master.load()
    trees.tidy(context)
    tokens.load(context)
    exports.tidy(context)
    server.start()
    notifier = Notifier(context)
    notifier.start()
    log.info("mgpu %s: master of %s, pid %d", mgpu.__version__, state_dir, os.getpid())
    systemd.tell("READY=1", f"STATUS=mgpu {mgpu.__version__}, {len(settings.nodes)} nodes")
    try:
        while not master.stopping.is_set() and not over(master, settings):
            if _identities(anchors) != held:
                log.error("%s was emptied or moved: its master ends, jobs run on", state_dir)
                return 69
            pause_s = master.tick()
            systemd.alive(clock.monotonic())
            master.inbox.wait(min(pause_s, systemd.watchdog_s))
    finally:
        stays = master.restarting or master.successor is not None
        systemd.tell("RELOADING=1" if stays else "STOPPING=1", f"MONOTONIC_USEC={int(1e6 * clock.monotonic())}")
        master.leave()
        # the socket goes first, so that nobody asks a master that is on its way out
        server.stop()
        notifier.stop()
        master.close()
        store.close()
        if not stays:
            log.info("master of %s ends; jobs run on", state_dir)
    return ANEW if master.restarting else master.successor


def _open_to(state_dir: Path, settings: Config) -> None:
    """Of a shared master, all may pass through its folder to the socket, and see nothing else of it. Raises
    StoreError."""
    if not settings.shared:
        return
    if Path(socket_path(state_dir)).parent != state_dir:
        raise StoreError(f"{state_dir}: too long for a socket in it", "name a shorter master.state_dir")
    with suppress(PermissionError):  # root's: it is as root wants it
        state_dir.chmod(0o711)
    for folder in (state_dir, *state_dir.parents):
        if not folder.stat().st_mode & 0o001:
            log.warning("%s: others cannot enter it, so they do not reach this master: chmod o+x", folder)


def _identities(paths: Iterable[Path]) -> list[tuple[int, int] | None]:
    """Which files these are now; None = none."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return found


def _take_signals(master: Master, context: Context) -> None:
    def reload() -> None:
        try:
            operations.reload(context, Caller(os.getuid(), "SIGHUP"), {})
        except MgpuError as error:
            log.error("SIGHUP: %s; %s", "; ".join(error.message.splitlines()), error.hint)

    if threading.current_thread() is threading.main_thread():
        # what our starter ignored (nohup, a script's &) this machine's jobs would ignore for good; the two that Python
        # itself ignores it restores in what it starts
        for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: master.stop())
        # by a thread of its own: it reads the database, which the one that is interrupted may be at
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())
