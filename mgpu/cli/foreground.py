"""Staying with a job in the foreground: what srun does once it is queued, and attach with one that is there already."""

from __future__ import annotations

from collections.abc import Mapping

from mgpu.cli.follower import Follower
from mgpu.cli.signals import Signals
from mgpu.client.job_stream import JobStream
from mgpu.client.master import Master
from mgpu.lean_typing import Any


def stay(
    master: Master,
    job_id: int | str,
    options: Mapping[str, str | bool],
    rank: int | None = None,
    beginning: Mapping[str, Any] | None = None,
    joins: bool = False,
) -> int:
    """The exit status; raises MasterError. `options` as of Follower; `rank`, `beginning`: what of its output, as of
    JobStream; `joins`: it was not this command that submitted it."""
    with Signals() as signals:
        stream = JobStream(master, job_id, rank, beginning=beginning)
        return Follower(master, job_id, options, signals, stream, joins).run()
