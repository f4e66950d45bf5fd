"""Follows a job's output in threads of its own, and puts it into lines.

One thread reads what comes, another makes lines of it: a job may write faster than that can be done, and what is shown
is what it writes now. So of what waits the oldest is left out, which is told where it happens.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from mgpu.client.http import MasterError
from mgpu.client.job_stream import Event, JobStream, Output
from mgpu.tui import forms
from mgpu.tui.log_text import LogText, Source
from mgpu.tui.source import readable
from mgpu.wording.details import size_words
from mgpu.wording.jobs import contact_lost, ending

MOST_WAITING_B = 16 << 20  # more than the last lines of most jobs
KEPT_WAITING_B = 8 << 20
SLICE_B = 1 << 16  # for which whoever draws may have to wait
CLOSED = object()


class Intake:
    """What has come and is not in lines yet."""

    def __init__(self) -> None:
        self._items: deque[tuple[Source, bytes] | Event | object] = deque()
        self._size = 0
        self._missed: dict[Source, int] = {}
        self._changed = threading.Condition()

    def put(self, item: Output | Event | object) -> None:
        with self._changed:
            if isinstance(item, Output):
                self._items.append(((item.kind, item.rank), item.data))
                self._size += len(item.data)
                if self._size > MOST_WAITING_B:
                    self._leave_out()
            else:
                self._items.append(item)
            self._changed.notify()

    def take(self) -> tuple[Any, dict[Source, int]]:
        """The next item, and how many bytes of which streams are missing before it."""
        with self._changed:
            while not self._items:
                self._changed.wait()
            item = self._items.popleft()
            if isinstance(item, tuple) and not isinstance(item, Event):
                self._size -= len(item[1])
            missed, self._missed = self._missed, {}
            return item, missed

    def close(self) -> None:
        with self._changed:
            self._items.clear()
            self._items.append(CLOSED)
            self._changed.notify()

    def _leave_out(self) -> None:
        events: list[Any] = []
        while self._size > KEPT_WAITING_B:
            item = self._items.popleft()
            if isinstance(item, Event) or not isinstance(item, tuple):
                events.append(item)
                continue
            source, data = item
            self._size -= len(data)
            self._missed[source] = self._missed.get(source, 0) + len(data)
        self._items.extendleft(reversed(events))


class LogFeed:
    """`news` is called, in a thread, whenever there is something new in `text` or in what is public here."""

    def __init__(self, stream: JobStream, text: LogText, news: Callable[[], None]) -> None:
        self.job: dict[str, Any] = {}  # as it was told last
        self.away = ""  # why the master is not there; "" = it is
        self.refused = ""  # why nothing will come
        self.over = False
        self._stream = stream
        self._text = text
        self._news = news
        self._intake = Intake()
        self._closed = False
        self._told: set[str] = set()
        self._wake, self._waker = os.pipe()

    def start(self) -> None:
        for work in (self._read, self._make_lines):
            threading.Thread(target=work, name="mgpu-top-log", daemon=True).start()

    def close(self) -> None:
        """Returns at once; nothing is told any more."""
        if not self._closed:
            self._closed = True
            self._intake.close()
            os.close(self._waker)  # the end of the pipe wakes the reader, who closes the other one

    @property
    def lost_words(self) -> str:
        """What there is to say where contact with a node of the job is lost."""
        parts = self.job.get("allocation") or ()
        nodes = sorted({part["node"] for part in parts if part.get("state") == "LOST"})
        return contact_lost(self.job, nodes) if nodes else ""

    def _read(self) -> None:
        try:
            for item in self._stream.items(self._wake):
                if self._closed:
                    return
                if isinstance(item, Event):
                    readable(item.body, forms.EVENTS.get(item.name, forms.OBJECT))
                if item is not None:
                    self._intake.put(item)
        except (MasterError, OSError) as error:
            why = error.told if isinstance(error, MasterError) else str(error)
            self._intake.put(Event("refused", {"text": why}))
        finally:
            os.close(self._wake)

    def _make_lines(self) -> None:
        while True:
            item, missed = self._intake.take()
            if self._closed or item is CLOSED:
                return
            for source, size in missed.items():
                self._text.missed(source)
                self._text.say(f"{size_words(size)} left out here: it comes faster than it can be read")
            if isinstance(item, Event):
                self._event(item)
            else:
                source, data = item
                for at in range(0, len(data), SLICE_B):
                    self._text.feed(source, data[at : at + SLICE_B])
            self._news()

    def _event(self, event: Event) -> None:
        body = event.body
        if event.name in ("state", "end"):
            self.job = body["job"]
        if event.name == "attempt":
            self._text.begin_anew()
            if body["attempt"] > 1:
                self._text.say(f"attempt {body['attempt']} begins")
        elif event.name == "notice":
            self._notice(str(body.get("text", "")))
        elif event.name == "end":
            self.over = True
            self._text.say(ending(self.job))
        elif event.name == "lost":
            self.away = str(body["text"])
        elif event.name == "found":
            self.away = ""
        elif event.name == "refused":
            self.refused = str(body["text"])

    def _notice(self, text: str) -> None:
        """A stream that was opened again begins with all of them."""
        if text not in self._told:
            self._told.add(text)
            self._text.say(text)
