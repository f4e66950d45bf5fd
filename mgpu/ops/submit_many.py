"""Several jobs in one request: all of them or none, in one transaction, and so with one wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mgpu.core import payload as read
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.model import Job
from mgpu.ops.context import Caller, Context
from mgpu.ops.exports import put_apart
from mgpu.ops.render import Json
from mgpu.ops.submit import Submitted, add, asked_for, new_or_known, otherwise, settle, stored_id

MOST = 1000


def submit_many(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Raises as `submit` does, and says of which of them."""
    bodies = _bodies(payload)
    wanted: list[Submitted | tuple[Job, list[str]]] = []
    first: dict[str, tuple[int, str]] = {}  # of each id, where it stands first and for what
    for place, body in enumerate(bodies, 1):
        with _said_of(place, len(bodies)):
            asked = asked_for(body)
            before, known = first.setdefault(stored_id(body, caller), (place, asked))
            if asked != known:
                raise otherwise(body, f"is also that of job {before}, which asks for something else")
            wanted.append(new_or_known(context, caller, body))
    made = _store(context, caller, bodies, wanted)
    return {"jobs": [{"job_id": one.job_id, "notices": one.notices, "created": one.created} for one in made]}


def _store(
    context: Context,
    caller: Caller,
    bodies: list[Mapping[str, Any]],
    wanted: list[Submitted | tuple[Job, list[str]]],
) -> list[Submitted]:
    apart: dict[int, Job] = {}  # by place
    made: list[Submitted] = []
    stored = False
    try:
        for place, one in enumerate(wanted):
            if not isinstance(one, Submitted):
                apart[place] = put_apart(context, one[0])
        with context.store.write() as w:
            for place, one in enumerate(wanted):
                if isinstance(one, Submitted):
                    made.append(one)
                    continue
                with _said_of(place + 1, len(bodies)):
                    made.append(add(context, w, caller, apart[place], one[1], bodies[place]))
        stored = True
    finally:
        settle(context, [(job, made[place] if stored else None) for place, job in apart.items()])
    return made


@contextmanager
def _said_of(place: int, count: int) -> Iterator[None]:
    """What is refused says which of them it is."""
    try:
        yield
    except (RequestError, NotAllowed) as error:
        raise type(error)(f"job {place} of {count}: {error.message}", error.hint) from error


def _bodies(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Raises RequestError."""
    read.only_keys(payload, ("request_id", "jobs"), "the key")
    bodies = payload.get("jobs")
    if not isinstance(bodies, list) or not all(isinstance(body, Mapping) for body in bodies):
        raise RequestError("'jobs' must be a list of submissions")
    if not 1 <= len(bodies) <= MOST:
        raise RequestError(f"{len(bodies)} jobs in one request: 1 to {MOST} are possible", "send them in parts")
    return bodies
