"""Where a reader of output begins who does not want all: some lines before the end, or what came since a moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.model import PartKey
from mgpu.ops.begin import BEFORE_CLOCK, clock_time, day_named, unit_seconds
from mgpu.ops.jobs import parse_count
from mgpu.ops.zone import zone_named
from mgpu.store.spool import Spool, Stream

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(?:\d{1,9}[smhdw])+|\d{1,9}", re.ASCII)
_PIECE = re.compile(r"(\d+)([smhdw])", re.ASCII)
_FROM_NOW = re.compile(r"now(?:\s*-\s*(?P<count>\d{1,9})\s*(?P<unit>[a-z]*))?", re.ASCII)
_FORMS = "write 10m, 1h30m, now-1hour, 16:00, yesterday, 2026-12-01 or 2026-12-01T08:00"
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Beginning:
    """`tail`: so many lines before the end; `since`: what came then or later; of both the later one. Neither: all."""

    tail: int | None = None
    since: float | None = None

    @property
    def of_all(self) -> bool:
        return self.tail is None and self.since is None

    def offset(self, spool: Spool, key: PartKey, stream: Stream) -> int:
        places = [0]
        if self.tail is not None:
            places.append(spool.tail(key, stream, self.tail))
        if self.since is not None:
            places.append(spool.since(key, stream, self.since))
        return max(places)


ALL = Beginning()


def parse_beginning(query: Mapping[str, str]) -> Beginning:
    tail, since = query.get("tail", ""), query.get("since", "")
    return Beginning(
        tail=parse_count("tail", tail, 1 << 40) if tail else None,
        since=parse_since(since, clock.now(), zone_named(query.get("zone"))) if since else None,
    )


def parse_since(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Seconds since the epoch, of a duration before `now` (a number alone: seconds) or a moment in the forms of
    --begin, by the clock on the wall (`zone` None = this machine's); of a clock time the last one. Raises
    RequestError."""
    word = text.strip().lower()
    try:
        if _AGE.fullmatch(word):
            pieces = _PIECE.findall(word)
            return now - (sum(int(count) * _UNITS_S[unit] for count, unit in pieces) if pieces else int(word))
        if found := _FROM_NOW.fullmatch(word):
            return now - unit_seconds(found["count"] or "0", found["unit"] or "second")
        return _moment(word, datetime.fromtimestamp(now, zone)).timestamp()
    except (ValueError, OverflowError):
        raise RequestError(f"--since '{read.shown(text)}' cannot be read: {_FORMS}") from None


def _moment(word: str, here: datetime) -> datetime:
    """Raises ValueError."""
    if word.endswith("z"):  # as mgpu itself writes times
        return datetime.fromisoformat(f"{word[:-1]}+00:00")
    if (clock := clock_time(word)) is not None:
        moment = datetime.combine(here, clock, here.tzinfo)
        return moment if moment.timestamp() <= here.timestamp() else moment - _DAY
    day_word, *rest = BEFORE_CLOCK.split(word, maxsplit=1)
    clock = clock_time(rest[0]) if rest else time(0)
    if clock is None:
        raise ValueError(word)
    if day_word == "yesterday":
        return datetime.combine(here.date() - _DAY, clock, here.tzinfo)
    day, dated = day_named(day_word, here.date())
    moment = datetime.combine(day, clock, here.tzinfo)
    return moment if dated or moment.timestamp() <= here.timestamp() else moment.replace(year=moment.year - 1)
