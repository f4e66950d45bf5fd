"""What jobs read: from the clients into the nodes' pipes, each byte once.

A job has one of these, shared by all who follow it: it keeps what not every rank has taken yet. How far a rank is, its
node knows (remote/feed), so neither a cut link nor another master loses or repeats a byte. A thread a rank gives, and
waits for as long as the job does not read; nobody else is held up by that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from mgpu.core.model import AttemptState, JobId, Part
from mgpu.core.reconcile import directory_name
from mgpu.logbook import about
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Inbox
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.worker import Threads
from mgpu.ops.context import Taken
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.feed import PIECE_B, Feed
from mgpu.window import Window

log = logging.getLogger(__name__)

KEPT_B = 4 << 20
AGAIN_S = 1.0
Act = Callable[[Feed], None]


class _Reader:
    """A rank. `fed` None: its node has not said yet how far it is. `sent`, `ended`, `size`: as it was asked for."""

    def __init__(self) -> None:
        self.fed: int | None = None
        self.sent = 0
        self.ended = False
        self.size: tuple[int, int] | None = None
        self.busy = False  # a thread gives
        self.over = False


class Stdin:
    """See ops.context.Stdin. Any thread."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._news: list[Callable[[], None]] = []
        self._attempt = 0
        self._begin_again(0, 0)

    def _begin_again(self, attempt: int, ranks: int) -> None:
        self._attempt = attempt
        self._readers = {rank: _Reader() for rank in range(ranks)}
        self._kept: Window | None = None  # None: the ranks have not all said yet how far they are
        self._ended = False
        self._size: tuple[int, int] | None = None

    # --- who gives --------------------------------------------------------------------------------------------------

    def taken(self) -> Taken:
        with self._change:
            kept = self._kept
            if kept is None:
                return Taken(0, 0, 0, over=False, room=True)
            over = all(reader.over for reader in self._readers.values())
            return Taken(self._attempt, kept.base, kept.end, over, room=len(kept) < KEPT_B)

    def give(self, attempt: int, data: bytes) -> None:
        with self._change:
            if attempt == self._attempt and self._kept is not None and not self._ended:
                self._kept.add(data)
                self._trim()
                self._change.notify_all()

    def end(self, attempt: int) -> None:
        with self._change:
            if attempt == self._attempt and self._kept is not None:
                self._ended = True
                self._change.notify_all()

    def resize(self, rows: int, columns: int) -> None:
        with self._change:
            self._size = (rows, columns)
            self._change.notify_all()

    def subscribe(self, news: Callable[[], None]) -> None:
        with self._change:
            self._news.append(news)

    def unsubscribe(self, news: Callable[[], None]) -> None:
        with self._change:
            self._news.remove(news)
            self._change.notify_all()

    def used(self, running: bool) -> bool:
        """Somebody gives, or what was given is still on its way to a job that runs."""
        with self._change:
            busy = any(reader.busy for reader in self._readers.values())
            return bool(self._news or (running and (self._kept or busy)))

    # --- who takes --------------------------------------------------------------------------------------------------

    def begin(self, attempt: int, ranks: int) -> None:
        """What is going on, as every pass sees it. Of another attempt nothing was given yet."""
        with self._change:
            if attempt != self._attempt:
                self._begin_again(attempt, ranks)
                self._change.notify_all()

    def claim(self, rank: int) -> bool:
        """True: the caller is the one who gives to this rank now, until it says that it is over or `next` is None."""
        with self._change:
            reader = self._readers[rank]
            if reader.busy or reader.over:
                return False
            reader.busy = True
            return True

    def begin_to_give(self, attempt: int, rank: int, fed: int) -> None:
        """What was on its way is lost, but for what the node says."""
        with self._change:
            if attempt == self._attempt:
                reader = self._readers[rank]
                reader.sent, reader.ended, reader.size = fed, False, None
        self.reached(attempt, rank, fed)

    def reached(self, attempt: int, rank: int, fed: int) -> None:
        self._tell(attempt, rank, fed=fed)

    def leave(self, attempt: int, rank: int, over: bool) -> None:
        """`over`: it will read nothing any more."""
        self._tell(attempt, rank, over=over)

    def next(self, attempt: int, rank: int, wait: bool = True) -> Act | None:
        """What is to be asked of the node, once there is something; None = no more by this thread, or nothing now."""
        with self._change:
            while attempt == self._attempt:
                reader = self._readers[rank]
                if reader.over:
                    return None
                if act := self._act(reader):
                    return act
                if not self._news or not wait:
                    return None
                self._change.wait()
            return None

    def _act(self, reader: _Reader) -> Act | None:
        size = self._size
        if size is not reader.size and size is not None:  # said again, all is drawn anew
            return self._resizing(reader, size)
        if reader.fed is None or self._kept is None:
            return None
        if piece := self._kept.read(reader.sent, PIECE_B):
            return self._giving(reader, piece)
        return None if reader.ended or not self._ended else self._ending(reader)

    def _giving(self, reader: _Reader, piece: bytes) -> Act:
        def act(feed: Feed) -> None:
            reader.sent += len(piece)
            feed.give(piece)

        return act

    def _resizing(self, reader: _Reader, size: tuple[int, int]) -> Act:
        def act(feed: Feed) -> None:
            feed.resize(*size)
            reader.size = size

        return act

    def _ending(self, reader: _Reader) -> Act:
        def act(feed: Feed) -> None:
            feed.end()
            reader.ended = True

        return act

    def _tell(self, attempt: int, rank: int, fed: int | None = None, over: bool | None = None) -> None:
        with self._change:
            if attempt != self._attempt:
                return
            reader = self._readers[rank]
            if over and reader.over and not reader.busy:
                return
            if fed is not None:
                reader.fed = fed
            if over is not None:
                reader.busy, reader.over = False, reader.over or over
            self._trim()
            self._change.notify_all()
            news = tuple(self._news)
        for told in news:
            told()

    def _trim(self) -> None:
        """What all have that still read need not be kept."""
        readers = [reader for reader in self._readers.values() if not reader.over]
        fed = [reader.fed for reader in readers if reader.fed is not None]
        if len(fed) < len(readers):
            return
        if self._kept is None:
            self._kept = Window(min(fed, default=0))
        self._kept.forget(min(fed, default=self._kept.end))


class Stdins:
    """Of all jobs that somebody gives something to."""

    def __init__(self, links: Links, inbox: Inbox, threads: Threads) -> None:
        self._links = links
        self._inbox = inbox
        self._threads = threads
        self._lock = threading.Lock()
        self._open: dict[JobId, Stdin] = {}

    def open(self, job_id: JobId, news: Callable[[], None]) -> Stdin:
        """`news` is called from any thread whenever `taken` may have changed. Any thread."""
        with self._lock:
            stdin = self._open.setdefault(job_id, Stdin())
            stdin.subscribe(news)
        self._inbox.wake()
        return stdin

    def close(self, job_id: JobId, news: Callable[[], None]) -> None:
        with self._lock:
            self._open[job_id].unsubscribe(news)
        self._inbox.wake()

    def tend(self, board: Board) -> None:
        """Part of a pass: sees to it that somebody gives to each rank that reads."""
        with self._lock:
            if not self._open:
                return
            running = {item.job.job_id: item for item in board if item.current and item.job.spec.input}
            for job_id in [job_id for job_id, stdin in self._open.items() if not stdin.used(job_id in running)]:
                del self._open[job_id]
            known = dict(self._open)
        for job_id, item in running.items():
            if job_id in known and all(part.started is not None for part in item.parts):
                self._tend(known[job_id], item)

    def _tend(self, stdin: Stdin, item: Running) -> None:
        stdin.begin(item.attempt.number, len(item.parts))
        for part in item.parts:
            link = self._links.of(part)
            if part.state is AttemptState.ENDED:
                stdin.leave(part.attempt, part.rank, over=True)
            elif link is not None and part.state is not AttemptState.LOST and stdin.claim(part.rank):
                self._threads.spawn(f"stdin {directory_name(part.key)}", _Giver(link, part, stdin).run)


class _Giver(NamedTuple):
    """The thread of a rank. After trouble a later pass makes another."""

    link: NodeLink
    part: Part
    stdin: Stdin

    def run(self) -> None:
        attempt, rank, name = self.part.attempt, self.part.rank, directory_name(self.part.key)
        over = False
        try:
            with self.link.runner.feeding(name) as feed:
                self.stdin.begin_to_give(attempt, rank, feed.fed)
                while (act := self.stdin.next(attempt, rank, wait=not feed.awaited)) or feed.awaited:
                    if act:
                        act(feed)
                    else:
                        feed.settle()
                    self.stdin.reached(attempt, rank, feed.fed)
        except RemoteError as error:
            over = error.trouble is Trouble.GONE
            if not over:
                log.info("stdin: %s", error, extra=about(self.part.key, self.link.name))
                threading.Event().wait(AGAIN_S)
        finally:
            self.stdin.leave(attempt, rank, over)
