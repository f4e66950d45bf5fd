"""mgpu dial-stdio: what a client on another machine runs here, by ssh."""

from __future__ import annotations

import os

import mgpu
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client import http, start
from mgpu.client.http import MasterError
from mgpu.client.option import FROM_1
from mgpu.client.relay import relay
from mgpu.lean.json import dumps
from mgpu.lean.typing import Any

EXAMPLES = """
Example, on another machine, whose ssh runs it here:
  mgpu --master ssh://user@here queue
"""


@command(
    Argument("mark", "WORD"),
    Option("--no-start", "", "Start no master if none runs."),
    Option("--silence", "S", "End when nothing has come from the client's machine for S seconds.", whole=FROM_1),
    has_json=False,
    examples=EXAMPLES,
)
def dial_stdio(session: Session, /, mark: str, no_start: bool, silence: int | None) -> int:
    """Connect stdin and stdout with the master here, as a local command of this user. The first line begins with WORD:
    all before it was printed by start-up files."""
    told: dict[str, Any] = {"wire": mgpu.WIRE, "version": mgpu.__version__}
    try:
        connection = to_master(session, not no_start)
    except MasterError as error:
        say_first(mark, {**told, "error": error.as_json()})
        return error.exit_code
    connection.settimeout(None)
    say_first(mark, told)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what comes by ssh's stderr is ssh's own from here on
    # the other direction, which may wait for a client that says no more, ends with us
    relay(connection, lives=lambda: is_heard(silence))
    return 0


def is_heard(limit_s: int | None) -> bool:
    """Whether the client's machine has said anything lately, as far as that can be told."""
    login = os.environ.get("SSH_CONNECTION", "")
    if limit_s is None or not login:
        return True
    from mgpu.client.hearing import silent_for_s

    silent_s = silent_for_s(login)
    return silent_s is None or silent_s < limit_s


def to_master(session: Session, may_start: bool) -> http.Connection:
    """Raises MasterError."""
    location = session.location_here()
    if may_start and location.personal:
        try:
            return http.connect(location.endpoint)
        except http.NoMaster:
            start.ensure(location)
    try:
        return http.connect(location.endpoint)
    except http.NoMaster as error:
        raise http.NoMaster(error.message, start.how_to(location.state_dir) if location.personal else "") from error


def say_first(mark: str, told: dict[str, Any]) -> None:
    """Between line ends: what start-up files printed last may have none."""
    os.write(1, f"\nmgpu-{mark} {dumps(told)}\n".encode())
