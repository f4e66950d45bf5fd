"""Times as people write them. A value is text here: YAML never had the chance to make 5400 of 1:30:00."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WITH_UNIT = re.compile(r"([0-9]+)\s*([smhd])")
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SLURM = re.compile(r"(?:(?P<days>[0-9]+)-)?(?P<rest>[0-9]+(?::[0-9]+){0,2})")
_NEVER = ("none", "never", "unlimited", "infinite")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?")


def seconds(text: str) -> float:
    """`30`, `0.5` (seconds), `30s`, `10m`, `2h`, `1d`, or Slurm's forms with a colon or a day. Raises ValueError."""
    return float(text) if _PLAIN.fullmatch(text) else _marked(text, "30, 30s, 10m, 2h, 1d or 1:30:00")


def seconds_or_never(text: str) -> float:
    return float("inf") if text.lower() in _NEVER else seconds(text)


def limit_s(text: str) -> int | None:
    """A job's time limit in Slurm's six forms, so a plain number is *minutes*; also 2h, 7d. None = no limit."""
    if text.lower() in _NEVER:
        return None
    return 60 * int(text) if re.fullmatch(r"[0-9]+", text) else _marked(text, "30 (minutes), 1:30:00, 7-0, 2h or none")


def moment(text: str) -> float:
    """`2026-12-01 08:00`, by the clock on this machine's wall: seconds since the epoch. Raises ValueError."""
    try:
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is no day and time: write it like 2026-12-01 08:00 (local time of the head node)")


def _marked(text: str, forms: str) -> int:
    if match := _WITH_UNIT.fullmatch(text):
        return int(match[1]) * _UNIT_S[match[2]]
    match = _SLURM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time: write it like {forms}")
    fields = [int(part) for part in match["rest"].split(":")]
    if match["days"] is None and len(fields) == 2:
        fields.insert(0, 0)  # minutes:seconds; with days in front it is hours:minutes
    hours, minutes, rest = (*fields, 0, 0)[:3]
    return int(match["days"] or 0) * 86_400 + hours * 3600 + minutes * 60 + rest
