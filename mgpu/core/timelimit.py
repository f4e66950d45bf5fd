"""Slurm's six forms of a time limit, and the way back to text."""

from __future__ import annotations

import re

from mgpu.core.errors import RequestError

MAX_S = 10 * 366 * 86400
_NO_LIMIT = frozenset({"0", "unlimited", "infinite", "none"})
_FORM = re.compile(r"(?:(?P<days>\d{1,5})-)?(?P<fields>\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)


def parse_time_limit(text: str) -> int | None:
    """Seconds, or None for no limit (`0` in any form, UNLIMITED, INFINITE, none).

    `90` minutes, `1:30` minutes:seconds, `1:30:00`, `3-0` days-hours, `3-0:30` days-hours:minutes, `3-0:00:30`.
    Raises RequestError on anything else.
    """
    word = text.strip()
    if word.lower() in _NO_LIMIT:
        return None
    found = _FORM.fullmatch(word)
    if found is None:
        raise _refused(text)
    fields = [int(field) for field in found["fields"].split(":")]
    if any(field > 59 for field in fields[1:]):
        raise _refused(text)  # 1:90 is a slip, not 150 seconds
    if found["days"] is not None:
        # After days the first field is hours.
        hours, minutes, seconds = (*fields, 0, 0)[:3]
        total = ((int(found["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(fields) == 3:
        total = (fields[0] * 60 + fields[1]) * 60 + fields[2]
    else:
        minutes, seconds = (*fields, 0)[:2]
        total = minutes * 60 + seconds
    if total > MAX_S:
        raise RequestError(f"time limit '{text}' is over ten years: use UNLIMITED")
    return total or None


def render_time_limit(seconds: int | None) -> str:
    """`1-02:03:04`, `02:03:04`, or UNLIMITED."""
    if seconds is None:
        return "UNLIMITED"
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


def _refused(text: str) -> RequestError:
    return RequestError(
        f"time limit '{text[:40]}' cannot be read: "
        "write minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S (90, 1:30, 1:30:00, 3-0, 3-0:30, 3-0:00:30)"
    )
