"""A job as lists have it: its text, and the few values by which it is found and sorted. There may be a hundred thousand
of them, so nothing is kept that can be had from these."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

from mgpu.config.model import Privacy
from mgpu.core import array
from mgpu.core.model import Job, JobState, Part
from mgpu.ops import render
from mgpu.ops.privacy import Sight
from mgpu.ops.render import Json
from mgpu.store.tables import written_out

_HOLE = secrets.token_hex(16)  # stands for what the plan says of a job; no user can have it in a name
_HOLE_TEXT = json.dumps(_HOLE).encode()
_REST = f', "{render.AFTER_BRIEF}": '.encode()  # not within a string, where a quote has a backslash before it
_NOBODY = -1

_MOST_SHARED = 1000
_shared: dict[bytes, bytes] = {}

Said = tuple[bytes, bytes]  # reason and detail, as JSON
_Pieces = tuple[bytes, ...]  # around the holes


def rendered(job: Job, parts: Sequence[Part]) -> Json:
    """With holes for what the plan says of one that waits."""
    row = render.job(job, parts)
    if job.state is JobState.PENDING:
        row["reason"] = row["detail"] = _HOLE
    return row


def _pieces_of(row: Json) -> _Pieces:
    """Jobs that were queued together differ in their numbers, which stand before the first hole: of the rest, equal
    pieces are the same one."""
    first, *rest = json.dumps(row).encode().split(_HOLE_TEXT)
    if len(_shared) > _MOST_SHARED:
        _shared.clear()
    return (first, *(_shared.setdefault(piece, piece) for piece in rest))


class Row:
    """Of one job. `began`: for sorting by time; `tasks`: how many jobs it stands for; `said`: why it waits."""

    __slots__ = (
        "_others",
        "_pieces",
        "_words",
        "array_id",
        "began",
        "detail",
        "gpus",
        "job_id",
        "name",
        "nodes",
        "partition",
        "reason",
        "said",
        "shown",
        "state",
        "tasks",
        "uid",
        "user",
        "waits",
    )

    def __init__(self, job: Job, row: Json) -> None:
        """`row` as `rendered`."""
        self.job_id, self.array_id, self.uid, self.state = job.job_id, job.array_id, job.uid, job.state
        self.shown = row["job_id"]
        self.waits = job.state is JobState.PENDING
        self.tasks = array.count(array.stored_indices(job.rest)) if job.rest else 1
        self.gpus: int = row["gpus"]
        self.began = job.submit_time if job.start_time is None or self.waits else job.start_time
        self.reason = job.reason
        self.detail: str = job.detail if self.waits else row["detail"]
        # as the store's filters compare them
        self.user, self.name = written_out(job.user), written_out(job.spec.name)
        self.partition = written_out(job.spec.request.partition)
        self.nodes = tuple(written_out(part["node"]) for part in row["allocation"])
        self._pieces: _Pieces = _pieces_of(row)
        self._others: dict[Privacy, _Pieces] | None = None  # for those who see a part of it
        self.said: Said | None = None
        self._words = ""  # that may be searched

    def say(self, said: Said) -> bool:
        """Why it waits; whether that is news."""
        if said == self.said:
            return False
        self.said, self._words = said, ""
        return True

    def brief(self, privacy: Privacy) -> bytes:
        """Of `text`, what a table of the queue shows."""
        text = self.text(privacy)
        return text[: text.index(_REST)] + b"}"

    def text(self, privacy: Privacy) -> bytes:
        """For those who see all of it ("full") or, `privacy:` being what it is, a part."""
        pieces = self._pieces if privacy == "full" else self._pieces_for(privacy)
        if len(pieces) == 1 or self.said is None:
            return pieces[0]
        reason, detail = self.said
        if len(pieces) == 2:  # the detail is not for them
            return b"".join((pieces[0], reason, pieces[1]))
        return b"".join((pieces[0], reason, pieces[1], detail, pieces[2]))

    def _pieces_for(self, privacy: Privacy) -> _Pieces:
        if self._others is None:
            self._others = {}
        found = self._others.get(privacy)
        if found is None:
            told = Sight(_NOBODY, "", privacy).of(self, json.loads(_HOLE_TEXT.join(self._pieces)))
            found = self._others[privacy] = _pieces_of(told)
        return found

    def searched(self, known: bool, seen: bool) -> str:
        """What may be found of it, in lower case, by one who knows whose it is, or sees all of it."""
        if not seen:
            return self._found_in(known, seen)
        self._words = self._words or self._found_in(known, seen)
        return self._words

    def _found_in(self, known: bool, seen: bool) -> str:
        reason, detail = self.said or (b"", b"")
        told = (reason.decode(), detail.decode()) if self.waits else (self.reason, self.detail)
        whose = (self.name, self.user) if known else ()
        state = self.state.value
        words = (self.shown, *whose, state, self.partition, *self.nodes, told[0], told[1] if seen else "")
        return " ".join(map(str, words)).lower()
