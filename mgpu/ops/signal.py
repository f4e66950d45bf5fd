"""A signal for what runs: to the job's own processes, as Slurm's `scancel --signal` sends it.

The shell of a batch script is spared while it runs something else: most signals would end it, and with it the job,
where they are meant for the program. Who means the shell (`trap` in the script) says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu.core import payload as read
from mgpu.core.array import shown_id
from mgpu.core.errors import MgpuError, RequestError
from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.model import CommandForm, Job, JobId, JobKind, JobState
from mgpu.core.signals import RANK_0, parse_signal, signal_name
from mgpu.ops.chosen import Act, AlreadyEnded, change_chosen, said_before
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id
from mgpu.store.writing import Writer

WHAT = "signal"


def signal(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """`batch`: to the first process alone; `full`: to all."""
    number = parse_signal(read.text(payload, "signal", 32))
    batch, full = read.flag(payload, "batch"), read.flag(payload, "full")
    wanted: list[Job] = []
    reached: set[JobId | str] = set()
    arrays: set[JobId] = set()

    def change(writer: Writer, job: Job, mark: str) -> None:
        if job.is_array and job.state is JobState.PENDING:
            arrays.add(job.job_id)  # those of its tasks that run are named as well
            return
        _require_running(job)
        if said_before(writer, job, WHAT, mark):
            reached.update(_names(job))
        else:
            wanted.append(job)

    answer = change_chosen(
        context, caller, payload, Act(WHAT, "signalled", "signal it", change, states=(JobState.RUNNING,))
    )
    came = context.control.signal([(job.job_id, f"{_whom(job, batch, full)}{number}") for job in wanted])
    mark = f"request {parse_request_id(payload)}"
    with context.store.write() as w:
        for job in wanted:
            if came[job.job_id]:
                error = MgpuError(f"job {shown_id(job)} did not get {signal_name(number)}: {came[job.job_id]}")
                answer["errors"].append({"job_id": shown_id(job), **error.as_json()})
            else:
                reached.update(_names(job))
                w.audit(caller.entry(WHAT, job_id=job.job_id, detail=mark))
    for array_id in sorted(arrays - reached):
        waits = RequestError(f"no task of job {array_id} runs: there is nothing to signal")
        answer["errors"].append({"job_id": array_id, **waits.as_json()})
    answer["signalled"] = [name for name in answer["signalled"] if name in reached]
    return answer


def _require_running(job: Job) -> None:
    if job.state.final:
        raise AlreadyEnded.of(job)
    if job.state is not JobState.RUNNING:
        raise RequestError(f"job {shown_id(job)} waits: there is nothing to signal", "`mgpu cancel` takes it back")


def _names(job: Job) -> set[JobId | str]:
    """What it may be called in the answer: by its array too."""
    return {shown_id(job), *([job.array_id] if job.array_id is not None else [])}


def _whom(job: Job, batch: bool, full: bool) -> str:
    argv = job.spec.command.form is CommandForm.ARGV
    if ends_with_rank_0(job) and not full:
        # mpirun passes it on to its ranks; daemons on the other nodes would die of it
        return f"{RANK_0}B:" if batch or argv else f"{RANK_0}S:"
    return "B:" if batch else "S:" if job.spec.kind is JobKind.BATCH and not (argv or full) else ""
