"""The time zone of whoever asks: a time of day that is given is by the clock on that wall."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from mgpu.core.errors import RequestError


def zone_named(value: Any) -> tzinfo | None:
    """Of `Europe/Zurich,+0100`: the name if this machine knows it, else the difference. None = it is not said: this
    machine's. Raises RequestError."""
    if not value:
        return None
    name, _, difference = str(value).partition(",")
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # none of that name; or none that could be one
        pass
    try:
        return datetime.strptime(difference, "%z").tzinfo
    except ValueError:
        raise RequestError(f"{str(value)[:40]!r} is no time zone", "write it like Europe/Zurich,+0100") from None
