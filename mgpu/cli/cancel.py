"""mgpu cancel: end jobs."""

from __future__ import annotations

import os

from mgpu.cli.filters import FILTERS, job_number, query
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, command
from mgpu.cli.text import say
from mgpu.client.http import EXIT_CODES
from mgpu.lean_typing import Any

EXAMPLES = """
Examples:
  mgpu cancel 17 18
  mgpu cancel --me --state PENDING
"""


@command(Argument("ids", "[ID]...", nargs="*"), *FILTERS, examples=EXAMPLES)
def cancel(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """End jobs, waiting or running: by number, or all that pass the filters. Processes get SIGTERM, later SIGKILL."""
    wanted: dict[str, Any] = query(given)
    if not ids and not wanted:
        raise bad_request("which jobs?", "give numbers, or --me, --user, --state, --name, --partition")
    if ids:
        wanted["ids"] = [job_number(text) for text in ids]
    answer = session.call("POST", "/v1/cancel", {"request_id": os.urandom(16).hex(), **wanted})
    errors = answer.get("errors") or []
    if session.json:
        session.print_json(answer)
    else:
        for job_id in answer["cancelled"]:
            print(f"Cancelled job {job_id}")
        for error in errors:
            named = f"job {error['job_id']}"
            say(error["message"] if named in error["message"] else f"{named}: {error['message']}")
        if not answer["cancelled"] and not errors:
            say("no job passes these filters")
    return max((EXIT_CODES.get(error.get("code", ""), 1) for error in errors), default=0)
