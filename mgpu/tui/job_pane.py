"""Details of a job: what there is to say of it, and below that what it writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from textual.app import ComposeResult

from mgpu.client.http import MasterError
from mgpu.clock import Clock
from mgpu.tui.facts import Fact
from mgpu.tui.followed import Followed, Json
from mgpu.tui.job_facts import job_facts
from mgpu.tui.log_view import LogView
from mgpu.tui.source import Source

SLOW_S = 10.0  # between questions for which the master has to reckon


class JobPane(Followed):
    DEFAULT_CSS = """
    JobPane > FactLines { height: auto; max-height: 50%; }
    JobPane > LogView { height: 1fr; }
    """
    KIND = "job"

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(source, clock, id=id)
        self.job: Json | None = None  # as it was told last
        self._slow: dict[str, Json] = {}  # by question: the last answer
        self._slow_at: dict[str, float] = {}
        self.log_view = LogView(source)

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self.log_view

    def forget(self) -> None:
        self.job, self._slow, self._slow_at = None, {}, {}
        self.log_view.show(self.name_shown)

    def question(self) -> Callable[[], dict[str, Json]]:
        source, job_id, now = self.source, self.name_shown or "", self.clock.now()
        due = [key for key in ("why", "use") if now - self._slow_at.get(key, 0.0) >= SLOW_S]
        self._slow_at.update(dict.fromkeys(due, now))
        return lambda: look(source, job_id, due)

    def answered(self, answer: dict[str, Json]) -> None:
        job = answer.pop("job")
        before = (self.job or {}).get("state"), (self.job or {}).get("reason")
        if self.job is not None and before != (job["state"], job.get("reason")):
            self._slow_at.clear()  # another reason is worth another look
        self.job = job
        self._slow.update(answer)

    def known(self, now: float) -> list[Fact] | None:
        return None if self.job is None else job_facts(self.job, self._slow.get("why"), self._slow.get("use"), now)


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
