"""Update: all of it or nothing, checked as a submission is, and manners."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.array import Reference
from mgpu.core.errors import NotAllowed
from mgpu.core.model import JobId, JobState
from mgpu.core.plan import PartitionFacts
from mgpu.ops.context import Caller
from mgpu.ops.submit import submit
from mgpu.ops.update import update as ops_update
from tests.api.conftest import Served, submission

ALICE = Caller(4711, "alice")


def update(served: Served, job_id: int, **body: str) -> tuple[int, Any]:
    return served.ask("POST", f"/v1/jobs/{job_id}/update", {"request_id": "cccccccc", **body})


def test_a_job_that_waits_is_changed_as_a_whole(served: Served) -> None:
    served.restart(config=replace(served.config, partitions={"train": PartitionFacts("train", priority=10)}))
    first, job_id = served.submit("aaaaaaaa"), served.submit("bbbbbbbb", nodelist="gpu02")
    wished = {
        "time": "2:00:00",
        "partition": "train",
        "nodelist": "gpu01",
        "exclude": "gpu02",
        "priority": "5",
        "nice": "2",
        "job_name": "again",
        "begin": "2026-12-01T08:00",
        "dependency": f"afterok:{first}",
    }
    status, answer = update(served, job_id, **wished)
    assert status == 200
    assert answer["changes"][:8] == [
        "time limit 02:00:00",
        "partition train",
        "nodes gpu01",
        "never on gpu02",
        "priority 5",
        "nice 2",
        "name again",
        answer["changes"][7],
    ]
    assert answer["changes"][7].startswith("not before 2026-1")
    assert answer["changes"][8] == f"dependency afterok:{first}"
    job = served.job(job_id)
    assert (job.spec.request.nodelist, job.spec.request.partition, job.spec.standing) == (("gpu01",), "train", 13)
    assert served.ask("GET", "/v1/jobs?name=again&partition=train")[1]["jobs"][0]["job_id"] == job_id
    none = {"time": "none", "nodelist": "none", "exclude": "none", "dependency": "none", "begin": "now"}
    assert update(served, job_id, **none)[0] == 200
    assert update(served, job_id, nodelist="none")[1]["changes"] == ["no nodes named"]
    job = served.job(job_id)
    assert (job.spec.request.nodelist, job.spec.time_limit_s, job.spec.dependency) == ((), None, None)


@pytest.mark.parametrize(
    "bad",
    [
        {"nodelist": "gpu09"},
        {"nodelist": "gpu02", "exclude": "gpu02"},
        {"partition": "nowhere"},
        {"priority": "high"},
        {"nice": "1.5"},
        {"begin": "later"},
        {"dependency": "afterok:99"},
        {"gpus": "4"},
        {"job_name": "a\nb"},
        {"partition": ""},
    ],
)
def test_one_bad_change_and_nothing_changes(served: Served, bad: dict[str, str]) -> None:
    job_id = served.submit()
    before = served.job(job_id)
    assert update(served, job_id, **{"time": "5", "job_name": "other", **bad})[0] == 400
    assert served.job(job_id) == before


def test_nodes_on_which_its_launcher_would_be_told_otherwise_are_refused(served: Served) -> None:
    """torchrun would start two processes on each node for its one GPU there."""
    torchrun = {"form": "argv", "words": ["torchrun", "--nproc-per-node=2", "train.py"]}
    body = submission("aaaaaaaa", gpus="2", launcher="torchrun") | {"command": torchrun}
    job_id = JobId(served.ask("POST", "/v1/jobs", body)[1]["job_id"])
    status, answer = update(served, job_id, nodelist="gpu01,gpu02")
    assert (status, answer["error"]["message"][:55]) == (400, "torchrun's --nproc-per-node is 2, the job has 1 GPU on ")
    assert update(served, job_id, nodelist="gpu02", time="5")[0] == 200


def test_of_one_that_runs_the_limit_alone(served: Served) -> None:
    job_id = served.submit()
    served.start(job_id)
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    status, answer = update(served, job_id, time="5", nice="1")
    assert (status, answer["error"]["message"]) == (400, f"job {job_id} runs: --nice is for jobs that wait")
    assert update(served, job_id, time="5")[0] == 200


def test_nobody_waits_for_themselves(served: Served) -> None:
    first = served.submit("aaaaaaaa", job_name="x")
    second = served.submit("bbbbbbbb", dependency=f"afterok:{first}", job_name="y")
    third = served.submit("dddddddd", dependency=f"after:{second}", job_name="x")

    def refused(job_id: JobId, dependency: str) -> str:
        status, answer = update(served, job_id, dependency=dependency)
        assert status == 400, answer
        return str(answer["error"]["message"])

    assert refused(first, f"afterany:{first}").endswith(f"wait for itself, that is for job {first}")
    way = f"for job {third} for job {second} for job {first}"
    assert refused(first, f"afterok:{third}").endswith(f"job {first} would wait for itself, that is {way}")
    served.change_job(second, state=JobState.COMPLETED)
    assert update(served, first, dependency=f"afterok:{third}")[0] == 200
    assert refused(third, "singleton").endswith(f"that is for job {first} for job {third}")


def test_a_task_does_not_wait_for_its_array(served: Served) -> None:
    array = served.ask("POST", "/v1/jobs", {**submission("aaaaaaaa", array="0-3"), "kind": "batch"})[1]["job_id"]
    after = served.submit("bbbbbbbb", dependency=f"afterok:{array}")
    begun = served.submit("cccccccc", dependency=f"after:{array}")

    def wish(index: int, dependency: str) -> tuple[int, Any]:
        body = {"request_id": "dddddddd", "dependency": dependency}
        return served.ask("POST", f"/v1/jobs/{array}_{index}/update", body)

    for dependency, way in ((f"afterok:{after}", f"{after} for job {array}_2"), (f"afterany:{array}", f"{array}_2")):
        status, answer = wish(2, dependency)
        told = f"--dependency: job {array}_2 would wait for itself, that is for job {way}"
        assert (status, answer["error"]["message"]) == (400, told)
    assert wish(2, f"afterok:{array}_1")[0] == 200
    assert wish(1, f"afterany:{array}_2")[1]["error"]["message"].endswith(f"for job {array}_2 for job {array}_1")
    assert wish(3, f"after:{begun}")[0] == 200  # the array has started without it


def test_manners(served: Served) -> None:
    context = served.context

    def wish(job_id: JobId, caller: Caller = ALICE, **body: str) -> None:
        ops_update(context, caller, Reference(job_id), {"request_id": "cccccccc", **body})

    for options in ({"priority": "1"}, {"nice": "-1"}):
        with pytest.raises(NotAllowed, match="is for admins"):
            submit(context, ALICE, submission("aaaaaaaa", **options))
    job_id = submit(context, ALICE, submission("aaaaaaaa", priority="-5", nice="3")).job_id
    wish(job_id, nice="0", priority="0")
    for options in ({"priority": "1"}, {"nice": "-1"}):
        with pytest.raises(NotAllowed, match="is for admins"):
            wish(job_id, **options)
    wish(job_id, Caller(os.getuid(), "owner"), priority="50", nice="-10")
    wish(job_id, priority="50", nice="-10")  # what it has
    wish(job_id, priority="40", nice="-9")
    with pytest.raises(NotAllowed, match="above 40 is for admins"):
        wish(job_id, priority="41")
    with pytest.raises(NotAllowed, match="bob may not change it"):
        wish(job_id, Caller(4712, "bob"), nice="5")
    admins = replace(context, config=replace(context.config, admins=("alice",)))
    ops_update(admins, ALICE, Reference(job_id), {"request_id": "cccccccc", "priority": "1000"})
    assert served.job(job_id).spec.standing == 1009
