"""A part of the queue, or of what ended, as somebody looks at it: filtered, searched, sorted, and some rows of that.

For front ends that show a long queue a screen at a time. Of the queue the rows are those that `listing` keeps, so what
is asked again and again costs little; of what ended there are the newest ones alone.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mgpu.core.errors import RequestError
from mgpu.core.model import JobId
from mgpu.ops import jobs
from mgpu.ops.context import Caller, Context
from mgpu.ops.listing import Listing, chosen
from mgpu.ops.outlook import Prospects
from mgpu.ops.privacy import Sight, sight_of
from mgpu.ops.render import Json
from mgpu.ops.row import Row, rendered
from mgpu.store.filters import JobFilter

MOST_ROWS = 1000  # of one window
MOST_SEARCH = 200  # letters
_MOST_KEPT = 16
_LAST = 1 << 62  # a place behind all others
_NONE_READ: tuple[int, JobFilter | None, dict[JobId, Row]] = -1, None, {}
_NO_PLACES: Mapping[JobId, int] = {}


@dataclass(frozen=True, slots=True)
class View:
    """What somebody wants to see. `search`: words that all have to be in a row, in lower case; `sort`: a key of SORTS;
    `start`: with when and where those that wait are expected to start; `seen`: the mark of the last answer."""

    wanted: JobFilter
    search: tuple[str, ...] = ()
    sort: str = "queue"
    backwards: bool = False
    offset: int = 0
    limit: int = MOST_ROWS
    start: bool = False
    seen: str = ""


def parse_view(query: Mapping[str, str], caller: Caller) -> View:
    """Raises RequestError."""
    wanted = jobs.parse_filter({name: value for name, value in query.items() if name != "limit"}, caller)
    if wanted.scope == "all":
        raise RequestError("a window shows the queue or what ended", "scope=active or scope=ended")
    sort = query.get("sort") or "queue"
    if sort.removeprefix("-") not in SORTS:
        raise RequestError(f"sort {sort!r} is none of {', '.join(SORTS)}", "a - before it turns it round")
    return View(
        wanted,
        tuple(query.get("search", "")[:MOST_SEARCH].lower().split()),
        sort.removeprefix("-"),
        sort.startswith("-"),
        jobs.parse_count("offset", query.get("offset") or "0", _LAST),
        jobs.parse_count("limit", query.get("limit") or str(MOST_ROWS), MOST_ROWS),
        query.get("start") == "1",
        query.get("seen", ""),
    )


class Windows:
    """Any thread may look."""

    def __init__(self, context: Context, listing: Listing, prospects: Prospects) -> None:
        self._context = context
        self._listing = listing
        self._prospects = prospects
        self._lock = threading.Lock()
        self._ended = _NONE_READ
        self._tallied: tuple[int, Json] = -1, {}
        # chosen and in order, as long as nothing has changed
        self._kept: dict[Any, tuple[tuple[int, Mapping[JobId, int]], list[Row]]] = {}

    def look(self, caller: Caller, view: View) -> bytes:
        """JSON: the rows of the window, how many there are of that kind, and what all of the scope add up to."""
        sight = sight_of(self._context, caller)
        turn, active = self._listing.rows()
        rows = active if view.wanted.scope == "active" else self._newest(turn, sight, view.wanted)
        found = self._found(turn, rows, view, sight)
        shown = found[view.offset : view.offset + view.limit]
        texts = self._listing.texts(shown, sight)
        if view.start:
            starts = [self._prospects.start_of(row.job_id) if row.waits else None for row in shown]
            texts = [_with(text, start) for text, start in zip(texts, starts, strict=True)]
        tally = self._tally(turn, active) if view.wanted.scope == "active" else _count(rows)
        return _answer(texts, {"offset": view.offset, "matching": len(found), **tally}, view.seen)

    def _found(self, turn: int, rows: Sequence[Row], view: View, sight: Sight) -> list[Row]:
        """All rows that pass the filter, in order."""
        places = self._prospects.places() if view.sort == "queue" and view.wanted.scope == "active" else _NO_PLACES
        key = sight, view.wanted, view.search, view.sort, view.backwards
        (known_turn, known_places), found = self._kept.get(key, ((-1, _NO_PLACES), []))
        if known_turn != turn or known_places is not places:
            allowed = sight.may_ask(view.wanted)
            found = [] if allowed is None else chosen(rows, allowed)
            if view.search:
                found = [row for row in found if _has(row, sight, view.search)]
            found = _sorted(found, view, sight, places)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (turn, places), found
        return found

    def _newest(self, turn: int, sight: Sight, wanted: JobFilter) -> list[Row]:
        """Of those that ended; those of the last time are read again where they have changed."""
        allowed = sight.may_ask(wanted)
        if allowed is None:
            return []
        with self._lock:
            before, asked, known = self._ended
            if (before, asked) != (turn, allowed):
                changed = self._listing.take_changed()
                known = {} if changed is None else {row: known[row] for row in known.keys() - changed}
                self._ended = _NONE_READ  # should reading fail, nobody tells again what has changed
                self._ended = turn, allowed, self._read(allowed, known)
            return list(self._ended[2].values())

    def _read(self, wanted: JobFilter, known: Mapping[JobId, Row]) -> dict[JobId, Row]:
        """In their order; `known` are as they were read before."""
        with self._context.store.read() as r:
            ids = r.ids(wanted)[::-1]
            rows = {job_id: known[job_id] for job_id in ids if job_id in known}
            for some in r.jobs_in_turn([job_id for job_id in ids if job_id not in known]):
                parts = r.parts_of_jobs(job.job_id for job in some)
                rows |= {job.job_id: Row(job, rendered(job, parts.get(job.job_id, ()))) for job in some}
        return {job_id: rows[job_id] for job_id in ids}

    def _tally(self, turn: int, rows: Sequence[Row]) -> Json:
        known, tally = self._tallied
        if known != turn:
            tally = _count(rows)
            self._tallied = turn, tally
        return tally


def _count(rows: Sequence[Row]) -> Json:
    """A task of an array counts as a job, whether or not it has a row of its own; `rows` are those without a filter."""
    states: Counter[str] = Counter()
    gpus = 0
    for row in rows:
        states[row.state.value] += row.tasks
        gpus += row.tasks * row.gpus if row.waits else 0
    return {"states": dict(sorted(states.items())), "waiting_gpus": gpus, "rows": len(rows)}


def _has(row: Row, sight: Sight, words: Sequence[str]) -> bool:
    known, seen = sight.knows(row.uid), sight.sees(row.uid)
    text = row.searched(known, seen)
    return all(word in text for word in words)


def _with(text: bytes, start: Json | None) -> bytes:
    return text[:-1] + b", " + json.dumps(start or {"expected_start": None, "expected_on": []}).encode()[1:]


def _answer(texts: Sequence[bytes], more: Json, seen: str) -> bytes:
    body = b'"jobs": [' + b", ".join(texts) + b"], " + json.dumps(more).encode()[1:-1]
    mark = hashlib.blake2b(body, digest_size=8).hexdigest()
    if mark == seen:
        return json.dumps({"same": True, "mark": mark}).encode()
    return b'{"mark": "' + mark.encode() + b'", ' + body + b"}"


# --- in which order ---------------------------------------------------------------------------------------------------


def _by_number(row: Row) -> tuple[int, int]:
    """The tasks of an array stand behind it."""
    return row.array_id or row.job_id, row.job_id


SORTS: dict[str, Callable[[Row], Any]] = {
    "queue": lambda row: 0,  # see _sorted
    "id": _by_number,
    "name": lambda row: row.name.lower(),
    "user": lambda row: row.user,
    "state": lambda row: row.state.value,
    "gpus": lambda row: row.gpus,
    "time": lambda row: -row.began,
    "node": lambda row: (not row.nodes, row.nodes[:1]),
}
_OF_PEOPLE = ("name", "user")  # what not everybody may know of everybody's jobs


def _sorted(rows: list[Row], view: View, sight: Sight, place: Mapping[JobId, int]) -> list[Row]:
    """Equal ones by number. The queue: those that run, then those that wait as they are planned; what ended: the newest
    first."""
    if view.sort == "queue":
        if view.wanted.scope == "active":
            rows = sorted(rows, key=lambda row: (row.waits, place.get(row.job_id, _LAST) if row.waits else 0))
        return rows[::-1] if view.backwards else rows
    key = SORTS[view.sort]
    if view.sort in _OF_PEOPLE and sight.privacy == "none":
        key = partial(_hidden, key, sight)
    rows = sorted(rows, key=_by_number)
    rows.sort(key=key, reverse=view.backwards)
    return rows


def _hidden(key: Callable[[Row], str], sight: Sight, row: Row) -> str:
    return key(row) if sight.knows(row.uid) else ""
