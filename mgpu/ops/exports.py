"""Exported values: kept from the submission until the job is over, and no longer."""

from __future__ import annotations

from dataclasses import replace

from mgpu.core.array import shown_id
from mgpu.core.errors import RequestError
from mgpu.core.model import Job
from mgpu.ops.context import Context


def put_apart(context: Context, job: Job) -> Job:
    """The job with the name of its values in place of them. Raises StoreError."""
    if not job.spec.env:
        return job
    return replace(job, spec=replace(job.spec, env={}, exports=context.store.exports.keep(job.spec.env)))


def require_still_there(context: Context, job: Job) -> None:
    """Of a job that is to run once more."""
    if job.spec.exports and not context.store.exports.has(job.spec.exports):
        what = f"the exported values of job {shown_id(job)} went when it was over"
        raise RequestError(what, "submit it again, or have it read them on the node with --export-file")


def tidy(context: Context) -> None:
    """As the master begins, when nobody can submit yet: away with what no job needs any more; and what older versions
    stored in the rows of jobs that are not over is put apart."""
    with context.store.write() as w:
        for job in w.with_values():
            w.save_job(put_apart(context, job), job)
        needed = w.exported()
    context.store.exports.forget(needed)
