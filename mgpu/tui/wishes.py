"""What is wished from the master: asked about first, done in a thread, and its outcome told.

Each wish is about a job's number or a node's name, taken when its key was pressed: rows may move while somebody thinks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, NamedTuple

from textual.app import App

from mgpu.client.http import MasterError
from mgpu.clock import monotonic
from mgpu.tui.cells import shown
from mgpu.tui.dialogs import Ask, Confirm
from mgpu.tui.source import VERBS, Source
from mgpu.wording.figures import count, duration
from mgpu.wording.jobs import placed, ran_for, shown_id

Json = dict[str, Any]
SLOW_S = 3.0  # after which it is told that there is no answer yet


class Verb(NamedTuple):
    """What is asked and what comes of it; `waits`, `runs`, `ended`: of a job in that state, "" = it is for the master
    to refuse."""

    title: str
    waits: str
    runs: str
    ended: str


JOB_VERBS = {
    "cancel": Verb(
        "Cancel", "It will not start.", "Its processes get SIGTERM, later SIGKILL.", "It has ended already."
    ),
    "hold": Verb("Hold", "It waits until it is released.", "What runs cannot be held.", "It has ended already."),
    "release": Verb("Release", "It may start.", "What runs is not held.", "It has ended already."),
    "requeue": Verb(
        "Requeue",
        "It waits already.",
        "It is ended, and starts again from its beginning.",
        "It is queued once more, under the same number.",
    ),
}


def named(job: Json) -> str:
    """`job 17, train, of alice`"""
    words = [f"job {shown_id(job)}", str(job.get("name") or ""), f"of {job['user']}" if job.get("user") else ""]
    return shown(", ".join(filter(None, words)))


def meant(job: Json) -> str | int:
    """What the row stands for: of an array the tasks that wait, and not those that have begun."""
    rest = str(job.get("array_rest") or "").partition("%")[0]
    number: str | int = job["job_id"]
    return f"{number}_[{rest}]" if rest else number


def ask_for_job(app: App[Any], source: Source, verb: str, job: Json, now: float, done: Callable[[], None]) -> None:
    """Asks whether that is really to be done to this job. `done`: once it was."""
    words = JOB_VERBS[verb]
    job_id, name = meant(job), named(job)
    state = str(job.get("state") or "")
    details = {"PENDING": words.waits, "RUNNING": words.runs}.get(state, words.ended)
    if state == "RUNNING":
        details = f"It runs on {placed(job)} for {duration(ran_for(job, now))}. {details}"
    elif job.get("array_rest"):
        details = (
            f"These tasks of the array {job['job_id']} wait; those that have begun are jobs of their own. {details}"
        )

    def answered(yes: bool | None) -> None:
        if yes:
            told = f"Job {job_id} {VERBS[verb]}"
            carry_out(app, f"{words.title} job {job_id}", partial(source.act, verb, job_id), lambda _: told, done)

    app.push_screen(Confirm(f"{words.title} {name}?", details, f"{words.title} it", "Leave it"), answered)


def ask_to_drain(app: App[Any], source: Source, name: str, done: Callable[[], None]) -> None:
    def answered(reason: str | None) -> None:
        if reason is not None:
            carry_out(app, f"Drain {name}", partial(source.drain, name, reason), drained, done)

    details = "Nothing new starts there; what runs goes on to its end. Why? All can read it. Esc leaves it."
    app.push_screen(Ask(f"Drain {shown(name)}?", details, needed=True), answered)


def ask_to_resume(app: App[Any], source: Source, name: str, done: Callable[[], None]) -> None:
    def answered(yes: bool | None) -> None:
        if yes:
            carry_out(app, f"Resume {name}", partial(source.resume, name), resumed, done)

    app.push_screen(Confirm(f"Resume {shown(name)}?", "Jobs may start there again.", "Resume it", "Leave it"), answered)


def drained(answer: Any) -> str:
    running = answer.get("running") or []
    left = f"{count(len(running), 'job')} still on it" if running else "nothing runs there"
    return f"{answer.get('node_id')} drained; {left}"


def resumed(answer: Any) -> str:
    done = "resumed" if answer.get("changed") else "was not drained"
    left = answer.get("still_drained") or []
    return f"{answer.get('node_id')} {done}" + (f"; {count(len(left), 'GPU')} still drained" if left else "")


class Errand(threading.Thread):
    """A wish on its way, in a thread of its own: what is asked for the screen may hang by the dozen and hold up none.
    `words` and `severity`: what came of it, once it has ended."""

    under_way: ClassVar[dict[Errand, None]] = {}  # those of which nothing was told yet

    def __init__(self, title: str, do: Callable[[], Any], told: Callable[[Any], str]) -> None:
        super().__init__(name=title, daemon=True)
        self.title = title
        self.sent = f"{title}: sent; the master has not answered yet"
        self.words, self.severity = self.sent, "warning"
        self._do, self._told = do, told
        self._loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        self.under_way[self] = None

    def run(self) -> None:
        try:
            self.words, self.severity = self._told(self._do()), "information"
        except MasterError as error:
            self.words, self.severity = f"{self.title}: {error.told}", "error"
        except OSError as error:
            self.words, self.severity = f"{self.title}: {error.strerror or error}", "error"
        with suppress(RuntimeError):  # the monitor has ended meanwhile
            self._loop.call_soon_threadsafe(self.over.set)


def untold() -> list[str]:
    """What came of wishes that were on their way when the monitor ended. Some time is left to them: none may be lost
    without a word."""
    deadline = monotonic() + SLOW_S
    for errand in Errand.under_way:
        errand.join(max(deadline - monotonic(), 0.0))
    return [shown(errand.words) for errand in Errand.under_way]


def carry_out(
    app: App[Any], title: str, do: Callable[[], Any], told: Callable[[Any], str], done: Callable[[], None]
) -> None:
    """The refusal is told in the words of whoever refused."""

    async def work() -> None:
        errand = Errand(title, do, told)
        errand.start()
        over = asyncio.ensure_future(errand.over.wait())
        if not (await asyncio.wait([over], timeout=SLOW_S))[0]:
            tell(app, errand.sent, "warning")
        await over
        tell(app, errand.words, errand.severity)
        del Errand.under_way[errand]
        done()

    app.run_worker(work(), name=title)


def tell(app: App[Any], text: str, severity: Any = "information") -> None:
    app.notify(shown(text), severity=severity, markup=False, timeout=8 if severity == "information" else 15)
