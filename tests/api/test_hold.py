"""Hold and release: whose word counts, and what a job says that is held."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from mgpu import clock
from mgpu.core.model import JobState
from mgpu.ops import hold as ops_hold
from mgpu.ops.context import Caller
from mgpu.ops.render import Json
from tests.api.conftest import Served, submission

ALICE, CAROL, MALLORY = Caller(4711, "alice"), Caller(4712, "carol"), Caller(4713, "mallory")


def ask(served: Served, what: str, **body: Any) -> Any:
    return served.ask("POST", f"/v1/{what}", {"request_id": "cccccccc", **body})


def test_a_job_is_held_at_submit_or_later_and_released(served: Served) -> None:
    first = served.ask("POST", "/v1/jobs", {**submission("aaaaaaaa"), "options": {"hold": True}})[1]["job_id"]
    second = served.submit("bbbbbbbb")
    wakes = served.desk.wakes
    assert ask(served, "hold", ids=[second]) == (200, {"held": [second], "errors": []})
    assert ask(served, "hold", ids=[second])[1]["held"] == [second]
    assert [served.job(one).held[:15] for one in (first, second)] == ["JobHeldUser by "] * 2
    free = served.submit("dddddddd")
    assert ask(served, "release", states="PENDING") == (200, {"released": [first, second], "errors": []})
    assert ask(served, "release", ids=[free])[1]["released"] == [free]
    assert [served.job(one).held for one in (first, second)] == ["", ""]
    assert served.desk.wakes == wakes + 5


def test_what_an_admin_holds_only_an_admin_releases(served: Served) -> None:
    job_id = served.submit()
    served.change_job(job_id, user="alice", uid=ALICE.uid)
    context = replace(served.context, config=replace(served.config, admins=("carol",)))

    def act(what: str, caller: Caller) -> Json:
        return getattr(ops_hold, what)(context, caller, {"request_id": "cccccccc", "ids": [job_id]})

    assert act("hold", MALLORY)["errors"][0]["code"] == "not_allowed"
    act("hold", CAROL)
    assert served.job(job_id).held == "JobHeldAdmin by carol"
    for what in ("hold", "release"):
        refused = act(what, ALICE)["errors"]
        assert served.job(job_id).held == "JobHeldAdmin by carol"
    assert refused[0]["code"] == "not_allowed"
    assert (refused[0]["message"], refused[0]["hint"]) == (f"job {job_id} is held by carol", "an admin releases it")
    assert act("release", CAROL)["released"] == [job_id]
    assert act("hold", ALICE)["held"] == [job_id]
    assert served.job(job_id).held == "JobHeldUser by alice"


@pytest.mark.parametrize(("state", "code"), [(JobState.RUNNING, "bad_request"), (JobState.COMPLETED, "already_ended")])
def test_only_what_waits_is_held(served: Served, state: JobState, code: str) -> None:
    job_id = served.submit()
    served.change_job(job_id, state=state, attempt=1)
    for what, done in (("hold", "held"), ("release", "released")):
        answer = ask(served, what, ids=[job_id, 99])[1]
        assert answer[done] == []
        assert [error["code"] for error in answer["errors"]] == ["not_found", code]
        assert ask(served, what, user=Caller(os.getuid(), served.job(job_id).user).user)[1] == {done: [], "errors": []}


def test_begin_is_kept_with_the_job(served: Served) -> None:
    job_id = served.submit(begin="now+1hour")
    assert 3590 < served.job(job_id).not_before - clock.now() <= 3600
    assert served.job(served.submit("bbbbbbbb")).not_before == 0
    for options in ({"begin": "later"}, {"begin": ""}, {"hold": "yes"}):
        status, answer = served.ask("POST", "/v1/jobs", {**submission("dddddddd"), "options": options})
        assert (status, answer["error"]["code"]) == (400, "bad_request")
