"""Arrays as they are stored: how a task becomes a row, how an array ends, and which job somebody names."""

from __future__ import annotations

from dataclasses import replace

from mgpu.core import array, lifecycle
from mgpu.core.array import Indices, Reference
from mgpu.core.dependency import Fact
from mgpu.core.errors import NotFound, RequestError
from mgpu.core.model import Condition, Dependency, Job, JobId, JobState
from mgpu.ops.context import find_job
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer


def make_task(writer: Writer, of: Job, index: int, now: float) -> Job:
    """The task is a PENDING job of its own from now on; `of` as it is stored."""
    return make_tasks(writer, of, (range(index, index + 1),), now)[0]


def make_tasks(writer: Writer, of: Job, indices: Indices, now: float) -> list[Job]:
    """Of those that are still to come."""
    made = [writer.add_job(array.task_of(of, index))[0] for index in array.each(indices)]
    rest = array.render_indices(array.apart(array.to_come(of), indices))
    writer.save_job(lifecycle.take_out(of, rest, of.dropped or "", now), of)
    return [task for job_id in made if (task := writer.job(job_id)) is not None]


def drop(writer: Writer, of: Job, indices: Indices, now: float) -> None:
    """These tasks, which are still to come, never will."""
    rest = array.render_indices(array.apart(array.to_come(of), indices))
    dropped = array.render_indices(array.together(array.stored_indices(of.dropped or ""), indices))
    writer.save_job(lifecycle.take_out(of, rest, dropped, now), of)
    end_if_over(writer, of.job_id, now)


def revive(writer: Writer, of: Job, indices: Indices, by: str, now: float) -> Job:
    """These tasks, which were cancelled before they began, are to come after all."""
    coming = array.to_come(of) if of.state is JobState.PENDING else ()
    rest = array.render_indices(array.together(coming, indices))
    dropped = array.render_indices(array.apart(array.never_began(of), indices))
    after = lifecycle.revive(of, rest, dropped, by, now)
    writer.save_job(after, of)
    return after


def abandon(writer: Writer, job: Job, detail: str, now: float) -> None:
    """It waits for what can never be; of an array, tasks that have begun go on."""
    if job.is_array and writer.has_active_task(job.job_id):
        drop(writer, job, array.to_come(job), now)
        return
    writer.save_job(lifecycle.abandon(job, detail, now), job)
    if job.array_id is not None:
        end_if_over(writer, job.array_id, now)


def end_if_over(writer: Writer, array_id: JobId, now: float) -> None:
    """To be asked by whoever ends a task, once that is written."""
    if writer.has_active_task(array_id):
        return
    of = writer.job(array_id)
    if of is None or of.state is not JobState.RUNNING:
        return
    state, detail = array.standing(writer.count_tasks(array_id), array.count(array.never_began(of)))
    writer.save_job(lifecycle.end_array(of, state, detail, writer.highest_exit_code(array_id), now), of)


def begin_again(writer: Writer, array_id: JobId) -> None:
    """A task of it that ended is queued again."""
    of = writer.job(array_id)
    assert of is not None
    reopened = lifecycle.reopen_array(of, array.render_indices(array.never_began(of)))
    if reopened is not of:
        writer.save_job(reopened, of)


def find(reader: Reader, named: Reference) -> Job:
    """The one job that is meant. Of a task that is no row yet, or never will be one, the job that it would be, under
    the array's number. Raises NotFound, RequestError."""
    job = find_job(reader, named.job_id)
    if named.indices is None:
        return job
    if array.count(named.indices) != 1:
        raise RequestError(f"one task at a time: {array.task_name(job.job_id, named.indices[0][0])} for one")
    index = named.indices[0][0]
    require_index(job, named.indices)
    return reader.task(job.job_id, index) or _to_be(job, index)


def find_row(writer: Writer, named: Reference, now: float) -> Job:
    """As `find`, but the task becomes a row if it is still to come."""
    job = find_job(writer, named.job_id)
    if named.indices is None or array.count(named.indices) != 1:
        return find(writer, named)
    index = named.indices[0][0]
    return make_task(writer, job, index, now) if array.holds(array.to_come(job), index) else find(writer, named)


def name_rows(writer: Writer, dependency: Dependency, now: float) -> Dependency:
    """Single tasks of arrays that it names become rows, and are named as such. Raises NotFound, RequestError."""

    def named(condition: Condition) -> Condition:
        if condition.task is None or condition.job_id is None:
            return condition
        index = condition.task
        row = find_row(writer, Reference(condition.job_id, (range(index, index + 1),)), now)
        job_id = row.job_id if row.job_id != condition.job_id else _row_of_gone(writer, row, index, now)
        return replace(condition, job_id=job_id, task=None, shown=array.task_name(condition.job_id, index))

    return replace(dependency, conditions=tuple(map(named, dependency.conditions)))


def _row_of_gone(writer: Writer, task: Job, index: int, now: float) -> JobId:
    """A task that was cancelled before it began is a job that ended so, once others wait for it."""
    of = find_job(writer, task.job_id)
    job_id, _ = writer.add_job(replace(task, end_time=of.end_time or now, held="", exit_code=None))
    left = array.render_indices(array.without(array.never_began(of), index))
    writer.save_job(replace(of, dropped=left, rest="" if of.state.final else of.rest), of)
    return job_id


def read_facts(reader: Reader, dependency: Dependency, now: float) -> tuple[Dependency, dict[JobId, Fact]]:
    """What is stored of those that it names, without making anything a row: each condition has a number of its own.
    Raises NotFound, RequestError."""
    facts: dict[JobId, Fact] = {}

    def numbered(number: int, condition: Condition) -> Condition:
        if condition.job_id is None:
            return condition
        index = condition.task
        job = find(reader, Reference(condition.job_id, None if index is None else (range(index, index + 1),)))
        ended = job.end_time or now if job.state.final else None
        facts[JobId(-number)] = Fact(job.state, job.start_time, ended)
        return replace(condition, job_id=JobId(-number), task=None, shown=condition.shown or str(array.shown_id(job)))

    conditions = tuple(numbered(number, condition) for number, condition in enumerate(dependency.conditions, 1))
    return replace(dependency, conditions=conditions), facts


def with_tasks(reader: Reader, job: Job) -> list[Job]:
    """The job; of an array what is still to come of it and the tasks that have not ended, where there are any."""
    tasks = reader.active_tasks(job.job_id) if job.is_array else []
    return tasks if tasks and job.state is not JobState.PENDING else [job, *tasks]


def first_that_waits(reader: Reader, job: Job) -> Job | None:
    """Of an array whose tasks are all jobs by now, where none runs and some wait: so does the array, as the first."""
    if not job.is_array or job.state is not JobState.RUNNING:
        return None
    tasks = reader.active_tasks(job.job_id)
    return tasks[0] if tasks and all(task.state is JobState.PENDING for task in tasks) else None


def require_index(job: Job, indices: Indices) -> None:
    """Raises NotFound unless the array has all of these."""
    if not job.is_array:
        name = array.shown_id(job)
        what = "no array" if name == job.job_id else f"task {name} of an array"
        raise NotFound(f"job {job.job_id} is {what}: it has no tasks", f"name it {name}")
    there = array.array_of(job.spec.array).indices
    if missing := array.apart(indices, there):
        raise NotFound(
            f"array {job.job_id} has no task {array.render_indices(missing)}",
            f"its tasks are {array.render_indices(there)}",
        )


def is_next(reader: Reader, job: Job) -> bool:
    """A job of its own, or the first of the tasks that are still to come: what is told of the array is told of it."""
    if job.job_id != job.array_id:
        return True
    coming = array.to_come(find_job(reader, job.array_id))
    return bool(coming) and coming[0][0] == job.array_index


def _to_be(of: Job, index: int) -> Job:
    task = array.task_of(of, index)
    if array.holds(array.never_began(of), index):
        return replace(task, state=JobState.CANCELLED, reason="Cancelled", detail="cancelled before it began")
    return task
