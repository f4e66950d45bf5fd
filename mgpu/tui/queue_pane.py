"""The queue, or what ended: which of it is wanted, and the rows of that which are in view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message

from mgpu.clock import Clock
from mgpu.tui import queue_rows
from mgpu.tui.cells import Cell
from mgpu.tui.columns import Column, shares
from mgpu.tui.dialogs import Ask
from mgpu.tui.keys import bindings
from mgpu.tui.pane import Pane
from mgpu.tui.polling import Poll
from mgpu.tui.rows import Rows
from mgpu.tui.source import Json, Source
from mgpu.tui.wanted import Wanted
from mgpu.tui.wishes import ask_for_job

POLL_S = 2.0


class QueueRows(Rows):
    """Jobs as `GET /v1/window` tells them. With the clock only their times change: the rest of a line is kept."""

    HAS_HEAD = True

    def __init__(self, clock: Clock, *, id: str) -> None:
        super().__init__(id=id)
        self._clock = clock
        self.columns: tuple[Column, ...] = queue_rows.QUEUE
        self.sort = "queue"
        self.empty = ""
        self._shares: tuple[int, list[tuple[Column, int]]] = (-1, [])
        self._kept: dict[int, tuple[Any, list[Cell]]] = {}  # by id of the row, which is kept beside it

    def put(self, items: Sequence[Any], offset: int = 0, total: int | None = None) -> None:
        self._kept.clear()
        super().put(items, offset, total)

    def shares(self, width: int) -> list[tuple[Column, int]]:
        if self._shares[0] != width:
            self._shares = width, shares(self.columns, width)
            self._kept.clear()
        return self._shares[1]

    def show_as(self, columns: tuple[Column, ...], sort: str) -> None:
        self.columns, self.sort = columns, sort
        self._shares = (-1, [])
        self._kept.clear()
        self.repaint()

    def notify_style_update(self) -> None:
        self._kept.clear()
        super().notify_style_update()

    def key_of(self, item: Any) -> Hashable:
        return str(item["job_id"])

    def cells_of(self, item: Any, line: int, width: int) -> list[Cell]:
        found, now = self.shares(width), self._clock.now()
        _, cells = self._kept.get(id(item), (None, None))
        if cells is None:
            cells = queue_rows.line(item, found, now)
            self._kept[id(item)] = item, cells
        return queue_rows.with_time(cells, item, found, now)

    def head(self, width: int) -> list[Cell]:
        return [Cell(" ", "head"), *queue_rows.head(self.shares(max(width - 1, 0)), self.sort)]

    def nothing(self) -> str:
        return self.empty

    def column_at(self, x: int) -> Column | None:
        return queue_rows.column_at(x - 1, self.shares(max(self.room - 1, 0)))


class QueuePane(Pane):
    BINDINGS: ClassVar[list[BindingType]] = bindings("queue")

    def __init__(self, source: Source, clock: Clock, told: Callable[[], None], *, id: str) -> None:
        self.jobs = QueueRows(clock, id="jobs")
        super().__init__(self.jobs, id=id)
        self.wanted = Wanted()
        self.answer: Json = {}
        self.whole: Json = {}  # the last answer that tells of all that runs and waits
        self._source = source
        self._clock = clock
        self._mark = ""
        self.poll: Poll[Json] = Poll(self._question, self._answered, told, POLL_S, clock)

    # --- what is asked, and what is answered ---

    def _question(self) -> Callable[[], Json]:
        ask = partial(self._source.window, **self.wanted.query(), seen=self._mark)
        if not self.wanted.ended:
            return ask
        # how many run and wait is told all the same
        return lambda: {**ask(), "queue": self._source.window(scope="active", limit=1)}

    def _answered(self, answer: Json) -> None:
        if whole := answer.get("queue", {} if answer.get("same") else answer):
            self.whole = whole
        if not answer.get("same"):
            self.answer, self._mark = answer, str(answer.get("mark") or "")
            self.jobs.put(answer["jobs"], answer["offset"], answer["matching"])
            self._look_around()
        self.post_message(self.Answered())

    class Answered(Message):
        """There is something new, or it was seen that there is not."""

    def _look_around(self) -> None:
        """Whether the rows in view, and some around them, are here."""
        if self.wanted.cover(*self.jobs.in_view(), self.jobs.total):
            self.poll.now()

    @on(Rows.Wanted)
    def _rows_wanted(self, event: Rows.Wanted) -> None:
        event.stop()
        self._look_around()

    def _ask_anew(self, from_the_top: bool = True) -> None:
        """Something else is wanted than what is shown; without `from_the_top` the cursor stays on its job."""
        if from_the_top:
            self.jobs.forget()
        columns = queue_rows.ENDED if self.wanted.ended else queue_rows.QUEUE
        self.jobs.show_as(columns, self.wanted.sort)
        self.poll.now()
        self.retitle("")

    def retitle(self, stale: str) -> None:
        matching = self.answer.get("matching")
        name = "Ended" if self.wanted.ended else "Queue"
        number = "" if matching is None else str(matching)
        if self.wanted.filtered and "rows" in self.answer:
            number += f" of {self.answer['rows']}"
        self.jobs.empty = self._why_empty()
        self.title(" · ".join(filter(None, [f"{name} {number}".rstrip(), *self.wanted.words()])), stale)

    def _why_empty(self) -> str:
        if not self.answer:
            return "the master has not answered yet"
        if self.wanted.filtered:
            return "no job passes the filters; Esc drops them"
        return "no job has ended yet" if self.wanted.ended else "nothing runs and nothing waits"

    def tick(self) -> None:
        """Times go on."""
        self.jobs.repaint()

    # --- filters and order ---

    def searched(self, words: str) -> None:
        """Without words, all come back, and the cursor stays on what was found."""
        self.wanted.search = words
        self.wanted.to_the_top()
        self._ask_anew(from_the_top=bool(words.strip()))

    def action_sort(self) -> None:
        self.wanted.sort_by_next()
        self._ask_anew()

    def action_turn(self) -> None:
        self.wanted.turn()
        self._ask_anew()

    @on(Rows.HeadClicked)
    def _head_clicked(self, event: Rows.HeadClicked) -> None:
        event.stop()
        column = self.jobs.column_at(event.x)
        if column is not None and column.sort:
            self.wanted.sort_by(column.sort)
            self._ask_anew()

    def action_mine(self) -> None:
        self.wanted.mine = not self.wanted.mine
        self.wanted.to_the_top()
        self._ask_anew(from_the_top=self.wanted.mine)

    def action_ended(self) -> None:
        self.wanted.ended = not self.wanted.ended
        self.wanted.to_the_top()
        self.answer, self._mark = {}, ""
        self.jobs.put([])
        self._ask_anew()

    def action_user(self) -> None:
        def answered(user: str | None) -> None:
            if user is not None:
                self.wanted.user = user
                self.wanted.to_the_top()
                self._ask_anew()

        self.app.push_screen(
            Ask("Jobs of which user?", "Empty: of all. Esc changes nothing.", self.wanted.user), answered
        )

    def drop_filters(self) -> bool:
        """Whether there were any."""
        if not (self.drop_search() or self.wanted.filtered):
            return False
        self.wanted.drop_filters()
        self._ask_anew(from_the_top=False)
        return True

    # --- the job with the cursor ---

    @property
    def selected(self) -> Json | None:
        job: Json | None = self.jobs.current
        return job

    def action_act(self, verb: str) -> None:
        self.ask_about(verb, self.selected)

    def ask_about(self, verb: str, job: Json | None) -> None:
        if job is None:
            self.app.bell()
            return
        ask_for_job(self.app, self._source, verb, job, self._clock.now(), self.poll.soon)

    def action_log(self) -> None:
        if self.selected is not None:
            self.post_message(self.LogWanted(str(self.selected["job_id"])))

    class LogWanted(Message):
        def __init__(self, job_id: str) -> None:
            super().__init__()
            self.job_id = job_id
