"""Signals for what runs. One is sent now or not at all: it is no wish to be stored, since it means this moment."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait

from mgpu.core.errors import MgpuError
from mgpu.core.model import AttemptState, JobId, Part
from mgpu.core.signals import RANK_0
from mgpu.master.link import Known
from mgpu.master.links import Links
from mgpu.store.store import Store

SEND_S = 15.0  # for all nodes together


class Signaller:
    """Any thread may send."""

    def __init__(self, store: Store, links: Links) -> None:
        self._store = store
        self._links = links

    def send(self, wanted: Sequence[tuple[JobId, str]]) -> dict[JobId, str]:
        """`wanted`: jobs, and the signal for each as the runner takes it, perhaps behind RANK_0. Job -> why it did not
        get it, "" = it did."""
        begun: dict[JobId, list[tuple[Part, Future[str]]]] = {}
        for job_id, word in wanted:
            first = word.startswith(RANK_0)
            known = [known for known in self._parts(job_id) if known.part.rank == 0 or not first]
            begun[job_id] = [(each.part, self._begin(each, word.removeprefix(RANK_0))) for each in known]
        wait([told for parts in begun.values() for _, told in parts], SEND_S)
        return {job_id: _outcome(parts) for job_id, parts in begun.items()}

    def _parts(self, job_id: JobId) -> list[Known]:
        with self._store.read() as reader:
            job = reader.job(job_id)
            attempt = reader.attempt(job_id, job.attempt) if job else None
            parts = reader.parts(job_id, attempt.number) if attempt else []
        return [
            Known(part, attempt.token_of(part)) for part in parts if attempt and part.state is not AttemptState.ENDED
        ]

    def _begin(self, known: Known, word: str) -> Future[str]:
        told: Future[str] = Future()
        link = self._links.of(known.part)
        if link is None:
            told.set_exception(MgpuError("it is no longer in the inventory"))
        elif known.part.state is AttemptState.LOST:
            told.set_exception(MgpuError(known.part.reason or "contact is lost"))
        else:
            link.signal(known, word, told)
        return told


def _outcome(parts: Sequence[tuple[Part, Future[str]]]) -> str:
    said = [(part.node, _said(told)) for part, told in parts]
    troubles = [f"{node}: {text}" for node, text in said if text not in ("sent", "early", "ended")]
    if troubles:
        return f"not sent to {'; '.join(troubles)}"
    words = {text for _, text in said}
    return "" if "sent" in words else "its command has not begun yet" if "early" in words else "its command has ended"


def _said(told: Future[str]) -> str:
    if told.cancel() or not told.done():
        return f"no answer within {SEND_S:g} s"
    error = told.exception()
    return told.result() if error is None else error.message if isinstance(error, MgpuError) else str(error)
