"""mgpu_master (mgpu_server): the master in the foreground, listening where it is told to.

What was open to anybody who reached the port is so no more: beyond this machine it is TLS, and everywhere a token is
asked for.
"""

from __future__ import annotations

from mgpu.cli.daemon import USUAL, VERBOSE, as_master
from mgpu.cli.session import Session
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import say
from mgpu.client.address import bracketed
from mgpu.client.lock import is_held
from mgpu.client.option import PORTS
from mgpu.endpoint import PORT, is_loopback

EXAMPLES = """
Examples:
  mgpu_master                                on this machine alone, port 8080
  mgpu_master --host 0.0.0.0 --port 8080     from elsewhere too: over TLS
  mgpu_master --host 0.0.0.0 --verbose       and all that happens, on stderr

Nobody gets in without a token: mgpu token create makes one here; there, mgpu
token save keeps it and mgpu token trust looks at the certificate
(docs/remote.md). Who is logged in here needs none.
"""
EVERYWHERE = ("0.0.0.0", "::", "")


@command(
    Option("--host", "H", "Listen there: an address, a name, or 0.0.0.0 for all.", key="host"),
    Option("-p --port", "P", "The port (8080).", key="port", whole=PORTS),
    has_json=False,
    examples=EXAMPLES,
)
def mgpu_master(session: Session, /, host: str | None, port: int | None) -> int:
    """Be the master, in the foreground, until SIGTERM, ^C or `mgpu stop`. Jobs run on without it.

    Without --host and --port it listens where its configuration says; if that says nothing, on 127.0.0.1:8080.
    """
    listen = place(session, host, port)
    if listen and not is_held(session.location_here().state_dir):  # else that is what is to be told
        name, _, at = listen.rpartition(":")
        say(how_to_reach(name.strip("[]"), at))
    return as_master(session, "run", False, listen, VERBOSE if session.verbose else USUAL)


def place(session: Session, host: str | None, port: int | None) -> str:
    """HOST:PORT; "" = as the configuration says."""
    if host is None and port is None and _is_said(session.location_here().config):
        return ""
    return f"{bracketed((host or '127.0.0.1').strip('[]'))}:{port or PORT}"


def _is_said(config: str) -> bool:
    """One with faults the master itself refuses."""
    from pathlib import Path

    from mgpu.config.load import load
    from mgpu.core.errors import ConfigError

    try:
        return bool(config) and load(Path(config)).listen is not None
    except ConfigError:
        return True


def how_to_reach(host: str, port: str) -> str:
    if is_loopback(host):
        return (
            f"clients on this machine need nothing (or --host {host} --port {port} and a token); for others, "
            "begin it with --host 0.0.0.0"
        )
    import socket

    name = socket.gethostname() if host in EVERYWHERE else bracketed(host)
    return (
        f"clients elsewhere: mgpu --master https://{name}:{port} (or --host {name} --port {port}), with a token "
        "(mgpu token create, here) and this certificate (mgpu token trust, there)"
    )
