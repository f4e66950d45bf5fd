"""The planner against cases that are written out in golden/*.yaml: nodes, jobs, and what must come of them.

A node is its GPUs, a letter each (`cluster.LETTERS`; `h` belongs to the running job that names it, if one does), or a
mapping with `gpus` and fields of NodeView. A job is its request and scheduling fields; `t` is its limit in seconds.
Dependents wait for the end of others or, where it says true, for their beginning.
Times count from now. Of `starts`, `waits`, `expected` and `sooner` those that are written down are compared, whole;
a wait is its reason, then words that its detail holds; `nodes` are words of each node's reason.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import job, node, snapshot

from mgpu.core.claims import Claim, claim_of, share_of
from mgpu.core.model import DeviceUuid, JobId, NodeName, Request
from mgpu.core.outlook import expected_starts
from mgpu.core.plan import Dependent, DeviceState, NodeView, PendingJob, Running, Snapshot
from mgpu.core.schedule import plan
from mgpu.core.sooner import sooner

NOW = 1000.0
DAY_S = 86_400
FILES = sorted(Path(__file__).with_name("golden").glob("*.yaml"))
CASES = [(f"{file.stem}: {case['name']}", case) for file in FILES for case in yaml.safe_load(file.read_text())]


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def view(name: str, told: Any, running: dict[int, Any]) -> NodeView:
    fields = {"gpus": told} if isinstance(told, str) else dict(told)
    there = Claim(fields.pop("cpus", None), fields.pop("host_memory_mib", None))
    made = node(name, fields.pop("gpus"), **{key: tuples(value) for key, value in fields.items()})
    share = share_of(there, len(made.devices))
    held = {}
    claims = []
    for number, one in running.items():
        indices = one["holds"].get(name)
        if indices is None:
            continue
        held.update(dict.fromkeys(indices, JobId(number)))
        request = Request(cpus=one.get("cpus"), host_memory_mib=one.get("host_memory_mib"))
        claims.append((JobId(number), claim_of(request, len(indices), share)))
    devices = tuple(
        device._replace(
            state=DeviceState.ALLOCATED,
            reason=f"held by job {held[device.index]}",
            job_id=held[device.index],
        )
        if device.index in held
        else device
        for device in made.devices
    )
    jobs = sum(name in one["holds"] for one in running.values())
    return made._replace(devices=devices, there=there, share=share, claims=tuple(claims), jobs=jobs or made.jobs)


def pending(number: int, told: dict[str, Any]) -> PendingJob:
    fields = {key: tuples(value) for key, value in told.items()}
    limit = fields.pop("t", None)
    made = job(number, **fields)
    return made._replace(span_s=float(limit or DAY_S), unlimited=limit is None)


def ended(number: int, one: dict[str, Any]) -> Running:
    parts = tuple(
        (NodeName(name), tuple(DeviceUuid(f"GPU-{name}-{index}") for index in indices))
        for name, indices in one["holds"].items()
    )
    return Running(JobId(number), NOW + one["until"], parts, one.get("array"))


def dependent(number: int, told: dict[str, Any]) -> Dependent:
    others = tuple((JobId(other), begins) for other, begins in told["waits_for"].items())
    return Dependent(pending(number, told["job"]), others)


def read(case: dict[str, Any]) -> Snapshot:
    running = case.get("running", {})
    nodes = [view(name, told, running) for name, told in case["nodes"].items()]
    jobs = [pending(number, told) for number, told in case["jobs"].items()]
    ends = tuple(ended(number, one) for number, one in running.items() if "until" in one)
    behind = tuple(dependent(number, told) for number, told in case.get("dependents", {}).items())
    return snapshot(
        nodes, *jobs, running=ends, dependents=behind, tasks=Counter(one.array for one in ends if one.array)
    )


def parts(placed: Any) -> str:
    return " ".join(f"{part.node}:{','.join(map(str, part.devices))}" for part in placed)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_golden(case: dict[str, Any]) -> None:
    seen = read(case)
    made = plan(seen)
    if "starts" in case:
        assert {int(start.job_id): parts(start.parts) for start in made.starts} == case["starts"]
    for number, (reason, *words) in case.get("waits", {}).items():
        wait = made.waits[JobId(number)]
        assert wait.reason == reason
        assert [word for word in words if word not in wait.detail] == [], wait.detail
    for number, nodes in case.get("reasons", {}).items():
        said = dict(made.waits[JobId(number)].nodes)
        assert {name: word for name, word in nodes.items() if word not in said[NodeName(name)]} == {}, said
    if "expected" in case:
        found = expected_starts(seen)
        assert {int(number): [one.at - NOW, parts(one.parts)] for number, one in found.items()} == case["expected"]
    for number, words in case.get("sooner", {}).items():
        assert sooner(seen, JobId(number)) == words
