"""--ship: the working tree goes to the master before the job that runs in it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

from mgpu import clock
from mgpu.cli.options import SHIP_AROUND
from mgpu.cli.session import Session
from mgpu.cli.text import say
from mgpu.client import ship, upload
from mgpu.client.http import MasterError
from mgpu.lean_typing import Any
from mgpu.wording.letters import clean

SAID = 5  # lines about what stays here
QUIET_S = 1.0  # until it is said how far it is
SAY_EACH_S = 0.2


def shipment_of(options: Mapping[str, str | bool], cwd: str) -> ship.Shipment:
    """What would go along. Raises MasterError."""
    given = str(options["ship"])
    if not given:
        raise MasterError(
            "bad_request", "--ship= is empty: is a variable unset?", "name a folder, or write --ship alone"
        )
    found = ship.look("" if given == SHIP_AROUND else given, cwd, str(options.get("chdir") or ""))
    if not options.get("quiet"):
        for notice in found.notices[:SAID]:
            say(clean(notice))
        if len(found.notices) > SAID:
            say(f"not shipped: {len(found.notices) - SAID} more such")
    return found


def send_tree(session: Session, found: ship.Shipment, quiet: bool) -> dict[str, Any]:
    """Sees to it that the master has it; what the submission says of it. Raises MasterError."""
    master = session.master()
    ship.check_size(found, int(master.call("GET", "/v1/trees")["max_size"]))
    file, digest = ship.pack(found)
    with file:
        if not _is_there(session, digest):
            progress = _Progress(not quiet and sys.stderr.isatty())
            try:
                upload.put(master, f"/v1/trees/{digest}", file, progress.told)
            finally:
                progress.over()
    return {
        "digest": digest,
        "place": found.place,
        "commit": found.commit,
        "dirty": found.dirty,
        "size": found.size,
        "files": found.files,
    }


def _is_there(session: Session, digest: str) -> bool:
    try:
        session.call("GET", f"/v1/trees/{digest}")
    except MasterError as error:
        if error.code != "not_found":
            raise
        return False
    return True


class _Progress:
    """A line on the terminal, from a second on."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._next = clock.monotonic() + QUIET_S
        self._shown = False

    def told(self, sent: int, size: int) -> None:
        now = clock.monotonic()
        if self._on and now >= self._next:
            self._next = now + SAY_EACH_S
            self._shown = True
            self._write(f"\r\033[Kmgpu: shipping: {ship.mib(sent)} of {ship.mib(size)}")

    def over(self) -> None:
        if self._shown:
            self._write("\r\033[K")

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more: the job does not depend on that
            os.write(2, text.encode())
