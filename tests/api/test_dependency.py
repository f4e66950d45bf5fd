"""Dependencies at submit: what must be there, and what is shown of them."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.core.model import JobState
from tests.api.conftest import Served, submission


def test_a_dependency_is_kept_and_shown(served: Served) -> None:
    first = served.submit("aaaaaaaa")
    second = served.submit("bbbbbbbb", dependency=f"afterok:{first},singleton", kill_on_invalid_dep="no")
    kept = served.job(second).spec.dependency
    assert kept is not None
    assert (kept.job_ids, kept.singleton, kept.either, kept.keep) == ((first,), True, False, True)
    assert served.ask("GET", f"/v1/jobs/{second}")[1]["dependency"] == f"afterok:{first},singleton"
    assert served.ask("GET", f"/v1/jobs/{first}")[1]["dependency"] == ""


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dependency": "afterok:99"}, "there is no job 99"),
        ({"dependency": "afterany:1:99"}, "there is no job 99"),
        ({"dependency": "afterok:2"}, "there is no job 2"),  # itself
        ({"dependency": "ok:1"}, "'ok' is none of"),
        ({"dependency": "afterok:1", "kill_on_invalid_dep": "never"}, "write yes or no"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(served: Served, options: dict[str, str], why: str) -> None:
    assert served.submit("aaaaaaaa") == 1
    status, answer = served.ask("POST", "/v1/jobs", submission("bbbbbbbb", **options))
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert why in answer["error"]["message"]
    assert len(served.ask("GET", "/v1/jobs?scope=all")[1]["jobs"]) == 1


def test_who_only_asks_is_told_whom_it_would_wait_for(served: Served) -> None:
    first = served.submit("aaaaaaaa", gpus="0")

    def asked(**more: str) -> tuple[bool, str, bool]:
        answer = served.ask("POST", "/v1/jobs/test", submission("bbbbbbbb", gpus="0", **more))[1]
        return answer["now"], answer["waits_for"], answer["never"]

    name = {"job_name": served.job(first).spec.name}
    served.change_job(first, state=JobState.RUNNING, start_time=5.0)
    assert asked(dependency=f"afterok:{first}") == (False, f"job {first} has to end well first (RUNNING)", False)
    told = f"job {first}, of the same name, has to end first"
    assert asked(dependency="singleton", **name) == (False, told, False)
    assert asked(dependency=f"after:{first}")[1:] == ("", False)
    assert served.ask("POST", "/v1/jobs/test", submission("bbbbbbbb", dependency="afterok:99"))[0] == 400
    served.change_job(first, state=JobState.FAILED, end_time=9.0)
    assert asked(dependency=f"afterok:{first}") == (False, f"job {first} had to end well, and is FAILED", True)
    assert asked(dependency=f"afternotok:{first}")[1:] == ("", False)


def test_who_only_asks_is_told_why_nobody_can_tell_when(served: Served) -> None:
    first = served.submit("aaaaaaaa", gpus="0")
    array = {**submission("cccccccc"), "kind": "batch", "options": {"array": "0-1"}}
    of = served.ask("POST", "/v1/jobs", array)[1]["job_id"]

    def untold(dependency: str, **more: Any) -> str:
        body = submission("bbbbbbbb", gpus="0", dependency=dependency, **more)
        return served.ask("POST", "/v1/jobs/test", body)[1]["untold"]

    name = {"job_name": served.job(first).spec.name}
    assert untold("singleton", **name) == "which of the earlier jobs of its name ends last, and when, nobody knows"
    assert untold(f"afterany:{of}") == f"which task of array {of} ends last, and when, nobody knows"
    assert untold(f"afterok:{of}_1") == f"task {of}_1 is still to come, and of one task nothing is planned alone"
    assert untold(f"after:{first}+5") == f"the minutes after the start of job {first} are not reckoned with"
    assert untold(f"afterok:{first},afternotok:{first}") == f"whether job {first} fails, and when, nobody knows"
    assert untold(f"after:{first}", hold=True) == ""
    served.change_job(first, state=JobState.RUNNING, start_time=5.0)
    assert (
        untold(f"afterany:{first}") == "the end of what it waits for is not known either"
    )  # nothing that runs is known of it
    served.change_job(first, state=JobState.FAILED, end_time=9.0)
    told = untold(f"afternotok:{first},afterany:{of}")
    assert told == f"which task of array {of} ends last, and when, nobody knows"


def test_who_waits_for_what_can_never_be_is_told_at_once(served: Served) -> None:
    first = served.submit("aaaaaaaa")
    served.change_job(first, state=JobState.FAILED)
    status, answer = served.ask("POST", "/v1/jobs", submission("bbbbbbbb", dependency=f"afterok:{first}"))
    assert status == 201
    told = f"it waits for what can never be: job {first} had to end well, and is FAILED"
    assert answer["notices"] == [told]
