"""Wishes about several jobs at once: those named, or all that pass a filter, in one transaction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mgpu import clock
from mgpu.core import array
from mgpu.core.array import Indices, Reference, parse_reference, shown_id
from mgpu.core.errors import MgpuError, NotAllowed, RequestError
from mgpu.core.model import Job, JobId, JobState
from mgpu.ops.arrays import make_tasks, require_index
from mgpu.ops.audit import TOLD_ONE_BY_ONE, refused_job, refused_jobs
from mgpu.ops.context import Caller, Context, find_job, require_owner
from mgpu.ops.jobs import parse_states
from mgpu.ops.privacy import sight_of
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id
from mgpu.store.filters import JobFilter, Scope
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer

MOST_IDS = 100_000
_TASK = re.compile(r"\b\d+_\d+\b", re.ASCII)


class AlreadyEnded(MgpuError):
    code = "already_ended"

    @classmethod
    def of(cls, job: Job) -> AlreadyEnded:
        return cls(f"job {shown_id(job)} has already ended ({job.state})")


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to each job: `change` does it, or raises MgpuError. `word`: what the audit calls it, `done`: the key
    of the answer that lists them, `may` reads like "cancel it". Without ids, jobs of `scope` and `states` are meant; of
    an array that is named as a whole too. `in_row` does it to tasks of an array that are still to come; None = each
    becomes a job of its own. `gone`: those that were cancelled before they began are meant too. `held`: without ids,
    those alone that are."""

    word: str
    done: str
    may: str
    change: Callable[[Writer, Job, str], None]
    scope: Scope = "active"
    states: tuple[JobState, ...] = ()
    in_row: Callable[[Writer, Job, Indices, str], None] | None = None
    gone: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """`named` that pass the filter; without names all jobs that pass it, and then only the caller's own unless it names
    a user."""

    request_id: str
    named: tuple[Reference, ...]
    wanted: JobFilter


def parse_chosen(payload: Mapping[str, Any], caller: Caller, act: Act) -> Chosen:
    ids = payload.get("ids") or []
    if not isinstance(ids, list) or len(ids) > MOST_IDS:
        raise RequestError("ids must be a list of job numbers")
    words = {name: payload.get(name) or "" for name in ("user", "name", "partition", "states")}
    for name, word in words.items():
        if not isinstance(word, str):
            raise RequestError(f"{name} must be text")
    if payload.get("me"):
        words["user"] = caller.user
    if not ids and not any(words.values()):
        raise RequestError("no jobs were named", "give job numbers, or --me, --user, --state, --name")
    wanted = JobFilter(
        scope="all" if ids else act.scope,
        user=words["user"] or ("" if ids else caller.user),
        partition=words["partition"],
        name=words["name"],
        states=parse_states(words["states"]) or (() if ids else act.states),
        gone=act.gone,
    )
    return Chosen(parse_request_id(payload), tuple(dict.fromkeys(map(parse_reference, ids))), wanted)


def change_chosen(context: Context, caller: Caller, payload: Mapping[str, Any], act: Act) -> Json:
    """What could not be done is an entry of `errors`, not an exception."""
    request = parse_chosen(payload, caller, act)
    allowed = sight_of(context, caller).may_ask(request.wanted)
    if allowed is None:
        return {act.done: [], "errors": []}
    request = replace(request, wanted=allowed)
    mark = f"request {request.request_id}"
    done: dict[JobId | str, None] = {}
    refusals: list[_Refusal] = []
    told: list[JobId] = []
    not_allowed: list[JobId] = []
    with context.store.write() as w:
        for target in _targets(w, request, act, mark):
            try:
                if isinstance(target, _Unknown):
                    raise target.error
                job = find_job(w, target.job.job_id)  # as it is now: it may have been named before
                require_owner(context, caller, job, act.may)
                _change(w, job, target.indices, act, mark)
            except MgpuError as refused:
                refusals.append(_refusal(target, refused))
                if isinstance(target, _Target) and isinstance(refused, NotAllowed):
                    not_allowed.append(target.job.job_id)
                    if len(not_allowed) <= TOLD_ONE_BY_ONE:
                        w.audit(refused_job(caller, act.word, target.job.job_id, refused))
            else:
                done.setdefault(target.shown)
                told.append(target.job.job_id)
        if rest := not_allowed[TOLD_ONE_BY_ONE:]:
            w.audit(refused_jobs(caller, act.word, rest))
    for job_id in told:
        context.spool.notify(job_id)
    if done:
        context.waker.wake()
    return {act.done: list(done), "errors": _errors(refusals, done)}


def _change(writer: Writer, job: Job, indices: Indices, act: Act, mark: str) -> None:
    if not indices:
        act.change(writer, job, mark)
        return
    if act.in_row is not None:
        act.in_row(writer, job, indices, mark)
        return
    indices = array.common(array.to_come(job), indices)
    for task in make_tasks(writer, job, indices, clock.now()):
        act.change(writer, task, mark)


@dataclass(frozen=True, slots=True)
class _Target:
    """A job, or one of an array that was named as a whole; or, of an array, tasks that are still to come, or that are
    `gone`: they never began."""

    job: Job
    indices: Indices = ()
    all_of: JobId | None = None
    gone: bool = False

    @property
    def shown(self) -> JobId | str:
        if self.indices and self.all_of is None:
            return array.render_reference(Reference(self.job.job_id, self.indices))
        return self.all_of or shown_id(self.job)

    def passes(self, states: tuple[JobState, ...]) -> bool:
        return not states or (JobState.CANCELLED if self.gone else self.job.state) in states


@dataclass(frozen=True, slots=True)
class _Unknown:
    shown: JobId | str
    error: MgpuError


class _Refusal(NamedTuple):
    """`task`: of an array, in whose words NUL stands for its name. `all_of`: the array that was named as a whole."""

    shown: JobId | str
    error: dict[str, str]
    task: Job | None = None
    all_of: JobId | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """What those have in common that are told of as one."""
        return (self.task.array_id, self.all_of, *self.error.values()) if self.task else (id(self),)


def _refusal(target: _Target | _Unknown, error: MgpuError) -> _Refusal:
    told = error.as_json()
    if isinstance(target, _Unknown) or target.job.array_id is None or target.indices:
        return _Refusal(target.shown, told)
    name = str(shown_id(target.job))

    def nameless(text: str) -> str:
        return _TASK.sub(lambda found: "\0" if found[0] == name else found[0], text)

    return _Refusal(target.shown, {key: nameless(text) for key, text in told.items()}, target.job, target.all_of)


def _errors(refusals: Sequence[_Refusal], done: Container[JobId | str]) -> list[Json]:
    """Tasks of one array that are refused in the same words are told of as one: of as the array, if all of it was
    named and to none of it was it done."""
    alike: dict[tuple[object, ...], list[_Refusal]] = {}
    for refusal in refusals:
        alike.setdefault(refusal.kind, []).append(refusal)
    of_array = Counter(refusal.all_of for refusal in refusals)
    errors = []
    for group in alike.values():
        first = group[0]
        name = _together([one.task for one in group if one.task])
        if len(group) > 1 and first.all_of is not None and first.all_of not in done:
            name = first.all_of if of_array[first.all_of] == len(group) else name
        told = {key: text.replace("\0", str(name)) for key, text in first.error.items()}
        errors.append({"job_id": first.shown if first.all_of or len(group) == 1 else name, **told})
    return errors


def _together(tasks: Sequence[Job]) -> JobId | str:
    """Of one array; "" = there are none."""
    if not tasks or tasks[0].array_id is None:
        return ""
    indices = array.fold(task.array_index for task in tasks if task.array_index is not None)
    return array.render_reference(Reference(tasks[0].array_id, indices))


def _targets(writer: Writer, request: Chosen, act: Act, mark: str) -> Iterator[_Target | _Unknown]:
    if not request.named:
        for job in writer.jobs(request.wanted):
            if act.held and not job.held:
                continue
            alone = _itself(job, act, False) if job.is_array else [_Target(job)]
            yield from (target for target in alone if target.passes(request.wanted.states))
        return
    found: list[_Target] = []
    for named in request.named:
        try:
            found += _named(writer, named, act, mark)
        except MgpuError as error:
            yield _Unknown(array.render_reference(named), error)
    ids = tuple({target.job.job_id for target in found})
    passing = {job.job_id for job in writer.jobs(replace(request.wanted, ids=ids, states=()))} if ids else set()
    chosen: dict[tuple[JobId, Indices], _Target] = {}
    for target in found:
        if target.job.job_id in passing and target.passes(request.wanted.states):
            chosen.setdefault((target.job.job_id, target.indices), target)
    yield from chosen.values()


def _named(writer: Writer, named: Reference, act: Act, mark: str) -> list[_Target]:
    """Raises NotFound, AlreadyEnded."""
    job = find_job(writer, named.job_id)
    if named.indices is None:
        return _all_of(writer, job, act) if job.is_array else [_Target(job)]
    require_index(job, named.indices)
    coming = array.common(array.to_come(job), named.indices) if job.state is JobState.PENDING else ()
    gone = array.common(array.never_began(job), named.indices) if act.gone else ()
    several = array.count(named.indices) > 1
    if several and coming == array.to_come(job) and coming and act.in_row is None:
        found = [_Target(job)]  # all of them: no need to make them jobs of their own
    else:
        found = [_Target(job, coming)] if coming else []
    found += [_Target(job, gone, gone=True)] if gone else []
    found += [_Target(task) for task in writer.jobs(_tasks(named, act) if several else _tasks(named))]
    if not found and not any(entry.detail == mark for entry in writer.audits(job_id=job.job_id)):
        raise AlreadyEnded(f"job {array.render_reference(named)} has already ended")
    return found


def _all_of(writer: Writer, job: Job, act: Act) -> list[_Target]:
    """An array: its tasks that are still to come, and those that are jobs and that it can be done to."""
    indices = array.array_of(job.spec.array).indices
    named = Reference(job.job_id, (range(indices[0][0], indices[-1][-1] + 1),))
    tasks = [_Target(task, all_of=job.job_id) for task in writer.jobs(_tasks(named, act))]
    return [*_itself(job, act, bool(tasks)), *tasks]


def _itself(job: Job, act: Act, has_tasks: bool) -> list[_Target]:
    """An array without its tasks that are jobs."""
    if act.gone and (gone := array.never_began(job)):
        return [_Target(job, gone, job.job_id, gone=True)]
    waits = job.state is JobState.PENDING
    if act.gone:
        return [_Target(job)] if waits and not has_tasks else []
    return [_Target(job)] if waits or not has_tasks else []


def _tasks(named: Reference, act: Act | None = None) -> JobFilter:
    """Those that are jobs; with an `act` those that it can be done to."""
    if act is None:
        return JobFilter("all", named=(named,))
    return JobFilter(act.scope, states=act.states, named=(named,))


def said_before(reader: Reader, job: Job, what: str, mark: str) -> bool:
    """The same wish again: its first answer got lost."""
    return any(entry.detail == mark for entry in reader.audits(job_id=job.job_id, what=what))
