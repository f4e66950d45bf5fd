"""What a job makes of its GPUs, and what those of a node did, as the API tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu import clock
from mgpu.core.model import AttemptState, DeviceUuid, JobId, JobState
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, Entry, Key, PartUse, bucket_of
from mgpu.store import samples
from tests.api.conftest import NODES
from tests.store.stored_values import attempt, part

ONE, TWO = NODES
GPUS = (DeviceUuid("GPU-0"), DeviceUuid("GPU-1"))
PLACES = {uuid: index for index, uuid in enumerate(GPUS)}


def held(percent: int, memory_mib: int = 512) -> Entry:
    return Entry(2, 2, 0, 0, 2, 2 * percent, memory_mib)


def run(served, minutes: float, *nodes, gpu: int = 0) -> JobId:
    """A job that has run for so long, with one GPU on each of these."""
    job_id, began = served.submit(), clock.now() - 60 * minutes
    served.change_job(job_id, state=JobState.RUNNING, attempt=1, start_time=began)
    with served.store.write() as w:
        parts = [
            part(job_id, gpu, rank=rank, node=node, state=AttemptState.RUNNING, started=began)
            for rank, node in enumerate(nodes)
        ]
        w.add_attempt(attempt(job_id, state=AttemptState.RUNNING), parts)
    return job_id


def put(served, node, ago: int, found: dict[Key, Entry]) -> int:
    """In the minute so many minutes ago."""
    minute = bucket_of(clock.now(), FINE_S) - FINE_S * ago
    with served.store.write() as w:
        samples.put(w, node, {minute: found}, PLACES, clock.now())
    return minute


def test_a_job_on_two_nodes(served):
    job_id = run(served, 10, ONE, TWO)
    others = {Key(GPUS[0], JobId(77)): held(1), Key(GPUS[1], NOBODY): held(2), Key(GPUS[0], NOBODY): held(3)}
    put(served, ONE, 5, {Key(GPUS[0], job_id): held(80, 9000), **others})
    put(served, TWO, 5, {Key(GPUS[0], job_id): held(40, 700)})
    put(served, ONE, 4, {Key(GPUS[0], job_id): Entry(2, 2, 0, 0, 0, 0, None)})
    with served.store.write() as w:
        samples.save_uses(w, [PartUse(job_id, 1, 0, 300.0, 240.0, 30.0, 9000), PartUse(job_id, 1, 1, 100.0, 40.0)])
    status, told = served.ask("GET", f"/v1/jobs/{job_id}/use")
    assert status == 200
    assert [(one["gpus"], one["utilization"], one["memory_mib"]) for one in told["points"]] == [
        (2, 60.0, 9000),
        (1, None, None),
    ]
    assert (told["step_s"], told["attempt"], told["utilization"], told["memory_peak_mib"]) == (60, 1, 70.0, 9000)
    assert told["gpu_hours"] == pytest.approx(2 * 10 / 60, abs=0.01)
    assert (told["idle_gpu_hours"], told["idle_since"]) == (0.008, None)
    assert served.ask("GET", f"/v1/jobs/{job_id}")[1]["use"] == {
        key: told[key] for key in ("utilization", "memory_peak_mib", "idle_gpu_hours")
    }
    assert told["points"][0]["at"].endswith("Z")


def test_a_job_without_samples_or_gpus_or_a_start(served):
    run_without, waits = run(served, 5, ONE), served.submit("1" * 8)
    for job_id in (run_without, waits):
        told = served.ask("GET", f"/v1/jobs/{job_id}/use")[1]
        assert (told["points"], told["utilization"], told["memory_peak_mib"]) == ([], None, None)
        assert served.ask("GET", f"/v1/jobs/{job_id}")[1]["use"] is None
    assert served.ask("GET", "/v1/jobs/999/use")[0] == 404


def test_a_long_job_is_told_by_the_quarter_of_an_hour(served):
    job_id, now = run(served, 30 * 60, ONE), clock.now()
    quarter = bucket_of(now, COARSE_S)
    starts = [quarter - COARSE_S * number for number in (4, 3, 121)]  # the last is before its start
    with served.store.write() as w:
        for start in starts:
            samples.put(w, ONE, {start: {Key(GPUS[0], job_id): held(50)}}, PLACES, now)
            samples.roll(w, ONE, start, now)
    put(served, ONE, 1, {Key(GPUS[0], job_id): held(90)})  # not rolled up yet
    told = served.ask("GET", f"/v1/jobs/{job_id}/use")[1]
    assert told["step_s"] == COARSE_S
    assert [one["utilization"] for one in told["points"]] == [50.0, 50.0, 90.0]


def test_a_requeued_job_is_told_of_by_its_last_attempt(served):
    job_id = run(served, 10, ONE)
    with served.store.write() as w:
        samples.save_uses(w, [PartUse(job_id, 1, 0, 100.0, 100.0)])
    served.change_job(job_id, attempt=2)
    assert served.ask("GET", f"/v1/jobs/{job_id}/use")[1]["utilization"] is None


def test_the_gpus_of_a_node(served):
    put(served, ONE, 3, {Key(GPUS[0], JobId(5)): held(80, 9000), Key(GPUS[1], NOBODY): Entry(2, 0, 2, 0, 2, 60, 4000)})
    put(served, ONE, 2, {Key(GPUS[0], NOBODY): Entry(2, 0, 0, 2, 2, 0, 3)})
    status, told = served.ask("GET", f"/v1/nodes/{ONE}/use?hours=1")
    assert (status, told["node_id"], told["step_s"]) == (200, ONE, 60)
    first, second = told["gpus"]
    assert (first["uuid"], first["index"]) == (GPUS[0], 0)
    assert [(one["utilization"], one["memory_mib"], one["state"]) for one in first["points"]] == [
        (80.0, 9000, "allocated"),
        (0.0, 3, "free"),
    ]
    assert [one["state"] for one in second["points"]] == ["external"]


def test_how_far_a_node_is_looked_back_at(served):
    put(served, ONE, 90, {Key(GPUS[0], NOBODY): held(80)})
    assert served.ask("GET", f"/v1/nodes/{ONE}/use?hours=1")[1]["gpus"] == []
    told = served.ask("GET", f"/v1/nodes/{ONE}/use")[1]
    assert (len(told["gpus"]), told["step_s"]) == (1, 180)
    assert served.ask("GET", f"/v1/nodes/{ONE}/use?hours=840")[1]["step_s"] == 7 * COARSE_S
    for hours in ("0", "x", "-1"):
        assert served.ask("GET", f"/v1/nodes/{ONE}/use?hours={hours}")[0] == 400
    assert served.ask("GET", "/v1/nodes/nowhere/use")[0] == 404


def test_an_idle_job_says_since_when_in_every_row(served):
    job_id = run(served, 50, ONE)
    before = served.ask("GET", "/v1/jobs")[1]["jobs"][0]
    assert before["idle_since"] is None
    with served.store.write() as w:
        (runs,) = w.parts(job_id, 1)
        w.save_part(replace(runs, idle_since=1796112000.0), runs)
    since = "2026-12-01T08:00:00Z"
    rows = [served.ask("GET", path)[1] for path in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/why")]
    rows += [served.ask("GET", "/v1/jobs")[1]["jobs"][0], served.ask("GET", f"/v1/jobs/{job_id}/use")[1]]
    assert [row["idle_since"] for row in rows] == [since] * 4
