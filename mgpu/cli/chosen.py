"""What cancel, signal, hold, release and requeue share: jobs by number or by filter, and a line for each."""

from __future__ import annotations

import os

from mgpu.cli.filters import job_number, query
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument
from mgpu.cli.text import say
from mgpu.client.http import advised
from mgpu.exit_status import GENERAL, OF_CODE
from mgpu.lean.typing import Any, Mapping

IDS = Argument("ids", "[ID]...", nargs="*")


def change_chosen(
    session: Session,
    path: str,
    done: str,
    ids: tuple[str, ...],
    given: dict[str, Any],
    more: Mapping[str, Any] | None = None,
) -> int:
    """The exit status. `done`: the key of the answer that lists the jobs to which it was done, and the word for it;
    `more`: what else belongs to the wish."""
    wanted: dict[str, Any] = query(given)
    if not ids and not wanted:
        raise bad_request("which jobs?", "give numbers, or --me, --user, --state, --name, --partition")
    if ids:
        wanted["ids"] = [job_number(text) for text in ids]
    wanted |= {key: True for key, value in given.items() if value is True and key != "me"}
    answer = session.call("POST", path, {"request_id": os.urandom(16).hex(), **wanted, **(more or {})})
    errors = answer.get("errors") or []
    if session.json:
        session.print_json(answer)
    else:
        for job_id in answer[done]:
            print(f"{done.capitalize()} job {job_id}")
        for error in errors:
            named = f"job {error['job_id']}"
            text = error["message"] if named in error["message"] else f"{named}: {error['message']}"
            say(advised(text, error.get("hint", "")))
        if not answer[done] and not errors:
            say("no job passes these filters")
    return max((OF_CODE.get(error.get("code", ""), GENERAL) for error in errors), default=0)
