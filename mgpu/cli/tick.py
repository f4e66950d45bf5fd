"""mgpu tick: the master for one pass."""

from __future__ import annotations

from mgpu.cli.daemon import as_master
from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.client.lock import AlreadyRunning

EXAMPLES = """
Example, in a crontab:
  * * * * * mgpu tick
"""


@command(has_json=False, examples=EXAMPLES)
def tick(session: Session, /) -> int:
    """Be the master for one full pass: look at the nodes, collect what ended, start what fits, and return."""
    try:
        return as_master(session, "tick")
    except AlreadyRunning:
        return 0  # the master that lives does all of it
