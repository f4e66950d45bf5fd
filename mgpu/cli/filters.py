"""The filters that queue, history and cancel share."""

from __future__ import annotations

import os

from mgpu.cli.session import bad_request
from mgpu.cli.syntax import Option
from mgpu.client.http import quote
from mgpu.client.option import FROM_1
from mgpu.client.states import written_out
from mgpu.lean.typing import Any
from mgpu.users import user_name

FILTERS = [
    Option("-u --user", "NAME", "Of this user."),
    Option("--me", "", "Of yourself."),
    Option("-p --partition", "NAME", "In this partition."),
    Option("--states --state", "STATES", "In these states, with commas between.", key="states"),
    Option("--name", "NAME", "With this name."),
]
NODE = Option("-w --nodelist", "NODE", "On this node.", key="node")
LIMIT = Option("-n --limit", "N", "At most so many (100).", whole=FROM_1)


def query(given: dict[str, Any]) -> dict[str, str]:
    """What the master is asked for."""
    wanted = {key: value for key, value in given.items() if isinstance(value, str) and value}
    if given.get("me"):  # the master knows who we are there; here we may have another name
        wanted["me"] = "1"
    if "states" in wanted:
        wanted["states"] = written_out(wanted["states"])
    return wanted


def job_number(text: str) -> int | str:
    """Of a job, `17`; of a task of an array, or several, `17_4`, `17_[1-5]`. Raises MasterError (bad_request)."""
    number, underscore, task = text.partition("_")
    tasks = task.strip("[]").replace(",", "").replace("-", "").replace(":", "").replace("%", "")
    digits = number.isdigit() and (tasks.isdigit() or not underscore)
    if not digits or not text.isascii() or len(number) > 18:
        raise bad_request(f"{text!r} is not a job's number", "mgpu queue shows them")
    return text if underscore else int(text)


def job_path(text: str) -> str:
    return f"/v1/jobs/{quote(str(job_number(text)))}"


def login() -> str:
    """Our own login name, as the master knows us."""
    return user_name(os.getuid()) or str(os.getuid())
