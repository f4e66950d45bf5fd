"""The filters that queue, history and cancel share."""

from __future__ import annotations

import os
import pwd
from typing import Any

import click

from mgpu.cli.session import bad_request

FILTERS = [
    click.Option(["-u", "--user"], metavar="NAME", help="Of this user."),
    click.Option(["--me"], is_flag=True, help="Of yourself."),
    click.Option(["-p", "--partition"], metavar="NAME", help="In this partition."),
    click.Option(["--states", "--state"], metavar="STATES", help="In these states, with commas between."),
    click.Option(["--name"], metavar="NAME", help="With this name."),
]
NODE = click.Option(["-w", "--nodelist", "node"], metavar="NODE", help="On this node.")
LIMIT = click.Option(["-n", "--limit"], metavar="N", type=click.IntRange(1), help="At most so many (100).")


def query(given: dict[str, Any]) -> dict[str, str]:
    """What the master is asked for."""
    wanted = {key: value for key, value in given.items() if isinstance(value, str) and value}
    if given.get("me"):
        wanted["user"] = login()
    if "states" in wanted:
        wanted["states"] = wanted["states"].upper()
    return wanted


def job_number(text: str) -> int:
    """Raises MasterError (bad_request) for what is no job's number."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise bad_request(f"{text!r} is not a job's number", "mgpu queue shows them")
    return int(text)


def login() -> str:
    """Our own login name, as the master knows us."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
