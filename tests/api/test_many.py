"""POST /v1/jobs/many: all of them or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.model import JobId
from mgpu.ops.submit_many import MOST
from tests.api.conftest import Served, submission


def many(served: Served, *bodies: Any) -> tuple[int, Any]:
    return served.ask("POST", "/v1/jobs/many", {"request_id": "f" * 16, "jobs": list(bodies)})


def test_several_jobs_in_one_request(served: Served) -> None:
    wakes = served.desk.wakes
    status, answer = many(served, submission("a" * 8, gpus="1"), submission("b" * 8, gpus="2", hold=True))
    assert status == 200
    assert [(one["job_id"], one["created"]) for one in answer["jobs"]] == [(1, True), (2, True)]
    assert served.job(JobId(2)).held
    assert served.desk.expected == [1, 2]
    assert served.desk.wakes == wakes + 1
    entries = served.ask("GET", "/v1/audit")[1]["audit"]
    assert [(entry["action"], entry["job_id"]) for entry in entries] == [("submit", 1), ("submit", 2)]


def test_sent_again_they_are_the_same(served: Served) -> None:
    served.submit("a" * 8)
    bodies = submission("a" * 8), submission("b" * 8)
    first, again = many(served, *bodies), many(served, *bodies)
    assert [(one["job_id"], one["created"]) for one in first[1]["jobs"]] == [(1, False), (2, True)]
    assert [(one["job_id"], one["created"]) for one in again[1]["jobs"]] == [(1, False), (2, False)]


WRONG = [
    (submission("b" * 8, gpus="77"), "job 2 of 3: needs 77 GPUs"),
    (submission("b" * 8, dependency="afterok:99"), "job 2 of 3: --dependency: there is no job 99"),
    (submission("b"), "job 2 of 3: request_id must be"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_one_that_is_refused_takes_the_others_along(served: Served, wrong: Any, said: str) -> None:
    kept = {**submission("c" * 8), "env": {"A": "1"}}
    status, answer = many(served, {**submission("a" * 8), "env": {"A": "1"}}, wrong, kept)
    assert status == 400
    assert answer["error"]["message"].startswith(said)
    assert served.ask("GET", "/v1/jobs")[1]["jobs"] == []
    assert list((served.store.path.parent / "exports").glob("*")) == []
    assert served.desk.expected == []


@pytest.mark.parametrize(
    "body", [{}, {"jobs": []}, {"jobs": 3}, {"jobs": [3]}, {"jobs": [{}] * (MOST + 1)}, {"job": []}]
)
def test_what_is_no_list_of_submissions(served: Served, body: Any) -> None:
    assert served.ask("POST", "/v1/jobs/many", body)[0] == 400


def test_what_was_accepted_once_is_not_refused_when_sent_again(served: Served) -> None:
    """Its answer was lost, and meanwhile it would be refused."""
    first = served.submit("a" * 8, nodelist="gpu02")
    served.desk._config = replace(served.config, nodes=served.config.nodes[:1])
    assert served.ask("POST", "/v1/jobs", submission("b" * 8, nodelist="gpu02"))[0] == 400
    status, answer = served.ask("POST", "/v1/jobs", submission("a" * 8, nodelist="gpu02"))
    assert (status, answer["job_id"], answer["created"]) == (200, first, False)


def test_one_key_for_two_different_jobs(served: Served) -> None:
    same, other = {**submission("a" * 8), "key": "k"}, {**submission("b" * 8, gpus="2"), "key": "k"}
    status, answer = served.ask("POST", "/v1/jobs/many", {"jobs": [submission("d" * 8), same, other]})
    said = "job 3 of 3: --request-id 'k' is also that of job 2, which asks for something else"
    assert (status, answer["error"]["message"]) == (400, said)
    again = {**submission("c" * 8), "key": "k"}
    status, answer = served.ask("POST", "/v1/jobs/many", {"jobs": [same, again]})
    assert (status, len({job["job_id"] for job in answer["jobs"]})) == (200, 1)
