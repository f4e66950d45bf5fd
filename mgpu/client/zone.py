"""Whose clock a time is by that somebody gives: that of the wall here, and not of the master's machine."""

from __future__ import annotations

import os
import time

ZONES = "/zoneinfo/"


def own_zone() -> str:
    """`Europe/Zurich,+0100`: its name, which knows of summer time, and what it is now; the name may be missing."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        name = os.path.realpath("/etc/localtime")
    _, found, below = name.rpartition(ZONES)
    return f"{below if found else name if not name.startswith('/') else ''},{time.strftime('%z')}"
