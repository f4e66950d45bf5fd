"""Requeue: what may run once more, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.core.model import AttemptState, JobId, JobState
from mgpu.core.waits import held
from mgpu.ops import requeue as ops_requeue
from mgpu.ops.context import Caller
from tests.api.conftest import Served, submission


def batch(served: Served, request_id: str, **options: Any) -> JobId:
    body = {**submission(request_id), "kind": "batch", "options": options}
    return JobId(served.ask("POST", "/v1/jobs", body)[1]["job_id"])


def requeue(served: Served, request_id: str = "cccccccc", **body: Any) -> Any:
    return served.ask("POST", "/v1/requeue", {"request_id": request_id, **body})[1]


def test_one_that_ended_waits_again_and_keeps_its_attempts(served: Served) -> None:
    job_id = batch(served, "aaaaaaaa")
    [part] = served.start(job_id)
    served.change_part(part, state=AttemptState.ENDED, ended=9.0, exit_code=3)
    served.change_job(job_id, state=JobState.FAILED, attempt=1, start_time=5.0, end_time=9.0, exit_code=3, failures=2)
    for _ in range(2):  # the first answer got lost
        assert requeue(served, ids=[job_id]) == {"requeued": [job_id], "errors": []}
    shown = served.ask("GET", f"/v1/jobs/{job_id}")[1]
    assert (shown["state"], shown["attempt"], shown["exit_code"], shown["end_time"]) == ("PENDING", 1, None, None)
    assert [attempt["attempt"] for attempt in shown["attempts"]] == [1]
    assert shown["detail"].startswith("queued again by ")
    again = requeue(served, "dddddddd", ids=[job_id])
    assert again["errors"][0]["message"] == f"job {job_id} waits already"


def test_of_one_that_runs_the_wish_is_stored(served: Served) -> None:
    job_id = batch(served, "aaaaaaaa")
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    assert requeue(served, ids=[job_id], hold=True)["requeued"] == [job_id]
    job = served.job(job_id)
    assert (job.state, job.stop[:11], job.held[:14]) == (JobState.RUNNING, "RESTART by ", "JobHeldUser by")
    served.ask("POST", "/v1/cancel", {"request_id": "dddddddd", "ids": [job_id]})
    assert served.job(job_id).stop.startswith("CANCEL by ")
    refused = requeue(served, "eeeeeeee", ids=[job_id])["errors"][0]["message"]
    assert refused.startswith(f"job {job_id} is being ended (CANCEL by ")


def test_by_state_ones_own_alone(served: Served) -> None:
    failed, theirs, done = (batch(served, letter * 8) for letter in "abd")
    served.change_job(failed, state=JobState.FAILED, attempt=1)
    served.change_job(theirs, state=JobState.FAILED, attempt=1, user="bob", uid=4711)
    served.change_job(done, state=JobState.COMPLETED, attempt=1)
    assert requeue(served, states="FAILED,TIMEOUT") == {"requeued": [failed], "errors": []}
    status, answer = served.ask("POST", "/v1/requeue", {"request_id": "eeeeeeee", "user": "bob"})
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    answer = ops_requeue.requeue(served.context, Caller(4713, "mallory"), {"request_id": "eeeeeeee", "ids": [done, 99]})
    assert [error["code"] for error in answer["errors"]] == ["not_found", "not_allowed"]


def test_an_array_runs_again_with_its_tasks(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-3")
    served.ask("POST", "/v1/cancel", {"request_id": "dddddddd", "ids": [f"{array_id}_[2-3]"]})
    for index in (0, 1):
        served.ask("POST", "/v1/hold", {"request_id": "eeeeeeee", "ids": [f"{array_id}_{index}"]})  # now it is a row
    served.ask("POST", "/v1/cancel", {"request_id": "ffffffff", "ids": [f"{array_id}_[0-1]"]})
    assert served.job(array_id).state is JobState.CANCELLED
    assert requeue(served, ids=[f"{array_id}_1"])["requeued"] == [f"{array_id}_1"]
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped, array.end_time) == (JobState.RUNNING, "", "2-3", None)
    served.ask("POST", "/v1/cancel", {"request_id": "abababab", "ids": [array_id]})
    assert served.job(array_id).state is JobState.CANCELLED
    # all of them once more, those that never were jobs too
    for _ in range(2):  # the first answer got lost
        assert requeue(served, "acacacac", ids=[array_id]) == {"requeued": [array_id], "errors": []}
    tasks = served.ask("GET", "/v1/jobs?scope=active")[1]["jobs"]
    assert [job["job_id"] for job in tasks] == [array_id, f"{array_id}_0", f"{array_id}_1"]
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped) == (JobState.PENDING, "2-3", "")


def test_tasks_that_never_began_come_after_all(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-9%1")
    served.ask("POST", "/v1/cancel", {"request_id": "dddddddd", "ids": [f"{array_id}_[3-5,8]"]})
    assert requeue(served, "a1a1a1a1", ids=[f"{array_id}_8"])["requeued"] == [f"{array_id}_8"]
    waits = requeue(served, "a2a2a2a2", ids=[f"{array_id}_[0-1]"])["errors"][0]["message"]
    assert waits == f"job {array_id}_[0-1] waits already"
    array = served.job(array_id)
    assert (array.rest, array.dropped) == ("0-2,6-9", "3-5")
    assert requeue(served, "a3a3a3a3", ids=[f"{array_id}_3"], hold=True)["errors"] == []  # alone it is a job, and held
    held = served.ask("GET", f"/v1/jobs/{array_id}_3")[1]
    assert (held["state"], bool(held["held"]), served.job(array_id).held) == ("PENDING", True, "")
    served.ask("POST", "/v1/cancel", {"request_id": "eeeeeeee", "ids": [array_id]})
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped) == (JobState.CANCELLED, "", "0-2,4-9")
    assert requeue(served, "a4a4a4a4", ids=[array_id], states="FAILED") == {"requeued": [], "errors": []}
    assert requeue(served, "a5a5a5a5", ids=[f"{array_id}_[4,7]"])["requeued"] == [f"{array_id}_[4,7]"]
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped) == (JobState.PENDING, "4,7", "0-2,5-6,8-9")
    assert requeue(served, "a6a6a6a6", states="CANCELLED")["requeued"] == [array_id, f"{array_id}_3"]
    assert (served.job(array_id).rest, served.job(array_id).dropped) == ("0-2,4-9", "")


def test_by_a_filter_an_array_is_named_if_something_is_done(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-3")
    served.ask("POST", "/v1/hold", {"request_id": "eeeeeeee", "ids": [f"{array_id}_0"]})  # now it is a row
    answer = requeue(served, "a1a1a1a1", states="PENDING")
    assert answer["requeued"] == []
    assert {error["message"] for error in answer["errors"]} == {
        f"job {name} waits already" for name in (array_id, f"{array_id}_0")
    }
    served.ask("POST", "/v1/cancel", {"request_id": "ffffffff", "ids": [array_id]})
    answer = requeue(served, "a2a2a2a2", states="CANCELLED")
    assert answer == {"requeued": [array_id, f"{array_id}_0"], "errors": []}


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FAILED])
def test_by_state_tasks_that_never_began_whatever_became_of_the_array(served: Served, state: JobState) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-3")
    served.ask("POST", "/v1/hold", {"request_id": "eeeeeeee", "ids": [f"{array_id}_0"]})  # now it is a row
    task = JobId(served.ask("GET", f"/v1/jobs/{array_id}_0")[1]["number"])
    served.ask("POST", "/v1/cancel", {"request_id": "ffffffff", "ids": [f"{array_id}_[1-3]"]})
    served.change_job(task, state=state, attempt=1)
    served.change_job(array_id, state=state)
    assert requeue(served, "a1a1a1a1", states="TIMEOUT")["requeued"] == []
    assert requeue(served, "a2a2a2a2", states="CANCELLED") == {"requeued": [array_id], "errors": []}
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped) == (JobState.PENDING, "1-3", "")
    assert served.job(task).state is state


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.COMPLETED])
def test_what_would_close_a_circle_is_refused(served: Served, state: JobState) -> None:
    first = batch(served, "aaaaaaaa")
    second = batch(served, "bbbbbbbb", dependency=f"afterok:{first}")
    array_id = batch(served, "dddddddd", array="0-1", dependency=f"afterok:{second}")
    after = batch(served, "eeeeeeee", dependency=f"afterany:{array_id}")
    served.change_job(second, state=state, attempt=1)
    served.ask("POST", f"/v1/jobs/{first}/update", {"request_id": "cccccccc", "dependency": f"afterok:{second}"})
    answer = requeue(served, "a1a1a1a1", ids=[second])
    way = f"for job {first} for job {second}"
    assert answer["errors"][0]["message"] == f"job {second} would wait for itself, that is {way}"
    assert (answer["requeued"], served.job(second).state, served.job(second).stop) == ([], state, "")
    # a task, by one that waits for its array
    served.ask("POST", "/v1/hold", {"request_id": "abababab", "ids": [f"{array_id}_1"]})  # now it is a row
    served.ask("POST", "/v1/cancel", {"request_id": "acacacac", "ids": [array_id]})
    served.ask("POST", f"/v1/jobs/{second}/update", {"request_id": "adadadad", "dependency": f"afterok:{after}"})
    served.change_job(second, state=JobState.PENDING)
    served.ask("POST", f"/v1/jobs/{second}/update", {"request_id": "aeaeaeae", "dependency": f"afterok:{after}"})
    for name in (f"{array_id}_1", f"{array_id}_0"):
        refused = requeue(served, "a2a2a2a2", ids=[name])["errors"][0]["message"]
        assert refused.endswith(f"for job {second} for job {after} for job {name[:-2] if name[-1] == '0' else name}")
    assert requeue(served, "a3a3a3a3", ids=[first])["errors"][0]["message"] == f"job {first} waits already"


@pytest.mark.parametrize("who", ["user", "admin"])
def test_a_hold_of_ones_own_ends_with_what_was_held(served: Served, who: str) -> None:
    held = "JobHeldAdmin by root" if who == "admin" else "JobHeldUser by me"
    for request_id, array in (("aaaaaaaa", None), ("bbbbbbbb", "0-3")):
        job_id = batch(served, request_id, **({"array": array} if array else {}))
        served.change_job(job_id, held=held)
        served.ask("POST", "/v1/cancel", {"request_id": f"d{request_id}", "ids": [job_id]})
        assert requeue(served, f"c{request_id}", ids=[job_id])["requeued"] == [job_id]
        assert served.job(job_id).held == (held if who == "admin" else "")


def test_an_array_of_which_nothing_began_is_to_come_again(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-3%2")
    assert requeue(served, ids=[array_id])["errors"][0]["message"] == f"job {array_id} waits already"
    served.ask("POST", "/v1/cancel", {"request_id": "dddddddd", "ids": [array_id]})
    assert requeue(served, "acacacac", ids=[array_id])["requeued"] == [array_id]
    array = served.job(array_id)
    assert (array.state, array.rest, array.dropped) == (JobState.PENDING, "0-3", "")


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [("srun", {}, "is an srun"), ("batch", {"no_requeue": True}, "was submitted with --no-requeue: submit it again")],
)
def test_what_must_run_once_is_refused(served: Served, kind: str, options: dict[str, Any], why: str) -> None:
    body = {**submission("aaaaaaaa"), "kind": kind, "options": options}
    job_id = served.ask("POST", "/v1/jobs", body)[1]["job_id"]
    served.change_job(job_id, state=JobState.FAILED, attempt=1)
    answer = requeue(served, ids=[job_id])
    assert answer["requeued"] == []
    assert why in answer["errors"][0]["message"]


def test_tasks_that_all_wait_are_refused_as_one(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-3")
    for index in range(4):  # now it is a row
        served.ask("POST", "/v1/hold", {"request_id": f"eeeeeee{index}", "ids": [f"{array_id}_{index}"]})
    told = [(error["job_id"], error["message"]) for error in requeue(served, ids=[array_id])["errors"]]
    assert told == [(array_id, f"job {array_id} waits already")]
    named = f"{array_id}_[1-3]"
    told = [(error["job_id"], error["message"]) for error in requeue(served, "a1a1a1a1", ids=[named])["errors"]]
    assert told == [(named, f"job {named} waits already")]
    served.ask("POST", "/v1/cancel", {"request_id": "dddddddd", "ids": [f"{array_id}_2"]})
    answer = requeue(served, "a2a2a2a2", ids=[array_id])
    assert answer["requeued"] == [array_id]
    told = [(error["job_id"], error["message"]) for error in answer["errors"]]
    assert told == [(array_id, f"job {array_id}_[0-1,3] waits already")]


def test_an_array_of_which_all_is_held_waits(served: Served) -> None:
    array_id = batch(served, "aaaaaaaa", array="0-1")
    for index in range(2):
        served.ask("POST", "/v1/hold", {"request_id": f"eeeeeee{index}", "ids": [f"{array_id}_{index}"]})
    rows = [served.job(JobId(job["number"])) for job in served.ask("GET", "/v1/jobs")[1]["jobs"]]
    served.desk.planned = {row.job_id: held(row) for row in rows}
    shown, why = served.ask("GET", f"/v1/jobs/{array_id}")[1], served.ask("GET", f"/v1/jobs/{array_id}/why")[1]
    assert (shown["job_id"], shown["state"], shown["reason"]) == (array_id, "PENDING", "JobHeldUser")
    assert (why["job_id"], why["state"], why["reason"]) == (array_id, "PENDING", "JobHeldUser")
    assert why["detail"].endswith(f": mgpu release {array_id}_0")
    served.change_job(rows[1].job_id, state=JobState.RUNNING, attempt=1)
    assert served.ask("GET", f"/v1/jobs/{array_id}")[1]["state"] == "RUNNING"
