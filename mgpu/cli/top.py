"""mgpu top: the monitor."""

from __future__ import annotations

import os

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Option, command

THEMES = ("dark", "light", "colour-blind", "plain")
EXAMPLES = """
Examples:
  mgpu top                          ? lists the keys, q quits
  mgpu top --theme colour-blind     or light; plain: without colours
  mgpu top --master ssh://head      of a master elsewhere
"""


@command(
    Option("--theme", "NAME", f"Its colours: {', '.join(THEMES)} (as with NO_COLOR)."),
    has_json=False,
    examples=EXAMPLES,
)
def top(session: Session, /, theme: str | None) -> None:
    """Watch nodes, GPUs and the queue, and act on jobs, until q is pressed."""
    if theme is not None and theme not in THEMES:
        raise bad_request(f"--theme {theme!r} is not known", f"one of {', '.join(THEMES)}")
    if not os.isatty(0) or not os.isatty(1):
        raise bad_request("top needs a terminal", "mgpu queue and mgpu nodes tell the same to a file or a pipe")
    if not os.isatty(2):  # where Textual draws
        os.dup2(1, 2)
    session.master().reach()
    from mgpu.tui.app import Monitor
    from mgpu.tui.source import Source

    source = Source(session.location())
    source.status()  # what is wrong with the two of us is told as by any other command
    Monitor(source, theme or "", session.elsewhere() or os.uname().nodename).run()
