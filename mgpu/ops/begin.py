"""When a job may start at the earliest, as Slurm's --begin has it: a moment, or so long from now."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, tzinfo

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.timelimit import MAX_S

_DAY = timedelta(days=1)
_WORDS = {"midnight": time(0), "noon": time(12), "fika": time(15), "teatime": time(16)}
_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_FROM_NOW = re.compile(r"now(?:\s*\+\s*(?P<count>\d{1,9})\s*(?P<unit>[a-z]*))?", re.ASCII)
BEFORE_CLOCK = re.compile(r"(?<=\d)t(?=\d)|\s+", re.ASCII)
_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s*(?P<half>[ap]m)?", re.ASCII)
_ISO_DAY = re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", re.ASCII)
_US_DAY = re.compile(r"(?P<month>\d{1,2})[/.](?P<day>\d{1,2})(?:[/.](?P<year>\d{2}|\d{4}))?", re.ASCII)
_DIGITS_DAY = re.compile(r"(?P<month>\d{2})(?P<day>\d{2})(?P<year>\d{2})", re.ASCII)
_FORMS = "write now+1hour, 16:00, noon, tomorrow, 2026-12-01 or 2026-12-01T08:00"


def parse_begin(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Seconds since the epoch. A clock time that is over for today means tomorrow's; a day alone its midnight. `zone`
    None = this machine's. Raises RequestError for what is none of Slurm's forms."""
    word = text.strip().lower()
    try:
        begin = _begin(word, now, zone)
    except (ValueError, OverflowError):
        raise RequestError(f"--begin '{read.shown(text)}' cannot be read: {_FORMS}") from None
    if begin - now > MAX_S:
        raise RequestError(f"--begin '{read.shown(text)}' is over ten years away")
    return begin


def _begin(word: str, now: float, zone: tzinfo | None) -> float:
    if found := _FROM_NOW.fullmatch(word):
        return now + unit_seconds(found["count"] or "0", found["unit"] or "second")
    here = datetime.fromtimestamp(now, zone)
    return _moment(word, here).replace(tzinfo=here.tzinfo).timestamp()


def unit_seconds(count: str, unit: str) -> int:
    """`1hour`, `90 minutes`, `2d`: a unit may be cut short. Raises ValueError."""
    meant = [name for name in _UNITS_S if name.startswith(unit) or f"{name}s" == unit]
    if len(meant) != 1:
        raise ValueError(unit)
    return int(count) * _UNITS_S[meant[0]]


def _moment(word: str, here: datetime) -> datetime:
    """Of the clock on the wall. Raises ValueError."""
    if (clock := clock_time(word)) is not None:
        moment = datetime.combine(here, clock)
        return moment if moment > here.replace(tzinfo=None) else moment + _DAY
    day_word, *rest = BEFORE_CLOCK.split(word, maxsplit=1)
    clock = clock_time(rest[0]) if rest else time(0)
    if clock is None:
        raise ValueError(word)
    day, dated = day_named(day_word, here.date())
    moment = datetime.combine(day, clock)
    return moment if dated or moment > here.replace(tzinfo=None) else moment.replace(year=moment.year + 1)


def clock_time(word: str) -> time | None:
    """None = it is none. Raises ValueError for one that no clock shows."""
    if word in _WORDS:
        return _WORDS[word]
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    hour, half = int(found["hour"]), found["half"]
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(word)
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(found["minute"]), int(found["second"] or 0))


def day_named(word: str, today: date) -> tuple[date, bool]:
    """And whether its year was told: without one it is the next such day. Raises ValueError."""
    if word in ("today", "tomorrow"):
        return (today if word == "today" else today + _DAY), True
    found = _ISO_DAY.fullmatch(word) or _US_DAY.fullmatch(word) or _DIGITS_DAY.fullmatch(word)
    if found is None:
        raise ValueError(word)
    year = int(found["year"] or today.year)
    return date(year + 2000 if year < 100 else year, int(found["month"]), int(found["day"])), bool(found["year"])
