"""mgpu dial-stdio: what a client on another machine runs here, by ssh."""

from __future__ import annotations

import json
import os
import socket

import mgpu
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client import http, start
from mgpu.client.http import MasterError
from mgpu.client.relay import relay
from mgpu.lean_typing import Any

WIRE = 1
EXAMPLES = """
It is run for you by MGPU_MASTER=ssh://user@here, from another machine.
"""


@command(
    Argument("mark", "WORD"),
    Option("--no-start", "", "Start no master if none runs."),
    has_json=False,
    examples=EXAMPLES,
)
def dial_stdio(session: Session, /, mark: str, no_start: bool) -> int:
    """Connect stdin and stdout with the master here, as a local command of this user. The first line begins with WORD:
    all before it was printed by start-up files."""
    told: dict[str, Any] = {"wire": WIRE, "version": mgpu.__version__}
    try:
        connection = to_master(session, not no_start)
    except MasterError as error:
        say_first(mark, {**told, "error": error.as_json()})
        return error.exit_code
    connection.settimeout(None)
    say_first(mark, told)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what comes by ssh's stderr is ssh's own from here on
    relay(connection)  # the other direction, which may wait for a client that says no more, ends with us
    return 0


def to_master(session: Session, may_start: bool) -> socket.socket:
    """Raises MasterError."""
    location = session.location_here()
    if may_start and location.personal:
        try:
            return http.connect(location.endpoint)
        except http.NoMaster:
            start.ensure(location)
    return http.connect(location.endpoint)


def say_first(mark: str, told: dict[str, Any]) -> None:
    """Between line ends: what start-up files printed last may have none."""
    os.write(1, f"\nmgpu-{mark} {json.dumps(told)}\n".encode())
