"""When and where a job is expected to start, what would let it start now, and who holds what it waits for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from mgpu import clock
from mgpu.core.array import shown_id, task_name
from mgpu.core.ask import ask_for
from mgpu.core.dependency import NOTHING_WAITED_FOR, Verdict, judge, still_open
from mgpu.core.limits import counts
from mgpu.core.model import Condition, ConditionKind, Dependency, Job, JobId
from mgpu.core.outlook import Expected, ahead_of, expected_starts, in_line, pending
from mgpu.core.plan import Dependent, NodeView, Owner, PlacedPart, Scope, Snapshot
from mgpu.core.schedule import plan
from mgpu.core.sooner import sooner
from mgpu.ops.arrays import read_facts
from mgpu.ops.context import Caller, Context, find_job
from mgpu.ops.privacy import Sight
from mgpu.ops.render import Json, moment
from mgpu.ops.submit import known_facts, read_job
from mgpu.store.filters import JobFilter
from mgpu.store.reading import Reader

Found = TypeVar("Found")
Open = tuple[tuple[JobId, bool], ...]  # as core.dependency.still_open says it
FRESH_S = 5.0  # when jobs are expected to start
PLACES_FRESH_S = 1.0
_SELDOM = 20  # times as long as it takes to reckon something, nobody does
NOBODYS = JobId(1 << 62)  # of a job that is only asked about: behind all others of its rank


def expected(context: Context) -> Mapping[JobId, Expected]:
    """Of the jobs that are next in line."""
    return expected_starts(*context.control.what_if())


class Reckoned(Generic[Found]):
    """What many ask for again and again: reckoned once in a while for all of them. Any thread may ask, and but for the
    one that reckons none is kept waiting: of a long queue that takes its time."""

    def __init__(self, reckon: Callable[[], Found], fresh_s: float) -> None:
        self._reckon = reckon
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._due = -math.inf
        self._found: Found | None = None

    def now(self) -> Found | None:
        """None = somebody reckons for the first time."""
        if clock.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                began = clock.monotonic()
                self._found = self._reckon()
                # from when it was done: where it takes long it is not always at it
                done = clock.monotonic()
                self._due = done + max(self._fresh_s, _SELDOM * (done - began))
            finally:
                self._lock.release()
        return self._found


class Prospects:
    """What those are told who wait for a start, and those who look at the queue."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._starts = Reckoned(self._reckon_starts, FRESH_S)
        self._places = Reckoned(self._reckon_places, PLACES_FRESH_S)
        self._known: Mapping[JobId, int] = {}

    def of(self, job_id: JobId) -> Json:
        """How many stand before it as well."""
        seen = self._starts.now()
        return {"ahead": ahead_of(seen[0], job_id) if seen else None, **self.start_of(job_id)}

    def start_of(self, job_id: JobId) -> Json:
        seen = self._starts.now()
        return told(seen[1].get(job_id) if seen else None)

    def places(self) -> Mapping[JobId, int]:
        """In the queue, of those that wait for their turn or their time; not of those that came just now. The same
        object as long as nothing has moved."""
        return self._places.now() or self._known

    def _reckon_starts(self) -> tuple[Snapshot, Mapping[JobId, Expected]]:
        seen, policies = self._context.control.what_if()
        return seen, expected_starts(seen, policies)

    def _reckon_places(self) -> Mapping[JobId, int]:
        seen, _ = self._context.control.what_if()
        found = {job_id: place for place, job_id in enumerate(in_line(seen))}
        if found != self._known:
            self._known = found
        return self._known


def told(one: Expected | None) -> Json:
    return {
        "expected_start": moment(one.at) if one else None,
        "expected_on": [_place(part) for part in one.parts] if one else [],
    }


def _place(part: PlacedPart) -> Json:
    return {"node": part.node, "devices": list(part.devices)}


def of(context: Context, sight: Sight, job: Job) -> Json:
    """What `why` tells of a job that waits, beside the reasons."""
    seen, policies = context.control.what_if()
    if all(one.job_id != job.job_id for one in pending(seen)):  # held, or behind another job
        return {**told(expected_starts(seen, policies).get(job.job_id)), "ahead": None, "sooner": [], "holders": []}
    ends = {one.job_id: one.until for one in seen.running}
    return {
        **told(expected_starts(seen, policies).get(job.job_id)),
        "ahead": ahead_of(seen, job.job_id),
        "sooner": sooner(seen, job.job_id, policies),
        "holders": _holders(context, sight, _in_its_way(context, job, seen.nodes), ends),
    }


def _in_its_way(context: Context, job: Job, nodes: Sequence[NodeView]) -> list[JobId]:
    """The jobs of which some have to end."""
    wait = context.control.waits().get(job.job_id)
    return _holding(job, nodes) if wait is None or wait.scope is None else _counting(context, wait.scope, nodes)


def _counting(context: Context, scope: Scope, nodes: Sequence[NodeView]) -> list[JobId]:
    """Those that are charged to a limit."""
    partitions = {node.name: node.partitions for node in nodes}
    on: dict[JobId, list[Sequence[str]]] = {}
    with context.store.read() as r:
        for part in r.open_parts():
            if part.state.holds_devices:
                on.setdefault(part.job_id, []).append(partitions.get(part.node, ()))
        jobs = r.jobs(JobFilter(scope="all", ids=tuple(on))) if on else []
    return [
        job.job_id
        for job in jobs
        if counts(scope, Owner(job.user, job.spec.account), job.spec.request.partition, on[job.job_id])
    ]


def _holding(job: Job, nodes: Sequence[NodeView]) -> list[JobId]:
    """The jobs on the nodes that this one could use."""
    ask = ask_for(job.spec.request, nodes, job.avoid)
    allowed = [node for node in nodes if not ask.ruled_out(node)]
    held = [device.job_id for node in allowed for device in node.devices] + [node.exclusive for node in allowed]
    return sorted({job_id for job_id in held if job_id is not None})


def _holders(context: Context, sight: Sight, jobs: Sequence[JobId], ends: Mapping[JobId, float]) -> list[Json]:
    with context.store.read() as r:
        found = sorted((find_job(r, job_id) for job_id in jobs), key=lambda job: job.job_id)
    rows = [
        {
            "job_id": shown_id(job),
            "user": job.user if sight.knows(job.uid) else "",
            "gpus_until": moment(ends.get(job.job_id)),
            "time_limit_s": job.spec.time_limit_s,
        }
        for job in found
    ]
    return sorted(rows, key=lambda row: (row["gpus_until"] is None, row["gpus_until"]))


def test_only(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """When and where the submission would start if it were made now. Raises as `submit` does."""
    job, notices = read_job(context, caller, payload)
    job = replace(job, job_id=NOBODYS)
    verdict, still, untold = _waits_for(context, job)
    answer = {"held": job.held, "waits_for": verdict.detail, "never": verdict.never, "notices": notices}
    if verdict.at is None:
        ends = not (job.held or verdict.never)
        found = _behind(context, job, still) if still and ends else None
        answer["untold"] = untold if ends and found is None else ""
        return {"now": False, **told(found), "sooner": [], **answer}
    job = replace(job, not_before=max(job.not_before, verdict.at))
    seen, policies = context.control.what_if(job)
    found = expected_starts(seen, policies).get(NOBODYS)
    at_once = found is not None and found.at <= seen.now
    if at_once:
        return {"now": True, **told(found), "sooner": [], **answer}
    wait = plan(seen, policies).waits.get(NOBODYS)
    answer |= {"reason": wait.reason, "detail": wait.detail} if wait else {}
    return {"now": False, **told(found), "sooner": sooner(seen, NOBODYS, policies), **answer}


def _behind(context: Context, job: Job, waits_for: Open) -> Expected | None:
    """Of one that waits for others, when these have ended or begun."""
    seen, policies = context.control.what_if(job)
    own = next((one for one in pending(seen) if one.job_id == NOBODYS), None)
    if own is None or job.spec.dependency is None:
        return None
    dependents = (*seen.dependents, Dependent(own, waits_for, job.spec.dependency.either))
    batches = tuple(batch for batch in seen.batches if own not in batch.jobs)
    later = tuple(one for one in seen.later if one is not own)
    seen = replace(seen, batches=batches, later=later, dependents=dependents)
    return expected_starts(seen, policies).get(NOBODYS)


def _waits_for(context: Context, job: Job) -> tuple[Verdict, Open, str]:
    """Of other jobs, which of them, and why it may be that nobody can tell when that is over; it would come behind all
    that are there."""
    named = job.spec.dependency
    if named is None:
        return NOTHING_WAITED_FOR, (), ""
    with context.store.read() as r:
        known_facts(r, named)
        dependency, facts = read_facts(r, named, job.submit_time)
        earlier = r.namesakes(job.uid, job.spec.name) if dependency.singleton else []
        still = _open(r, named)
        namesake = earlier[0][2] if earlier else None
        untold = _untold(
            r,
            [
                one
                for one, way in zip(named.conditions, dependency.conditions, strict=True)
                if judge(replace(dependency, conditions=(way,)), facts, namesake).at is None
            ],
        )
    return judge(dependency, facts, namesake), still, untold


def _untold(reader: Reader, conditions: Iterable[Condition]) -> str:
    """Why nobody can tell when these are met."""
    for condition in conditions:
        job_id, task = condition.job_id, condition.task
        if job_id is None:
            return "which of the earlier jobs of its name ends last, and when, nobody knows"
        name = job_id if task is None else task_name(job_id, task)
        if condition.kind is ConditionKind.AFTERNOTOK:
            return f"whether job {name} fails, and when, nobody knows"
        if condition.delay_s:
            return f"the minutes after the start of job {name} are not reckoned with"
        if task is not None and reader.task(job_id, task) is None:
            return f"task {name} is still to come, and of one task nothing is planned alone"
        if task is None and find_job(reader, job_id).is_array and condition.kind is not ConditionKind.AFTER:
            return f"which task of array {name} ends last, and when, nobody knows"
    return "the end of what it waits for is not known either"


def _open(reader: Reader, dependency: Dependency) -> Open:
    """() as well where it waits for a task that is still to come: of such nothing is planned alone."""
    found = []
    for condition in dependency.conditions:
        if condition.task is None or condition.job_id is None:
            found.append(condition)
            continue
        row = reader.task(condition.job_id, condition.task)
        if row is None:
            return ()
        found.append(replace(condition, job_id=row.job_id, task=None))
    dependency = replace(dependency, conditions=tuple(found))
    return still_open(dependency, reader.facts(dependency.job_ids))
