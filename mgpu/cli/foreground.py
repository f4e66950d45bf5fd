"""Staying with a job in the foreground: what srun does once it is queued, and attach with one that is there already."""

from __future__ import annotations

import os

from mgpu.cli.follower import Follower
from mgpu.cli.given import NOTHING, Given
from mgpu.cli.leave import STOPPED_FOLLOWING
from mgpu.cli.session import Session
from mgpu.cli.signals import Signals
from mgpu.client.http import MasterError
from mgpu.client.job_stream import JobStream
from mgpu.client.stdin import Stdin
from mgpu.lean.typing import Any, Mapping, NamedTuple
from mgpu.wording.jobs import ACTIVE


class Part(NamedTuple):
    """Of a job's output, as JobStream has them."""

    rank: int | None = None
    beginning: Mapping[str, Any] | None = None


def stay(
    session: Session,
    signals: Signals,
    job_id: int | str,
    options: Mapping[str, str | bool],
    part: Part,
    joins: bool = False,
    given: Given = NOTHING,
) -> int:
    """The exit status; raises MasterError. `signals` are caught already; `options` as of Follower; `part`: what of its
    output; `joins`: it was not this command that submitted it; `given`: what it is to read."""
    terminal, stdin = None, None
    if given.typed:
        from mgpu.cli.terminal import Terminal

        terminal = Terminal(given.descriptor, "" if joins else given.input)
        stdin = terminal.stdin
    elif given.input:
        stdin = Stdin(given.descriptor, again=given.again)
    master = session.master()
    waits_in_sight = os.isatty(2) and not options.get("quiet")
    wishes = ("session", "prospects") if waits_in_sight else ("session",)
    stream = JobStream(master, job_id, part.rank, beginning=part.beginning, wishes=wishes)
    stream.stdin = stdin
    follower = Follower(master, job_id, options, signals, stream, joins, terminal)
    if session.status_file is None:
        return follower.run()
    session.status_file.begun(follower.job)
    try:
        status = follower.run()
    except MasterError as error:
        session.status_file.tell(follower.job, error.exit_code, error.as_json())
        raise
    session.status_file.tell(follower.job, status, why_left(follower, status))
    return status


def why_left(follower: Follower, status: int) -> dict[str, str] | None:
    """Of a job that did not end by itself, or at all: for the status file."""
    if not follower.left:
        return None
    if follower.job["state"] in ACTIVE:
        return {"code": "not_followed", "message": follower.left, "hint": f"mgpu attach {follower.job['job_id']}"}
    if status == STOPPED_FOLLOWING and not follower.job.get("start_time"):
        return {"code": "not_started", "message": follower.left, "hint": ""}
    return None  # it began just then, or only output of it is missing
