"""mgpu tick: the master for one pass."""

from __future__ import annotations

import click

from mgpu.cli.command import Command, session_of
from mgpu.cli.daemon import as_master
from mgpu.client.lock import AlreadyRunning

EXAMPLES = """
Example, in a crontab:
  * * * * * mgpu tick
"""


@click.command("tick", cls=Command, has_json=False, epilog=EXAMPLES)
@click.pass_context
def tick(context: click.Context, /) -> int:
    """Be the master for one full pass: look at the nodes, collect what ended, start what fits, and return."""
    try:
        return as_master(session_of(context), "tick")
    except AlreadyRunning:
        return 0  # the master that lives does all of it
