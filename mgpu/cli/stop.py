"""mgpu stop: end the master."""

from __future__ import annotations

import os
import time

from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.client import start
from mgpu.client.http import MasterError
from mgpu.client.service import unit_of

STOP_TIMEOUT_S = 30.0
POLL_S = 0.05
EXAMPLES = """
Example:
  mgpu stop
"""


@command(examples=EXAMPLES)
def stop(session: Session, /) -> None:
    """End the master, and wait until it is gone. Jobs run on; the next master takes them up again."""
    master = session.master(start_if_missing=False)
    elsewhere = master.location.endpoint.dialer is not None
    pid = master.call("GET", "/v1/status")["pid"]
    answer = master.call("POST", "/v1/stop", {})
    for _ in range(int(STOP_TIMEOUT_S / POLL_S)):
        if not start.answers(master.location) and (elsewhere or not lives(pid)):
            break
        time.sleep(POLL_S)
    else:
        raise MasterError("error", f"the master did not end within {STOP_TIMEOUT_S:g} s", f"its pid is {pid}")
    if session.json:
        session.print_json(answer)
    else:
        print("The master has ended. Jobs run on.")
        unit = None if elsewhere else unit_of(master.location.state_dir)
        if unit is not None:
            print(
                f"It is the service {unit.name} here, which begins again with the machine, or by: {unit.how_to_start}"
            )


def lives(pid: int) -> bool:
    """One that has ended and that nobody has waited for does not. Its first thread may be gone before the others, and
    what is open is open until the last of them is."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_runs(f"/proc/{pid}/task/{thread}/stat") for thread in threads)


def _runs(path: str) -> bool:
    try:
        with open(path, encoding="latin-1") as stat:
            return stat.read().rpartition(") ")[2][:1] not in ("Z", "X")
    except OSError:
        return False
