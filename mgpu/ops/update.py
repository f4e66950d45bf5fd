"""The wish that a job is another than it was submitted: checked as a submission is, stored as a whole or not at all.

Of a job that runs only the limit can be changed; the master tells its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, NamedTuple

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.array import Reference, shown_id
from mgpu.core.ask import ask_for
from mgpu.core.dependency import parse_dependency, render_dependency
from mgpu.core.errors import RequestError
from mgpu.core.hostlist import fold
from mgpu.core.launchers import settle
from mgpu.core.model import Dependency, Job, JobSpec, JobState
from mgpu.core.partitions import admit, new_limit
from mgpu.core.plan import NodeView
from mgpu.core.request import MAX_PRIORITY, parse_names
from mgpu.core.shape import check_shape
from mgpu.core.timelimit import render_time_limit
from mgpu.ops.arrays import find_row, name_rows, with_tasks
from mgpu.ops.begin import parse_begin
from mgpu.ops.chosen import AlreadyEnded
from mgpu.ops.circles import way_back
from mgpu.ops.context import Caller, Context, require_owner
from mgpu.ops.render import Json, moment
from mgpu.ops.submit import known_facts, parse_request_id, require_manners
from mgpu.ops.zone import zone_named
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer

_PLACE = ("time", "partition", "nodelist", "exclude")
_CHANGES = (*_PLACE, "priority", "nice", "job_name", "begin", "dependency")
_NONE = "none"  # no nodes named, no dependency


class _Wish(NamedTuple):
    """`options` as typed, those alone that were given."""

    context: Context
    caller: Caller
    options: read.Options
    views: Sequence[NodeView]
    zone: tzinfo | None


def update(context: Context, caller: Caller, named: Reference, payload: Mapping[str, Any]) -> Json:
    """The limit counts from the start of the job. Of an array all is meant that waits, and for a limit alone what runs
    too. Raises RequestError, NotAllowed, NotFound, AlreadyEnded."""
    read.only_keys(payload, ("request_id", "zone", *_CHANGES), "the key")
    request_id = parse_request_id(payload)
    options = read.Options({name: payload[name] for name in _CHANGES if payload.get(name) is not None})
    read.not_empty(options, _CHANGES)
    for name in options:
        options[name] = read.line(options, name).strip()
    if not options:
        raise RequestError("nothing to change was named", "give --time LIMIT, none removes it; or another option")
    wish = _Wish(context, caller, options, context.control.views(), zone_named(payload.get("zone")))
    with context.store.write() as w:
        job = find_row(w, named, clock.now())
        require_owner(context, caller, job, "change it")
        jobs = _meant(with_tasks(w, job), options)
        for one in jobs:
            if one.state.final:
                raise AlreadyEnded.of(one)
            after = _waiting(w, one, wish) if one.state is JobState.PENDING else _running(w, one, wish)
            w.save_job(after, one)
        said = [_said(name, after) for name in options]
        detail = f"{'; '.join(said)}, request {request_id}"
        w.audit(caller.entry("update", job_id=job.job_id, detail=detail))
    for one in jobs:
        context.spool.notify(one.job_id)
    context.waker.wake()
    return {"job_id": shown_id(job), "time_limit_s": after.spec.time_limit_s, "changes": said}


def _meant(jobs: list[Job], options: Mapping[str, Any]) -> list[Job]:
    """Of an array's tasks those that wait, where there is more to change than a limit."""
    waiting = [job for job in jobs if job.state is JobState.PENDING]
    return waiting if waiting and options.keys() != {"time"} else jobs


def _running(reader: Reader, job: Job, wish: _Wish) -> Job:
    other = next((read.spoken(wish.options, name) for name in wish.options if name != "time"), "")
    if other:
        raise RequestError(f"job {shown_id(job)} runs: {other} is for jobs that wait", "of one that runs, give --time")
    where = {part.node for part in reader.parts(job.job_id, job.attempt)}
    there = [view for view in wish.views if view.name in where]
    limit = new_limit(wish.options["time"], job.spec.request, there, wish.context.config.partitions, job.user)
    return replace(job, spec=replace(job.spec, time_limit_s=limit))


def _waiting(writer: Writer, job: Job, wish: _Wish) -> Job:
    options, spec = wish.options, job.spec
    if any(name in options for name in _PLACE):
        spec = _placed(job, wish)
    if "priority" in options or "nice" in options:
        spec = _ranked(spec, wish)
    if "job_name" in options:
        spec = replace(spec, name=read.line(options, "job_name", 255))
    if "dependency" in options:
        spec = replace(spec, dependency=_dependency(writer, job, options["dependency"]))
    job = replace(job, spec=spec)
    if "begin" in options:
        # of a job that was tried before, too: it is no pause of ours then
        job = replace(job, not_before=parse_begin(options["begin"], clock.now(), wish.zone), reason="")
    return job


def _placed(job: Job, wish: _Wish) -> JobSpec:
    """Where, and how long."""
    options, request = wish.options, job.spec.request
    named = read.Options({name: text for name, text in options.items() if text.lower() != _NONE})
    if "nodelist" in options:
        request = replace(request, nodelist=parse_names(named, "nodelist", "-w", wish.views))
    if "exclude" in options:
        request = replace(request, exclude=parse_names(named, "exclude", "-x", wish.views))
    if "partition" in options:
        request = replace(request, partition=",".join(dict.fromkeys(filter(None, options["partition"].split(",")))))
    time = options.get("time") or render_time_limit(job.spec.time_limit_s)
    admission = admit(request, time, wish.views, wish.context.config.partitions, job.user)
    request = replace(request, partition=admission.partition)
    check_shape(request)
    ask = ask_for(request, wish.views)
    if ask.impossible:
        raise RequestError(ask.impossible)
    if options.keys() - {"time"}:
        # its numbers may be others than those there
        settle(job.spec.launcher, job.spec.command, ask.sizes, job.spec.tasks_per_node)
    tier = admission.priority if "partition" in options else job.spec.tier
    return replace(job.spec, request=request, time_limit_s=admission.time_limit_s, tier=tier)


def _ranked(spec: JobSpec, wish: _Wish) -> JobSpec:
    options = wish.options
    priority = read.whole(options, "priority", "--priority", -MAX_PRIORITY, MAX_PRIORITY)
    nice = read.whole(options, "nice", "--nice", -MAX_PRIORITY, MAX_PRIORITY)
    after = replace(
        spec,
        priority=spec.priority if priority is None else priority,
        nice=spec.nice if nice is None else nice,
    )
    require_manners(wish.context, wish.caller, after, most=max(0, spec.priority), least=min(0, spec.nice))
    return after


def _dependency(writer: Writer, job: Job, text: str) -> Dependency | None:
    if text.lower() == _NONE:
        return None
    before = job.spec.dependency
    dependency = parse_dependency(text, keep=before is not None and before.keep)
    dependency = name_rows(writer, dependency, clock.now())
    known_facts(writer, dependency)
    if way := way_back(writer, job, dependency):
        raise RequestError(f"--dependency: {way}")
    return dependency


def _said(name: str, job: Job) -> str:
    """A change in words."""
    spec, request = job.spec, job.spec.request
    if name == "time":
        limit = spec.time_limit_s
        return "no time limit" if limit is None else f"time limit {render_time_limit(limit)}"
    if name == "dependency":
        return f"dependency {render_dependency(spec.dependency)}" if spec.dependency else "no dependency"
    return {
        "partition": f"partition {request.partition or 'any'}",
        "nodelist": f"nodes {fold(request.nodelist)}" if request.nodelist else "no nodes named",
        "exclude": f"never on {fold(request.exclude)}" if request.exclude else "no nodes excluded",
        "priority": f"priority {spec.priority}",
        "nice": f"nice {spec.nice}",
        "job_name": f"name {spec.name}",
        "begin": f"not before {moment(job.not_before)}",
    }[name]
