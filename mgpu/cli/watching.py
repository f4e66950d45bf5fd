"""Looking again and again. Who is asked is asked in a thread, one question at a time, so that a master that hangs keeps
nobody from resizing or leaving; what is shown stays, and is marked with its age."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time

from mgpu import clock
from mgpu.cli.screen import Screen, can_be_drawn_on
from mgpu.cli.session import Session
from mgpu.cli.signals import CAUGHT, Raised, Signals
from mgpu.cli.text import colourful
from mgpu.client.http import UNREADABLE, MasterError
from mgpu.client.master import Master
from mgpu.lean.typing import Any, Callable, NoReturn
from mgpu.wording.figures import duration, in_local_time
from mgpu.wording.letters import clean

TICK_S = 1.0
LATE_S = 5.0  # an answer that takes longer is told of


class Watching:
    """`lines`, `chosen`: see `watch.look`."""

    def __init__(
        self,
        session: Session,
        path: str,
        lines: Callable[[Any], list[str]],
        chosen: Callable[[Any], Any],
        every_s: int,
    ) -> None:
        self._session = session
        self._path = path
        self._lines = lines
        self._chosen = chosen
        self._every_s = every_s
        self._answer: Any = None
        self._answered, self._answered_at = 0.0, 0.0  # by the clock that never jumps, and by the one on the wall
        self._trouble = ""
        self._printed = False
        self._asking = False
        self._told, self._heard = os.pipe()  # a byte for each answer
        self._news: list[Any] = []
        self._screen: Screen | None = None

    def run(self) -> int:
        """Until a signal ends it: 130 after ^C. Raises MasterError when there is nothing to show to begin with."""
        try:
            with Signals((*CAUGHT, signal.SIGWINCH)) as signals, signals.raising(CAUGHT):
                self._take(self._chosen(self._session.call("GET", self._path)))
                if self._session.json or not can_be_drawn_on():
                    self._go_on(signals, self._print_news)
                self._screen = Screen(self._draw)
                with self._screen.taken():
                    self._go_on(signals, self._draw)
        except Raised as ended:
            return 128 + ended.number

    def _go_on(self, signals: Signals, show: Callable[[], None]) -> NoReturn:
        show()
        due = self._answered + self._every_s
        while True:
            now = clock.monotonic()
            if now >= due and not self._asking:
                self._ask()
                due = now + self._every_s
            late = self._asking or self._trouble  # then its age is shown
            until = now + TICK_S if late else due
            ready, _, _ = select.select([self._told, signals.fd], [], [], max(until - now, 0.0))
            signals.take()
            if self._told in ready:
                os.read(self._told, 1)
                self._asking = False
                news = self._news.pop()
                if isinstance(news, MasterError):
                    self._fail(news)
                elif isinstance(news, Exception):
                    raise news
                else:
                    self._take(news)
            if ready or late:
                show()

    def _ask(self) -> None:
        # a master that somebody stops meanwhile is not started again by those who look on
        master = Master(self._session.location(), start_if_missing=False)

        def ask() -> None:
            try:
                self._news.append(self._chosen(master.call("GET", self._path)))
            except OSError as error:
                self._news.append(MasterError("error", f"{error.filename or 'system'}: {error.strerror or error}"))
            except (MasterError, *UNREADABLE) as error:  # what cannot be read is told by `run`, as of any command
                self._news.append(error)
            os.write(self._heard, b".")

        self._asking = True
        threading.Thread(target=ask, daemon=True).start()

    def _take(self, answer: Any) -> None:
        self._answer, self._trouble = answer, ""
        self._answered, self._answered_at = clock.monotonic(), clock.now()
        self._printed = False

    def _fail(self, error: MasterError) -> None:
        if error.message != self._trouble and self._screen is None:
            self._session.print_error(error)
        self._trouble = error.message

    def _print_news(self) -> None:
        """A block for each answer with an empty line between; with --json a document in each line."""
        if self._printed:
            return
        if self._session.json:
            print(json.dumps(self._answer), flush=True)
        else:
            print(in_local_time("\n".join([self._title(), *self._lines(self._answer), ""])), flush=True)
        self._printed = True

    def _draw(self) -> None:
        assert self._screen is not None
        body = in_local_time("\n".join(self._lines(self._answer))).split("\n")
        self._screen.draw([self._title(), *body])

    def _title(self) -> str:
        """When it was so; and if there should be later news, since when there is none, and why."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._answered_at))
        age_s = clock.monotonic() - self._answered
        trouble = self._trouble or ("the master does not answer" if age_s > self._every_s + LATE_S else "")
        if not trouble:
            return f"{moment}  every {self._every_s} s, ^C ends"
        text = f"AS OF {moment}, {duration(age_s)} ago: {clean(trouble.splitlines()[0])}"
        return f"\x1b[7m{text}\x1b[0m" if self._screen is not None and colourful() else text
