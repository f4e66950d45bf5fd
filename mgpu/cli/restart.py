"""mgpu restart: the master anew, with the code and the configuration that lie there now."""

from __future__ import annotations

import time

from mgpu import clock
from mgpu.cli.session import Session
from mgpu.cli.stop import lives
from mgpu.cli.syntax import command
from mgpu.client import start
from mgpu.client.http import MasterError, NoMaster
from mgpu.client.master import Master
from mgpu.lean.typing import Any

RESTART_TIMEOUT_S = 60.0
POLL_S = 0.05
EXAMPLES = """
Example, after an upgrade:
  mgpu restart
"""


@command(examples=EXAMPLES)
def restart(session: Session, /) -> None:
    """Have the master run itself anew, in its place and as it was started, and wait until it answers. Jobs run on.

    Code that would not begin is refused, and the master goes on as it is.
    """
    master = session.master(start_if_missing=False)
    before = master.call("GET", "/v1/status")
    try:
        answer = master.call("POST", "/v1/restart", {})
    except MasterError as error:
        if error.message.startswith("POST /v1/restart"):  # a master of a version that has no such thing
            hint = "mgpu stop, then any command starts the new one; of a service: systemctl restart"
            raise MasterError("error", "the master is too old to restart itself", hint) from error
        raise
    after = await_next(master, before)
    if session.json:
        session.print_json({**answer, "pid": after["pid"]})
        return
    new, old = after["version"], before["version"]
    print(f"The master was restarted: mgpu {new}{f', before {old}' * (new != old)}, pid {after['pid']}. Jobs run on.")


def await_next(master: Master, before: dict[str, Any]) -> Any:
    """How it is once another answers. Raises MasterError."""
    deadline = clock.monotonic() + RESTART_TIMEOUT_S
    elsewhere = master.location.endpoint.dialer is not None
    while clock.monotonic() < deadline:
        time.sleep(POLL_S)
        try:
            found = master.call("GET", "/v1/status")
        except NoMaster as error:
            if not elsewhere and not lives(before["pid"]):
                log = start.log_path(master.location.state_dir)
                hint = f"look at {log}, or at the journal of a service; any command starts a master of your own again"
                raise MasterError("error", "the master ended and did not begin anew; jobs run on", hint) from error
            continue
        if found.get("instance") != before.get("instance"):
            return found
    raise MasterError("error", f"the master was not back within {RESTART_TIMEOUT_S:g} s", f"its pid is {before['pid']}")
