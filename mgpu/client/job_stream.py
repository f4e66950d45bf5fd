"""Follows a job's output and states, across restarts of the master.

What was received is counted by attempt, rank and stream. After a cut the stream is opened again at those offsets;
bytes that come twice are dropped, so the reader sees each byte once.
"""

from __future__ import annotations

import struct

from mgpu.client.http import UNREADABLE, MasterError, NoMaster, with_query
from mgpu.client.master import Master
from mgpu.client.ready import ready
from mgpu.client.stdin import Stdin
from mgpu.client.websocket import BINARY, StreamClosed, WebSocket
from mgpu.lean.json import loads
from mgpu.lean.typing import Any, Iterator, Mapping, NamedTuple, Sequence

STDOUT, STDERR = 1, 2
HEAD = struct.Struct(">BHQ")
MOST_OFFSETS = 300  # in a request line
RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
RETRY_LASTING_S = 30.0  # what does not change by asking: a machine that does not let us in may shut us out for good


class Output(NamedTuple):
    """Bytes of a stream (`kind` STDOUT or STDERR) of a rank."""

    kind: int
    rank: int
    data: bytes


class Event(NamedTuple):
    """`name` state, attempt, begin, notice, prospects or end as on the wire; or `lost` (text: why; count: failures in a
    row) and `found` when the master went and came back."""

    name: str
    body: dict[str, Any]


class JobStream:
    """Iterate over `items()`; `rank` limits what is followed, `attempt` is where it begins (None = the current one). In
    it each stream begins at its offset in `start`, else where `beginning` says (`tail`, `since`, as the master's query
    has them). `wishes`: session (we are one of the job, and not somebody who only looks on), prospects (events of that
    name while it waits). `stdin`: what the job is given to read; to be set before `items`."""

    stdin: Stdin | None = None

    def __init__(
        self,
        master: Master,
        job_id: int | str,
        rank: int | None = None,
        attempt: int | None = None,
        start: dict[int, int] | None = None,
        beginning: Mapping[str, int | str | None] | None = None,
        wishes: Sequence[str] = (),
    ) -> None:
        self._master = master
        self._path = f"/v1/jobs/{job_id}/stream"
        self.rank = rank
        self._current = attempt or 0  # 0 = none has begun
        self._start = start or {}
        self._beginning = {key: value for key, value in (beginning or {}).items() if value is not None}
        self._seen: dict[tuple[int, int], int] = {}
        self._wishes = dict.fromkeys(wishes, 1)
        self.ranks = 1
        self._failures = 0

    def items(self, wake_fd: int, pause_s: float = 1.0) -> Iterator[Output | Event | None]:
        """Output and events up to the `end` event, for ever across lost masters.

        None comes each `pause_s` without news, and at once when `wake_fd` becomes readable (the reader empties it): the
        moment to look at clocks and signals. Raises MasterError when the master refuses the stream.
        """
        while True:
            try:
                with self._master.woken_by(wake_fd):
                    stream = self._open()
            except NoMaster as error:
                yield from self._wait(error.message, wake_fd, error.lasting)
                continue
            try:
                for item in self._read(stream, wake_fd, pause_s):
                    if self._failures and item is not None:  # a stream that opens and says nothing is no master back
                        self._failures = 0
                        yield Event("found", {})
                    yield item
                    if isinstance(item, Event) and item.name == "end":
                        return
            except StreamClosed as error:
                yield from self._wait(str(error), wake_fd)
            finally:
                stream.close()
                if self.stdin:
                    self.stdin.cut()

    def _open(self) -> WebSocket:
        if self._failures:
            self._master.revive()
        offsets = {"stdout": self._resume(STDOUT), "stderr": self._resume(STDERR)}
        place = {"rank": self.rank, "attempt": self._current or None, **self._beginning, **self._wishes}
        return self._master.stream(with_query(self._path, **offsets, **place))

    def _resume(self, kind: int) -> str | None:
        """One offset for all ranks, or one for each; None = where the beginning is, which is not known yet."""
        ranks = range(self.ranks) if self.rank is None else (self.rank,)
        offsets = [self._have(kind, rank) for rank in ranks]
        if self._beginning and kind not in self._start and not any(offsets):
            return None
        if len(offsets) > MOST_OFFSETS or len(set(offsets)) == 1:
            return str(min(offsets))  # what comes twice for the others is dropped
        return ",".join(map(str, offsets))

    def _have(self, kind: int, rank: int) -> int:
        return self._seen.get((kind, rank), self._start.get(kind, 0))

    def _wait(self, reason: str, wake_fd: int, lasting: bool = False) -> Iterator[Event | None]:
        self._failures += 1
        yield Event("lost", {"text": reason, "count": self._failures})
        pause_s = RETRY_LASTING_S if lasting else RETRY_S[min(self._failures, len(RETRY_S)) - 1]
        ready([wake_fd], timeout_s=pause_s)
        yield None

    def _read(self, stream: WebSocket, wake_fd: int, pause_s: float) -> Iterator[Output | Event | None]:
        while True:
            self._send(stream)
            if not stream.buffered() and not self._wait_for(stream, wake_fd, pause_s):
                yield None
                continue
            message = stream.receive()
            if message is None:
                continue
            opcode, payload = message
            item = self._output(payload) if opcode == BINARY else self._event(payload)
            if isinstance(item, Event) and item.name == "stdin":
                if self.stdin:
                    self.stdin.told(item.body)
                continue
            if item is not None:
                yield item

    def _send(self, stream: WebSocket) -> None:
        for frame in self.stdin.frames() if self.stdin else ():
            stream.send(*frame)

    def _wait_for(self, stream: WebSocket, wake_fd: int, pause_s: float) -> bool:
        """Whether the stream is readable now; meanwhile, what we give to the job goes on its way."""
        given = self.stdin.descriptors() if self.stdin else []
        unsent = [stream.fileno()] if stream.unsent else []
        readable, writable = ready([stream.fileno(), wake_fd, *given], unsent, pause_s)
        if writable:
            stream.flush()
        if self.stdin and not set(readable).isdisjoint(given):
            self.stdin.read()
        return stream.fileno() in readable

    def _output(self, payload: bytes) -> Output | None:
        if len(payload) < HEAD.size:
            raise MasterError("error", "the master sent a piece of output without its head", "is it of this version?")
        kind, rank, offset = HEAD.unpack_from(payload)
        have = self._have(kind, rank)
        end = offset + len(payload) - HEAD.size
        if offset > have:
            raise MasterError("error", f"output of rank {rank} is missing from byte {have} to {offset}", "mgpu logs")
        if end <= have:
            return None
        self._seen[kind, rank] = end
        return Output(kind, rank, payload[HEAD.size + have - offset :])

    def _event(self, payload: bytes) -> Event:
        try:
            body = loads(payload)
            name = str(body["event"])
            self._learn(name, body)
        except UNREADABLE as error:
            raise MasterError("error", "the master sent an event that is not one", "is it of this version?") from error
        return Event(name, body)

    def _learn(self, name: str, body: dict[str, Any]) -> None:
        if name == "attempt" and body["attempt"] != self._current:
            # A new attempt writes from the start; a resumed stream begins with it.
            self._forget_beginning()
            self._seen.clear()
            self._current = int(body["attempt"])
        elif name == "begin":
            self._seen.update({(int(kind), int(rank)): int(offset) for kind, rank, offset in body["offsets"]})
            self._beginning = {}
        elif name in ("state", "end"):
            job = body["job"]
            self._current = self._current or int(job.get("attempt") or 0)
            self.ranks = max(len(job.get("allocation") or ()), 1)
            if not self._current:
                self._forget_beginning()

    def _forget_beginning(self) -> None:
        """It was of an attempt that is there already: the next one is wanted from its start."""
        self._start, self._beginning = {}, {}
