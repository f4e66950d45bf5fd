"""mgpu top: the monitor, on a terminal or in a browser."""

from __future__ import annotations

import os
import sys

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import say
from mgpu.client.option import PORTS_OR_0
from mgpu.lean.typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

THEMES = ("dark", "light", "colour-blind", "plain")
EXAMPLES = """
Examples:
  mgpu top                          ? lists the keys, q quits
  mgpu top --theme colour-blind     or light; plain: without colours
  mgpu top --master ssh://head      of a master elsewhere
  mgpu top --web                    in a browser: says what to open there
"""
IN_BROWSER = "mgpu.tui.web.tab:TabDriver"
LOOPBACK = "127.0.0.1"
SWITCH_S = 0.0005  # from a thread that reads what a job writes to the one that answers keys


@command(
    Option("--theme", "NAME", f"Its colours: {', '.join(THEMES)} (as with NO_COLOR)."),
    Option("--no-mouse", "", "Leaves the mouse to the terminal: it selects text as ever."),
    Option("--web", "", "In a browser, on this machine and for you alone."),
    Option("--port", "P", "--web: at this port, instead of any that is free. Else of the master.", whole=PORTS_OR_0),
    Option("--host", "ADDRESS", "--web: at this loopback address. Else of the master."),
    has_json=False,
    examples=EXAMPLES,
)
def top(session: Session, /, theme: str | None, no_mouse: bool, web: bool, port: int | None, host: str | None) -> int:
    """Watch nodes, GPUs and the queue, and act on jobs, until q is pressed."""
    if theme is not None and theme not in THEMES:
        raise bad_request(f"--theme {theme!r} is not known", f"one of {', '.join(THEMES)}")
    if web:
        return serve(session, theme, host or LOOPBACK, port or 0)
    if host is not None or port is not None:  # as with all other commands: where the master is
        session.master_at = (host or "", "" if port is None else str(port))
    in_browser = os.environ.get("TEXTUAL_DRIVER") == IN_BROWSER
    if not in_browser and not (os.isatty(0) and os.isatty(1)):
        raise bad_request("top needs a terminal", "mgpu queue and mgpu nodes tell the same to a file or a pipe")
    if not in_browser and not os.isatty(2):  # where Textual draws
        os.dup2(1, 2)
    if sys.__stderr__ is None:  # it was closed
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", closefd=False)  # type: ignore[misc]
    session.master().reach()
    from mgpu.tui.app import Monitor
    from mgpu.tui.source import Source
    from mgpu.tui.wishes import untold

    source = Source(session.location())
    source.status()  # what is wrong with the two of us is told as by any other command
    from mgpu.tui.terminal import TerminalDriver

    name = session.elsewhere() or os.uname().nodename
    monitor = Monitor(source, theme or "", name, driver=None if in_browser else TerminalDriver)
    sys.setswitchinterval(SWITCH_S)
    monitor.run(mouse=not no_mouse)
    for words in untold():
        say(words)
    return monitor.return_code or 0


def serve(session: Session, theme: str | None, host: str, port: int) -> int:
    """Until a signal ends it: 130 after ^C. Raises MasterError."""
    from mgpu.endpoint import is_loopback

    if not is_loopback(host):
        what = f"--host {host}: the monitor is served on this machine alone, since who sees it acts as you"
        raise bad_request(what, "from another one: ssh -L 8000:127.0.0.1:8000 here, and mgpu top --web --port 8000")
    session.master().reach()
    from mgpu.tui.web.server import WebMonitor

    out = sys.stdout
    listener = listener_at(host, port)
    line = [*monitor_line(session), *(["--theme", theme] if theme else [])]
    server = WebMonitor(line, listener, lambda text: print(text, file=out, flush=True), say)
    if os.environ.get("SSH_CONNECTION"):
        there, machine = server.port, os.uname().nodename
        print(f"From your own machine, first: ssh -L {there}:127.0.0.1:{there} {machine}")
    print("Each address works once; Enter tells another, ^C ends it.", flush=True)
    server.serve()
    return 128 + server.ended_by


def monitor_line(session: Session) -> list[str]:
    """The command line of a monitor of the same master. A token is no part of it: that stands in the environment, or in
    a file."""
    host, port = session.master_at
    options = {
        "--config": session.config,
        "--state-dir": session.state_dir,
        "--master": session.master_url,
        "--host": host,
        "--port": port,
    }
    given = [word for flag, value in options.items() if value for word in (flag, value)]
    return [sys.executable, "-m", "mgpu", *given, "top"]


def listener_at(host: str, port: int) -> socket.socket:
    """Raises MasterError."""
    import socket

    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
    except (OSError, OverflowError) as error:
        listener.close()
        what = f"--port {port}: {host} cannot be listened at: {getattr(error, 'strerror', None) or error}"
        raise bad_request(what, "leave --port out: any that is free") from None
    return listener
