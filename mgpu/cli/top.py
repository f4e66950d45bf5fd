"""mgpu top: the monitor."""

from __future__ import annotations

import os

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import command

EXAMPLES = """
Examples:
  mgpu top                          ? lists the keys, q quits
  mgpu top --master ssh://head      of a master elsewhere
"""


@command(has_json=False, examples=EXAMPLES)
def top(session: Session, /) -> None:
    """Watch nodes, GPUs and the queue, and act on jobs, until q is pressed."""
    if not os.isatty(0) or not os.isatty(1):
        raise bad_request("top needs a terminal", "mgpu queue and mgpu nodes tell the same to a file or a pipe")
    session.master().reach()
    from mgpu.tui.app import Monitor
    from mgpu.tui.source import Source

    Monitor(Source(session.location())).run()
