"""Output: from the nodes into the spool, each byte once.

What somebody watches is followed live, one shell a part; of everything else a look at its node tells how much there is,
and what is missing is fetched. When a part has ended, what is missing comes by the way that it came before, or is
fetched, the spool is brought to the disk, and only then is the part `collected`. All of these may run beside each
other: the spool knows at which offset a stream stands and passes over what it has. Of a stream that reached the limit
(`output.max_size`) nothing more is asked; the job writes on, into the node's own file.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.model import AttemptState, JobId, JobKind, Part, PartKey
from mgpu.core.reconcile import directory_name
from mgpu.logbook import about
from mgpu.master.board import Board
from mgpu.master.inbox import Collected, Inbox
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.troubles import Troubles
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.store.spool import Spool, SpoolGap, Stream

log = logging.getLogger(__name__)

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
IDLE_S = 60.0  # nothing is due: what comes up is told
BRING_S = 2.0  # somebody waits for it
AGAIN_S = (0.5, 30.0)  # backoff of a collection that failed
STALLS_S = 0.5  # without a byte: who follows what has ended brings no more
TURN_BYTES = 16 * 1024 * 1024  # fetched in one turn, so that a long output does not hold up the next job's


class Collector:
    def __init__(self, links: Links, spool: Spool, inbox: Inbox, threads: Threads) -> None:
        self._links = links
        self._spool = spool
        self._inbox = inbox
        self._threads = threads
        self._lock = threading.Lock()
        self._watched: Counter[JobId] = Counter()
        self._followers: dict[PartKey, Follower] = {}
        self._sizes: dict[PartKey, tuple[int, int]] = {}  # of ended parts of which something is missing
        self._grown: set[PartKey] = set()  # running, with more on the node than here
        self._busy: set[PartKey] = set()
        self._due: dict[PartKey, tuple[float, float]] = {}  # (monotonic time, pause)
        self._to_bring: dict[PartKey, Future[bool]] = {}  # asked for, and not begun yet
        self._troubles = Troubles()

    def watch(self, job_id: JobId, on: bool) -> None:
        """Any thread."""
        with self._lock:
            self._watched[job_id] += 1 if on else -1
            if self._watched[job_id] <= 0:
                del self._watched[job_id]
        self._inbox.wake()

    def seen(self, sizes: Mapping[PartKey, tuple[int, int]]) -> None:
        """How much there is of each on its node."""
        for key, size in sizes.items():
            try:
                if not self._whole(key, size):
                    self._grown.add(key)
            except StoreError as error:
                self._trouble(key, error)

    def drained(self, key: PartKey, sizes: tuple[int, int]) -> bool:
        """Every byte of an ended part is here already, and on the disk. Trouble with one file is no trouble of the
        caller, who has other news to store: it comes up again when the rest is fetched."""
        try:
            if not self._whole(key, sizes):
                self._sizes[key] = sizes
                return False
            self._spool.sync(key)
        except StoreError as error:
            log.warning("output: %s", error, extra=about(key))
            return False
        return True

    def bring(self, parts: Sequence[Part]) -> dict[PartKey, bool]:
        """Any thread: what these have written until now, as far as that is here within BRING_S. Of those that could be
        asked: whether all of it is."""
        asked = {part.key: self._bring(link, part.key) for part in parts if (link := self._reached(part)) is not None}
        wait(asked.values(), BRING_S)
        return {key: done.done() and done.result() for key, done in asked.items()}

    def _reached(self, part: Part) -> NodeLink | None:
        """Where more of it can be asked for."""
        asked = part.started is not None and not part.collected and part.state is not AttemptState.LOST
        return self._links.of(part) if asked else None

    def _bring(self, link: NodeLink, key: PartKey) -> Future[bool]:
        """However often it is asked for while the node is slow, its turn comes once."""
        with self._lock:
            if key in self._to_bring:
                return self._to_bring[key]
            done = self._to_bring[key] = Future()

        def task() -> None:
            with self._lock:
                del self._to_bring[key]  # what is asked from now on may be of what is written from now on
            whole = False
            try:
                more = [self._take(link, key, stream) for stream in STREAMS]
                whole = not any(more)
            except (RemoteError, StoreError, SpoolGap) as error:
                log.info("output: %s", error, extra=about(key, link.name))
            finally:
                done.set_result(whole)

        link.bulk.do(task)
        return done

    @property
    def watching(self) -> bool:
        with self._lock:
            return bool(self._watched)

    def collect(self, board: Board, monotonic: float) -> float:
        """Begin what is due; seconds until something else is."""
        soonest = IDLE_S
        wanted: set[PartKey] = set()
        there: set[PartKey] = set()
        with self._lock:
            watched = frozenset(self._watched)
        for item, part in board.parts():
            if part.collected:
                continue
            there.add(part.key)
            link = self._links.of(part)
            if link is None or part.owes_fence:
                continue
            live = item.job.spec.kind is JobKind.SRUN or item.job.job_id in watched
            try:
                soonest = min(soonest, self._see_to(link, part, live, wanted, monotonic))
            except StoreError as error:
                self._trouble(part.key, error)
        self._grown.clear()
        for key in [key for key in self._followers if key not in wanted]:
            self._followers.pop(key).stop()
        for memory in (self._sizes, self._due):
            for key in memory.keys() - there:
                del memory[key]
        return soonest

    def _see_to(self, link: NodeLink, part: Part, live: bool, wanted: set[PartKey], monotonic: float) -> float:
        """As `collect`, of one part; whoever follows it is `wanted`. Raises StoreError."""
        if part.state is AttemptState.ENDED:
            if not self._comes(part, monotonic):
                return self._fetch_rest(link, part.key, monotonic)
            wanted.add(part.key)
            return STALLS_S / 2
        if part.started is not None and part.state is not AttemptState.LOST:
            if live:
                wanted.add(part.key)
                self._follow(link, part)
            elif part.key in self._grown and part.key not in self._busy:
                self._fetch(link, part.key, last=False)
        return IDLE_S

    def _trouble(self, key: PartKey, error: StoreError) -> None:
        """Of one part's files, at a pass: the others' output, and all else that a pass does, goes on."""
        if self._troubles.add(f"{directory_name(key)} {error}", clock.now()):
            log.warning("output: %s", error, extra=about(key))

    def _comes(self, part: Part, monotonic: float) -> bool:
        """What is missing of an ended part is still brought by who followed it: all at once, where fetching asks for it
        piece by piece."""
        follower, sizes = self._followers.get(part.key), self._sizes.get(part.key)
        if follower is None or sizes is None or not follower.alive:
            return False
        if self._whole(part.key, sizes):
            return False
        follower.until(sizes)
        return follower.moves(tuple(self._spool.size(part.key, stream) for stream in STREAMS), monotonic)

    def _whole(self, key: PartKey, sizes: tuple[int, int]) -> bool:
        """All that will be kept of streams of these sizes is here."""
        return all(self._spool.has(key, stream, size) for stream, size in zip(STREAMS, sizes, strict=True))

    def _follow(self, link: NodeLink, part: Part) -> None:
        follower = self._followers.get(part.key)
        if follower is None or not follower.alive:
            if all(self._spool.cut(part.key, stream) for stream in STREAMS):
                return
            follower = self._followers[part.key] = Follower(link, part.key, self._spool, self._inbox.wake)
            self._threads.spawn(f"follow {directory_name(part.key)}", follower.run)

    # --- fetching -----------------------------------------------------------------------------------------------

    def _fetch_rest(self, link: NodeLink, key: PartKey, monotonic: float) -> float:
        """Of one that has ended; seconds until it is to be tried again."""
        due, pause = self._due.get(key, (0.0, AGAIN_S[0]))
        if key in self._busy:
            return STALLS_S
        if monotonic < due:
            return due - monotonic
        pause = min(pause * 2, AGAIN_S[1])
        self._due[key] = (monotonic + pause, pause)
        self._fetch(link, key, last=True)
        return pause

    def _fetch(self, link: NodeLink, key: PartKey, last: bool) -> None:
        self._busy.add(key)
        link.bulk.do(lambda: self._turn(link, key, last))

    def _turn(self, link: NodeLink, key: PartKey, last: bool) -> None:
        again = False
        try:
            again = any(self._take(link, key, stream) for stream in STREAMS)
            if last and not again:
                self._over(key)
        except RemoteError as error:
            if last and error.trouble is Trouble.GONE:
                self._over(key, error.message)
        except (StoreError, SpoolGap) as error:
            log.warning("output: %s", error, extra=about(key))
        finally:
            if not again:
                self._busy.discard(key)
        if again:
            link.bulk.do(lambda: self._turn(link, key, last))

    def _over(self, key: PartKey, trouble: str = "") -> None:
        """As a Collected; where what there is cannot be brought to the disk, it is tried again."""
        try:
            self._spool.sync(key)
        except StoreError as error:
            log.warning("output: %s", error, extra=about(key))
        else:
            self._inbox.put(Collected(key, trouble))

    def _take(self, link: NodeLink, key: PartKey, stream: Stream) -> bool:
        """True = there is more than a turn's worth."""
        end = self._spool.size(key, stream) + TURN_BYTES
        while not self._spool.cut(key, stream):
            offset = self._spool.size(key, stream)
            data, size = link.runner.read(directory_name(key), stream, offset)
            if data or not self._spool.has(key, stream, size):  # also what is missing of a last line
                self._spool.append(key, stream, offset, data)
            if offset + len(data) >= size:
                return False
            if not data:
                raise RemoteError("the node gave less of the output than it has")
            if offset + len(data) >= end:
                return True
        return False

    def close(self) -> None:
        for follower in self._followers.values():
            follower.stop()


class Follower:
    """One part's output, live. Ends by itself when the link is lost; whoever wants it makes another."""

    def __init__(self, link: NodeLink, key: PartKey, spool: Spool, full: Callable[[], None]) -> None:
        """`full` is called when all is here that `until` named."""
        self._link = link
        self._key = key
        self._spool = spool
        self._full = full
        self._until: tuple[int, int] | None = None
        self._moved: tuple[tuple[int, ...], float] = ((), 0.0)
        self._stop = threading.Event()
        self.alive = True

    def until(self, sizes: tuple[int, int]) -> None:
        self._until = sizes

    def moves(self, here: tuple[int, ...], monotonic: float) -> bool:
        """Whether something came lately; `here`: how much there is now."""
        if here != self._moved[0]:
            self._moved = (here, monotonic)
        return monotonic - self._moved[1] < STALLS_S

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        try:
            offsets = (self._offset("stdout"), self._offset("stderr"))
            sinks = (self._sink("stdout", offsets[0] or 0), self._sink("stderr", offsets[1] or 0))
            with self._link.runner.following(directory_name(self._key), offsets, sinks) as follow:
                while not self._stop.wait(0.5) and not follow.ended:
                    pass
        except (RemoteError, StoreError) as error:
            log.info("following its output: %s", error, extra=about(self._key, self._link.name))
            self._stop.wait(1.0)
        finally:
            self.alive = False

    def _offset(self, stream: Stream) -> int | None:
        """None: of a stream that was cut, the node need not send any more."""
        return None if self._spool.cut(self._key, stream) else self._spool.size(self._key, stream)

    def _sink(self, stream: Stream, offset: int) -> Callable[[bytes], None]:
        position = offset

        def sink(data: bytes) -> None:
            nonlocal position
            if self._stop.is_set():
                return
            try:
                self._spool.append(self._key, stream, position, data)
                position += len(data)
                if self._until and position >= self._until[STREAMS.index(stream)]:
                    self._full()
                if self._spool.cut(self._key, stream):
                    self._stop.set()  # it goes on with another follower, without this stream
            except (StoreError, SpoolGap) as error:
                # what is missing is fetched later
                log.warning("output: %s", error, extra=about(self._key, self._link.name))
                self._stop.set()

        return sink
