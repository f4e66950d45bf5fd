"""Details of a job: what there is to say of it, and below that what it writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical

from mgpu.client.http import MasterError
from mgpu.clock import Clock
from mgpu.tui import themes
from mgpu.tui.fact_lines import FactLines
from mgpu.tui.facts import Fact
from mgpu.tui.job_facts import job_facts
from mgpu.tui.log_view import LogView
from mgpu.tui.polling import Poll
from mgpu.tui.source import Source

Json = dict[str, Any]
PAUSE_S = 2.0
SLOW_S = 10.0  # between questions for which the master has to reckon
TICK_S = 1.0


class JobPane(Vertical):
    """`show` tells it of which; None = of none, and nothing is asked any more."""

    DEFAULT_CSS = """
    JobPane > FactLines { height: auto; max-height: 50%; }
    JobPane > LogView { height: 1fr; }
    """

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        self._clock = clock
        self._job_id: str | None = None
        self._job: Json | None = None
        self._slow: dict[str, Json] = {}  # by question: the last answer
        self._slow_at: dict[str, float] = {}
        # kept at hand: an answer may come while the screen is taken down, and they are found there no more
        self.facts = FactLines(lambda: self.app.theme == themes.PLAIN)
        self.log_view = LogView(source)
        self.poll = Poll(self._question, self._answered, self._draw, PAUSE_S, clock)

    def compose(self) -> ComposeResult:
        yield self.facts
        yield self.log_view

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._draw)

    def show(self, job_id: str | None) -> None:
        if job_id == self._job_id:
            return
        self._job_id, self._job, self._slow, self._slow_at = job_id, None, {}, {}
        self.log_view.show(job_id)
        self.workers.cancel_group(self, "look")
        if job_id is not None:
            self.poll = Poll(self._question, self._answered, self._draw, PAUSE_S, self._clock)
            self.run_worker(self.poll.run(), group="look")
        self._draw()
        self.facts.put_top(0)

    def focus_log(self) -> None:
        self.log_view.lines.focus()

    @property
    def job(self) -> Json | None:
        """As it was told last."""
        return self._job

    # --- what is asked ---

    def _question(self) -> Callable[[], dict[str, Json]]:
        source, job_id, now = self._source, self._job_id or "", self._clock.now()
        due = [key for key in ("why", "use") if now - self._slow_at.get(key, 0.0) >= SLOW_S]
        self._slow_at.update(dict.fromkeys(due, now))
        return lambda: look(source, job_id, due)

    def _answered(self, answer: dict[str, Json]) -> None:
        job = answer.pop("job")
        before = (self._job or {}).get("state"), (self._job or {}).get("reason")
        if self._job is not None and before != (job["state"], job.get("reason")):
            self._slow_at.clear()  # another reason is worth another look
        self._job = job
        self._slow.update(answer)

    def _draw(self) -> None:
        if self._job_id is None:
            self.facts.tell([])
            return
        now = self._clock.now()
        stale = self.poll.freshness.words(now)
        facts = [Fact("", stale, "stale")] if stale else []
        if self._job is None:
            facts.append(Fact("job", self._job_id, "strong"))
        else:
            facts += job_facts(self._job, self._slow.get("why"), self._slow.get("use"), now)
        self.facts.tell(facts)


def look(source: Source, job_id: str, due: list[str]) -> dict[str, Json]:
    """The job, and what else is due of it. Raises MasterError when there is no such job, or no master."""
    job = source.job(job_id)
    answer = {"job": job}
    questions = {"why": source.why, "use": source.job_use}
    for key in due:
        if key == "use" or job["state"] == "PENDING":
            with suppress(MasterError):  # what is known of the job is shown all the same
                answer[key] = questions[key](job_id)
    return answer
