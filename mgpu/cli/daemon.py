"""mgpu daemon: be the master."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from mgpu.cli.session import Session, bad_request, refusal
from mgpu.cli.syntax import Option, command
from mgpu.client import start
from mgpu.client.lock import AlreadyRunning, hand_on, master_lock

USUAL, VERBOSE = 20, 10  # levels of `logging`
EXAMPLES = """
Examples:
  mgpu daemon --config /etc/mgpu/cluster_config.yaml
  mgpu daemon --ensure      start one in the background, unless one runs
"""


@command(
    Option("--personal", "", "End by itself when idle for long."),
    Option("--ensure", "", "Start one in the background unless one runs, and return; it stays, unless --personal."),
    Option(
        "--listen", "HOST:PORT", "Also there, whatever the configuration says: TLS beyond this machine, and tokens."
    ),
    has_json=False,
    examples=EXAMPLES,
)
def daemon(session: Session, /, personal: bool, ensure: bool, listen: str | None) -> int:
    """Be the master, in the foreground, until SIGTERM, ^C or `mgpu stop`. Jobs run on without it. SIGHUP reloads."""
    if ensure:
        if listen:
            raise bad_request("--listen is of a master in the foreground", "for others: master: {host: ..., port: ...}")
        start.ensure(session.location_here(), lasting=not personal)
        return 0
    try:
        return as_master(session, "run", personal, listen or "", VERBOSE if session.verbose else USUAL)
    except AlreadyRunning as error:
        if personal:  # whoever began us has only to wait
            error.exit_code = start.LOCK_HELD
        raise


def as_master(session: Session, work: str, *details: bool | int | str) -> int:
    """Runs `mgpu.daemon.<work>` with the configuration and the state directory, which it makes. The lock comes first:
    to say that it is held costs nothing then. Raises MasterError."""
    location = session.location_here()
    start.make_state_dir(location.state_dir)
    with master_lock(location.state_dir) as lock:
        from mgpu.config.apart import Reading
        from mgpu.core.errors import MgpuError

        try:
            reading = Reading(Path(location.config) if location.config else None)  # while all the rest is loaded
            gc.disable()  # of what modules are made of nothing becomes free: looking for it is a tenth of the start
            import mgpu.daemon

            gc.freeze()
            gc.enable()
            status = int(getattr(mgpu.daemon, work)(reading, Path(location.state_dir), *details))
        except MgpuError as error:
            raise refusal(error) from error
        if status == mgpu.daemon.ANEW:
            hand_on(lock)
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        return status
