"""Since when, or until when, somebody wants to look back: so long ago, or a moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta, tzinfo

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.ops.begin import BEFORE_CLOCK, clock_time, day_named, unit_seconds
from mgpu.ops.zone import zone_named

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(?:\d{1,9}[smhdw])+|\d{1,9}", re.ASCII)
_PIECE = re.compile(r"(\d+)([smhdw])", re.ASCII)
_FROM_NOW = re.compile(r"(?:now\s*-\s*)?(?P<count>\d{1,9})\s*(?P<unit>[a-z]*)", re.ASCII)
_FORMS = "write 10m, 1h30m, now-1hour, 16:00, yesterday, 2026-12-01 or 2026-12-01T08:00"
_DAY = timedelta(days=1)


def moment_asked(query: Mapping[str, str], name: str) -> float | None:
    """Of `since` or `until` in what was asked, by the clock of whoever asks. Raises RequestError."""
    text = query.get(name, "")
    return parse_since(text, clock.now(), zone_named(query.get("zone")), f"--{name}") if text else None


def moments_asked(query: Mapping[str, str]) -> tuple[float | None, float | None]:
    """`since` and `until`. Raises RequestError, also where nothing can lie between them."""
    since, until = moment_asked(query, "since"), moment_asked(query, "until")
    if since is not None and until is not None:
        refuse_nothing(since, until)
    return since, until


def refuse_nothing(since: float, until: float) -> None:
    """Raises RequestError."""
    if since >= until:
        raise RequestError("there is nothing between --since and --until", "--since has to be the earlier of both")


def parse_since(text: str, now: float, zone: tzinfo | None = None, option: str = "--since") -> float:
    """Seconds since the epoch, of a duration before `now` (a number alone: seconds) or a moment in the forms of
    --begin, by the clock on the wall (`zone` None = this machine's); of a clock time the last one. What lies before the
    epoch is the epoch: nothing was there yet, and no calendar goes back as far as a duration can. Raises
    RequestError."""
    word = text.strip().lower()
    try:
        return max(_seconds(word, now, zone), 0.0)
    except (ValueError, OverflowError):
        raise RequestError(f"{option} '{read.shown(text)}' cannot be read: {_FORMS}") from None


def _seconds(word: str, now: float, zone: tzinfo | None) -> float:
    """Raises ValueError, OverflowError."""
    if _AGE.fullmatch(word):
        pieces = _PIECE.findall(word)
        return now - (sum(int(count) * _UNITS_S[unit] for count, unit in pieces) if pieces else int(word))
    if word == "now":
        return now
    if found := _FROM_NOW.fullmatch(word):
        return now - unit_seconds(found["count"], found["unit"] or "second")
    return _moment(word, datetime.fromtimestamp(now, zone)).timestamp()


def _moment(word: str, here: datetime) -> datetime:
    """Raises ValueError."""
    if word.endswith("z"):  # as mgpu itself writes times
        return datetime.fromisoformat(f"{word[:-1]}+00:00")
    if (at := clock_time(word)) is not None:
        moment = datetime.combine(here, at, here.tzinfo)
        return moment if moment.timestamp() <= here.timestamp() else moment - _DAY
    day_word, *rest = BEFORE_CLOCK.split(word, maxsplit=1)
    at = clock_time(rest[0]) if rest else time(0)
    if at is None:
        raise ValueError(word)
    if day_word == "yesterday":
        return datetime.combine(here.date() - _DAY, at, here.tzinfo)
    day, dated = day_named(day_word, here.date())
    moment = datetime.combine(day, at, here.tzinfo)
    return moment if dated or moment.timestamp() <= here.timestamp() else moment.replace(year=moment.year - 1)
