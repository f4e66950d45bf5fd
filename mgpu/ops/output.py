"""The output of jobs as far as it has come, and what a reader who follows one needs to know at each look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mgpu import clock
from mgpu.core.array import Reference, array_of, shown_id, task_name
from mgpu.core.errors import NotFound, RequestError
from mgpu.core.model import AttemptState, Job, JobId, JobState, Part, PartKey
from mgpu.ops import render
from mgpu.ops.arrays import find, find_row
from mgpu.ops.context import Caller, Context, find_job, require_owner
from mgpu.ops.jobs import parse_count
from mgpu.ops.render import Json
from mgpu.ops.tail import ALL, Beginning, parse_beginning
from mgpu.store.reading import Reader
from mgpu.store.spool import Spool, Stream

MOST_BYTES = 8 << 20
CHUNK_BYTES = 512 << 10
MOST_RANKS = 4096
REMOVED = "output removed"  # an audit row: what the job had written is no longer kept
Owed = Literal["coming", "away"]
NOTICE = "notice"  # an audit row whose detail is a line for the user: followers hear it
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """`attempt` None = the current or last one; `offset` None = at the `beginning`. `fresh`: what its nodes have of any
    rank is fetched before."""

    named: Reference
    stream: Stream = "stdout"
    rank: int = 0
    attempt: int | None = None
    offset: int | None = 0
    limit: int = 1 << 20
    beginning: Beginning = ALL
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """`data` stands at `offset`; `size` is what is stored of the stream; `complete`: no more will come. `owed`, told if
    it was to be fresh: what ranks that have ended wrote is still coming, or cannot be asked for as a node is away."""

    offset: int
    data: bytes
    size: int
    complete: bool
    owed: Owed | None = None


def parse_output_request(named: Reference, query: Mapping[str, str]) -> OutputRequest:
    stream = query.get("stream") or "stdout"
    if stream not in STREAMS:
        raise RequestError(f"stream {stream!r} is none of stdout, stderr")
    return OutputRequest(
        named,
        stream="stdout" if stream == "stdout" else "stderr",
        rank=number(query, "rank") or 0,
        attempt=number(query, "attempt"),
        offset=number(query, "offset"),
        limit=min(number(query, "limit") or 1 << 20, MOST_BYTES),
        beginning=parse_beginning(query),
        fresh=query.get("fresh") == "1",
    )


def number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return parse_count(name, text, 1 << 62) if text else None


def read_output(context: Context, caller: Caller, wanted: OutputRequest) -> Output:
    """Raises NotFound for a job, attempt or rank that is not there, NotAllowed for somebody else's job."""
    job, parts = _look_up(context, caller, wanted.named, wanted.attempt)
    if not parts:
        if wanted.attempt is not None:
            raise NotFound(f"job {shown_id(job)} has no attempt {wanted.attempt}", f"the last one is {job.attempt}")
        return Output(0, b"", 0, job.state.final)
    _require_rank(job, parts, wanted.rank)
    brought = context.control.bring(parts) if wanted.fresh else {}
    part = parts[wanted.rank]
    # looked at before the bytes: all of them are there if it holds
    complete = _complete(context, part, brought)
    size = context.spool.size(part.key, wanted.stream)
    offset = wanted.offset
    if offset is None:
        offset = wanted.beginning.offset(context.spool, part.key, wanted.stream)
    data = context.spool.read(part.key, wanted.stream, offset, wanted.limit)
    owed = _owed(context, parts, brought) if wanted.fresh else None
    return Output(offset, data, max(size, offset + len(data) if data else 0), complete, owed)


def _owed(context: Context, parts: Sequence[Part], brought: Mapping[PartKey, bool]) -> Owed | None:
    """Of an attempt of which that was asked for now."""
    ended = [part for part in parts if part.state is AttemptState.ENDED]
    missing = [part.key for part in ended if not _complete(context, part, brought)]
    if not missing:
        return None
    return "coming" if any(key in brought for key in missing) else "away"


def _complete(context: Context, part: Part, brought: Mapping[PartKey, bool]) -> bool:
    """No more of its output will come: all is here, perhaps just `brought`, or nobody fetches the rest, as its node has
    left the inventory."""
    if part.collected or part.owes_fence:
        return True
    if part.state is not AttemptState.ENDED:
        return False
    return brought.get(part.key, False) or all(node.name != part.node for node in context.config.nodes)


def _look_up(context: Context, caller: Caller, named: Reference, attempt: int | None) -> tuple[Job, list[Part]]:
    with context.store.read() as r:
        job = _readable(context, caller, find(r, named))
        parts = r.parts(job.job_id, job.attempt if attempt is None else attempt)
        _require_kept(r, job, parts)
        return job, parts


def _require_kept(reader: Reader, job: Job, parts: Sequence[Part]) -> None:
    """Raises NotFound, for output that is no longer there."""
    removed = reader.audits(job.job_id, what=REMOVED) if parts and job.state.final else []
    if removed and removed[-1].at >= max(part.ended or 0.0 for part in parts):
        when = f"it was removed on {render.moment(removed[-1].at)} (retention: output)"
        raise NotFound(f"the output of job {shown_id(job)} is no longer kept: {when}")


def _readable(context: Context, caller: Caller, job: Job) -> Job:
    """Raises NotAllowed, RequestError."""
    require_owner(context, caller, job, "read its output")
    if job.is_array:
        first = array_of(job.spec.array).indices[0][0]
        raise RequestError(
            f"job {job.job_id} is an array", f"name one of its tasks, as in {task_name(job.job_id, first)}"
        )
    return job


# --- following ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Position:
    """Where a follower stands: which ranks it wants (None = all), which attempt (0 = none has begun), and how far it
    is in each stream. `start` is where every rank begins, or each one; a stream that is not in it begins at the
    `beginning`."""

    rank: int | None = None
    attempt: int = 0
    start: dict[Stream, list[int]] = field(default_factory=dict)
    reached: dict[tuple[int, Stream], int] = field(default_factory=dict)
    beginning: Beginning = ALL

    def offset(self, rank: int, stream: Stream) -> int:
        start = self.start.get(stream, [0])
        return self.reached.get((rank, stream), start[rank if rank < len(start) else -1])

    def begin(self, spool: Spool, parts: Sequence[Part]) -> list[tuple[Stream, int, int]]:
        """Makes the beginning so many bytes, now that there is an attempt: (stream, rank, offset) of each that begins
        there."""
        begun = [
            (stream, part.rank, self.beginning.offset(spool, part.key, stream))
            for stream in STREAMS
            if stream not in self.start
            for part in parts
        ]
        self.reached.update({(rank, stream): offset for stream, rank, offset in begun})
        self.beginning = ALL
        return begun

    def advance(self, chunk: Chunk) -> None:
        self.reached[chunk.rank, chunk.stream] = chunk.offset + len(chunk.data)

    def next_attempt(self) -> None:
        self.attempt += 1
        self.start, self.reached, self.beginning = {}, {}, ALL


@dataclass(frozen=True, slots=True)
class Chunk:
    stream: Stream
    rank: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Look:
    """`signature` changes with what a follower wants to hear of, `job_json` is then the news. `parts` are those whose
    output is followed, `begun` is where its beginning was found just now. `complete`: if there are no `chunks`, nothing
    more will come of the attempt."""

    job: Job
    job_json: Json
    signature: tuple[object, ...]
    notices: Sequence[str]
    parts: Sequence[Part]
    begun: Sequence[tuple[Stream, int, int]]
    chunks: Sequence[Chunk]
    complete: bool


def parse_position(query: Mapping[str, str]) -> Position:
    start = {
        stream: [parse_count(stream, offset, 1 << 62) for offset in query[stream].split(",")[:MOST_RANKS]]
        for stream in STREAMS
        if query.get(stream)
    }
    return Position(
        rank=number(query, "rank"),
        attempt=number(query, "attempt") or 0,
        start=start,
        beginning=parse_beginning(query),
    )


def _require_rank(job: Job, parts: Sequence[Part], rank: int) -> None:
    if rank >= len(parts):
        raise NotFound(f"job {shown_id(job)} has no rank {rank}", f"its ranks are 0 to {len(parts) - 1}")


def begin_to_follow(context: Context, caller: Caller, named: Reference, rank: int | None = None) -> tuple[JobId, bool]:
    """The row to follow, and whether the caller may give it something to read: an admin may end a job, but not act in
    its user's name. A task of an array that is no row yet becomes one. Raises NotFound, NotAllowed, RequestError."""
    with context.store.read() as r:
        job = _readable(context, caller, find(r, named))
        parts = r.parts(job.job_id, job.attempt)
        _require_kept(r, job, parts)
    if rank is not None and parts:  # else it has not begun yet
        _require_rank(job, parts, rank)
    if job.job_id != named.job_id or named.indices is None or job.state is not JobState.PENDING:
        return job.job_id, bool(job.spec.input) and caller.uid in (job.uid, context.owner_uid, 0)
    with context.store.write() as w:
        return find_row(w, named, clock.now()).job_id, False


def bring(context: Context, job_id: JobId) -> None:
    """What its nodes have by now: for who does not begin at the start, what was written before is no news."""
    with context.store.read() as r:
        job = find_job(r, job_id)
        parts = r.parts(job_id, job.attempt)
    if job.state is JobState.RUNNING:
        context.control.bring(parts)


def look(context: Context, job_id: JobId, position: Position) -> Look:
    """The job now, and the next bytes of the attempt."""
    with context.store.read() as r:
        job = find_job(r, job_id)
        current = r.parts(job_id, job.attempt)
        followed = current if position.attempt == job.attempt else r.parts(job_id, position.attempt)
        notices = [entry.detail for entry in r.audits(job_id=job_id, what=NOTICE)]
    if position.rank is not None:
        followed = [part for part in followed if part.rank == position.rank]
    begun = [] if position.beginning.of_all or not followed else position.begin(context.spool, followed)
    shown = render.job(job, current, context.control.waits().get(job_id))
    return Look(
        job=job,
        job_json=shown,
        signature=(job.state, job.attempt, shown["reason"], job.stop, *((p.state, p.pid) for p in current)),
        notices=notices,
        parts=followed,
        begun=begun,
        chunks=next_chunks(context, followed, position),
        complete=job.attempt >= position.attempt and all(_complete(context, part, {}) for part in followed),
    )


def next_chunks(context: Context, parts: Sequence[Part], position: Position) -> list[Chunk]:
    """What the spool has beyond the position: no look at the database, so that much output comes through quickly."""
    chunks = []
    for part in parts:
        for stream in STREAMS:
            offset = position.offset(part.rank, stream)
            data = context.spool.read(part.key, stream, offset, CHUNK_BYTES)
            if data:
                chunks.append(Chunk(stream, part.rank, offset, data))
    return chunks
