"""--request-id: the same key of the same user is the same job."""

from __future__ import annotations

from mgpu.core.model import JobState
from mgpu.ops import submit as ops_submit
from mgpu.ops.context import Caller
from tests.api.conftest import submission


def keyed(request_id, key="nightly", **options):
    return {**submission(request_id, **options), "key": key}


def test_a_key_is_one_job_however_often_and_whatever_became_of_it(served):
    status, first = served.ask("POST", "/v1/jobs", keyed("a" * 8))
    assert (status, first["created"]) == (201, True)
    served.change_job(first["job_id"], state=JobState.FAILED)
    status, again = served.ask("POST", "/v1/jobs", keyed("b" * 8))
    assert (status, again) == (200, {"job_id": first["job_id"], "notices": [], "created": False})
    assert served.ask("POST", "/v1/jobs", keyed("c" * 8, "weekly"))[1]["job_id"] != first["job_id"]
    assert served.ask("POST", "/v1/jobs", submission("d" * 8))[1]["job_id"] != first["job_id"]


def test_another_request_under_the_same_key_is_refused(served):
    job_id = served.ask("POST", "/v1/jobs", keyed("a" * 8))[1]["job_id"]
    for other in (keyed("b" * 8, gpus="2"), {**keyed("c" * 8), "cwd": "/tmp"}, {**keyed("d" * 8), "kind": "batch"}):
        status, answer = served.ask("POST", "/v1/jobs", other)
        assert (status, answer["error"]["message"]) == (
            400,
            f"--request-id 'nightly' belongs to job {job_id}, which was asked for otherwise",
        )
    assert len(served.ask("GET", "/v1/jobs")[1]["jobs"]) == 1


def test_what_was_changed_since_is_still_the_job_of_its_key(served):
    job_id = served.ask("POST", "/v1/jobs", keyed("a" * 8))[1]["job_id"]
    served.ask("POST", f"/v1/jobs/{job_id}/update", {"request_id": "e" * 8, "time": "60"})
    assert served.ask("POST", "/v1/jobs", keyed("b" * 8))[1]["job_id"] == job_id


def test_the_key_of_another_user_is_another(served):
    job_id = served.ask("POST", "/v1/jobs", keyed("a" * 8))[1]["job_id"]
    other = ops_submit.submit(served.context, Caller(4711, "bob"), keyed("b" * 8))
    assert (other.created, other.job_id == job_id) == (True, False)


def test_a_key_says_something(served):
    for key in ("", " ", 7, "x" * 201, "a\nb"):
        assert served.ask("POST", "/v1/jobs", keyed("a" * 8, key))[0] == 400
