"""--ship: the working tree goes to the master before the job that runs in it."""

from __future__ import annotations

import contextlib
import os
import sys

from mgpu import clock
from mgpu.cli.session import Session
from mgpu.cli.text import say
from mgpu.client import ship, upload
from mgpu.lean.typing import Any
from mgpu.wording.letters import clean

SAID = 5  # lines about what stays here
QUIET_S = 1.0  # until it is said how far it is
SAY_EACH_S = 0.2


def tell_what_stays(found: ship.Shipment) -> None:
    for notice in found.notices[:SAID]:
        say(clean(notice))
    if len(found.notices) > SAID:
        say(f"not shipped: {len(found.notices) - SAID} more such")


def send_tree(session: Session, found: ship.Shipment, quiet: bool) -> dict[str, Any]:
    """Sees to it that the master has it; what the submission says of it. Raises MasterError."""
    progress = _Progress(not quiet and sys.stderr.isatty())
    try:
        return upload.send_tree(session.master(), found, progress.told)
    finally:
        progress.over()


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
