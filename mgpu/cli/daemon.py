"""mgpu daemon: be the master."""

from __future__ import annotations

from pathlib import Path

import click

from mgpu.cli.command import Command, session_of
from mgpu.cli.session import Session
from mgpu.client import start
from mgpu.client.http import MasterError
from mgpu.client.lock import AlreadyRunning, master_lock

EXAMPLES = """
Examples:
  mgpu daemon --config /etc/mgpu/cluster_config.yaml
  mgpu daemon --ensure      start one in the background, unless one runs
"""


@click.command("daemon", cls=Command, has_json=False, epilog=EXAMPLES)
@click.option("--personal", is_flag=True, help="End by itself when idle for long.")
@click.option("--ensure", is_flag=True, help="Start one in the background unless one runs, and return.")
@click.pass_context
def daemon(context: click.Context, /, personal: bool, ensure: bool) -> int:
    """Be the master, in the foreground, until SIGTERM, ^C or `mgpu stop`. Jobs run on without it."""
    session = session_of(context)
    if ensure:
        start.ensure(session.location())
        return 0
    try:
        return as_master(session, "run", personal)
    except AlreadyRunning as error:
        if personal:  # whoever began us has only to wait
            error.exit_code = start.LOCK_HELD
        raise


def as_master(session: Session, work: str, *details: bool) -> int:
    """Runs `mgpu.daemon.<work>` with the configuration and the state directory, which it makes. The lock comes first:
    to say that it is held costs nothing then. Raises MasterError."""
    location = session.location()
    start.make_state_dir(location.state_dir)
    with master_lock(location.state_dir):
        import mgpu.daemon
        from mgpu.core.errors import MgpuError

        config = Path(location.config) if location.config else None
        try:
            return int(getattr(mgpu.daemon, work)(config, Path(location.state_dir), *details))
        except MgpuError as error:
            raise MasterError(error.code, error.message, error.hint, error.exit_code) from error
