"""A job's output and states as they come, for one thread at a time; another may end it."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from mgpu import clock
from mgpu.client import job_stream
from mgpu.client.http import NoMaster
from mgpu.client.job_stream import STDOUT, Event, JobStream
from mgpu.client.master import Master
from mgpu.client.stdin import Stdin
from mgpu.client.zone import own_zone
from mgpu.sdk.values import JobId, Kind, Line, Output

Since = str | float | timedelta | datetime


class Followed:
    """Iterate over `items`; `stop`, which any thread may call, lets that end soon. `patience_s`: how long a master that
    went away is waited for, None = for ever. `session`: we are a client of the job, and do not only look on."""

    def __init__(
        self,
        master: Master,
        job_id: JobId,
        place: dict[str, int | None],
        beginning: dict[str, int | str | None],
        *,
        patience_s: float | None = None,
        session: bool = False,
    ) -> None:
        wishes = ("session",) if session else ()
        rank, attempt = place.get("rank"), place.get("attempt")
        self._stream = JobStream(master, job_id, rank, attempt, beginning=beginning, wishes=wishes)
        self._patience_s = patience_s
        self._ears, self._mouth = os.pipe()
        self._mind = threading.Lock()
        self._stopped = self._closed = False

    def give(self, stdin: Stdin) -> None:
        """What the job is to read."""
        self._stream.stdin = stdin

    def stop(self) -> None:
        with self._mind:
            if not self._stopped and not self._closed:
                os.write(self._mouth, b".")
            self._stopped = True

    def close(self) -> None:
        """It is not iterated over any more, or never was."""
        with self._mind:
            if not self._closed:
                self._closed = True
                os.close(self._ears)
                os.close(self._mouth)

    def items(self) -> Generator[Output | Event | None]:
        """Up to the event `end`; None each second without news. Raises MasterError."""
        lost_since: float | None = None
        try:
            for item in self._stream.items(self._ears):
                if self._stopped:
                    return
                if isinstance(item, job_stream.Output):
                    yield Output(kind_of(item.kind), item.rank, item.data)
                    continue
                if isinstance(item, Event) and item.name in ("lost", "found"):
                    lost_since = None if item.name == "found" else lost_since or clock.monotonic()
                    self._have_patience(lost_since, item.body)
                yield item
        finally:
            self.close()

    def _have_patience(self, lost_since: float | None, body: dict[str, Any]) -> None:
        if lost_since is None or self._patience_s is None:
            return
        if clock.monotonic() - lost_since >= self._patience_s:
            what = f"the master did not come back within {self._patience_s:g} s ({body['text']})"
            raise NoMaster(what, "the job goes on; follow it again once there is one")


def kind_of(number: int) -> Kind:
    return "stdout" if number == STDOUT else "stderr"


def beginning_at(tail: int | None, since: Since | None) -> dict[str, int | str | None]:
    """As the master's query has it. Raises TypeError for a moment that is none."""
    try:
        if isinstance(since, timedelta):
            since = since.total_seconds()
        if isinstance(since, datetime):
            since = since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if isinstance(since, int | float):
            since = str(round(since))
    except (ValueError, OverflowError) as error:
        raise TypeError(f"{since!r} is no moment: {error}") from error
    return {"tail": tail, "since": since, "zone": own_zone() if since else None}


class Lines:
    """Cuts pieces of output into lines, for each rank and stream by itself."""

    def __init__(self) -> None:
        self._begun: dict[tuple[Kind, int], bytes] = {}

    def of(self, item: Output | Event | None) -> Iterator[Line]:
        """Those that end with it."""
        if isinstance(item, Output):
            yield from self._add(item)
        elif item is not None and item.name == "attempt":
            yield from self.rest()

    def _add(self, piece: Output) -> Iterator[Line]:
        key = piece.kind, piece.rank
        *whole, rest = (self._begun.pop(key, b"") + piece.data).split(b"\n")
        if rest:
            self._begun[key] = rest
        for line in whole:
            yield _line(*key, line)

    def rest(self) -> Iterator[Line]:
        """What had no end of a line."""
        for key, line in self._begun.items():
            yield _line(*key, line)
        self._begun.clear()


def _line(kind: Kind, rank: int, data: bytes) -> Line:
    return Line(kind, rank, data.removesuffix(b"\r").decode("utf-8", "replace"))
