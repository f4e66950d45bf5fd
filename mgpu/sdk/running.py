"""A job in the foreground: its output on the way to whoever ran it, its end, and an end of it where we cannot stay."""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing, suppress
from typing import Any, NamedTuple, Protocol

from mgpu import clock
from mgpu.client.http import MasterError
from mgpu.client.stdin import Stdin
from mgpu.sdk.following import Followed
from mgpu.sdk.values import Completed, Job, Kind, Output, Submitted, read


class Canceller(Protocol):
    def cancel(self, *jobs: Any) -> Any: ...


class How(NamedTuple):
    """What it is given to read; whether its output is kept; how long it may take."""

    input: bytes | None
    capture: bool
    timeout_s: float | None


def given(input: bytes | None, capture: bool, timeout_s: float | None) -> How:
    """Before anything is queued: raises TypeError for what can be none of these."""
    if isinstance(input, str):
        raise TypeError("input: a job reads bytes, so give it bytes: input=text.encode()")
    read = None if input is None else bytes(memoryview(input))
    return How(read, capture, timeout_s)


def follow_to_the_end(
    client: Canceller,
    followed: Followed,
    job: Submitted,
    how: How,
) -> Completed:
    """Raises TimeoutError. Whatever ends this before the job has ended cancels that."""
    try:
        sinks = Sinks(how.capture)
        with closing(followed), tempfile.TemporaryFile() as file:
            if how.input is not None:
                file.write(how.input)
                file.seek(0)
                followed.give(Stdin(file.fileno(), again=not job.created))
            ended = _end(followed, job, sinks, how.timeout_s)
    except BaseException:
        with suppress(MasterError):  # it has ended just now, or nobody is there to be told
            client.cancel(job.job_id)
        raise
    return Completed(ended, ended.exit_status, sinks.kept("stdout"), sinks.kept("stderr"))


def _end(followed: Followed, job: Submitted, sinks: Sinks, timeout_s: float | None) -> Job:
    deadline = None if timeout_s is None else clock.monotonic() + timeout_s
    with closing(followed.items()) as items:
        for item in items:
            if isinstance(item, Output):
                sinks.write(item)
            elif item is not None and item.name == "end":
                return read(Job.of, item.body["job"])
            if deadline is not None and clock.monotonic() >= deadline:
                raise TimeoutError(f"job {job.job_id} did not end within {timeout_s:g} s: it was cancelled")
    raise InterruptedError(f"job {job.job_id} is not followed any more: it was cancelled")


class Sinks:
    """Where output goes: kept, or to ours as it comes."""

    def __init__(self, capture: bool) -> None:
        self._kept: dict[Kind, bytearray] | None = {"stdout": bytearray(), "stderr": bytearray()} if capture else None

    def write(self, item: Output) -> None:
        if self._kept is not None:
            self._kept[item.kind] += item.data
            return
        stream: Any = sys.stdout if item.kind == "stdout" else sys.stderr
        raw = getattr(stream, "buffer", None)
        if raw is None:  # a notebook's, or a test's
            stream.write(item.data.decode("utf-8", "replace"))
        else:
            stream.flush()
            raw.write(item.data)
        stream.flush()

    def kept(self, kind: Kind) -> bytes:
        return bytes(self._kept[kind]) if self._kept is not None else b""
