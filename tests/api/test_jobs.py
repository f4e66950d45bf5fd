"""Jobs over the real socket: submitted, listed, explained, cancelled."""

import getpass
import os
from dataclasses import replace

import pytest

from mgpu import clock
from mgpu.client import http
from mgpu.core.array import Reference
from mgpu.core.fairshare import Standing, Turn
from mgpu.core.model import AttemptState, JobState, NodeName
from mgpu.core.plan import AccountFacts, Limits, Owner, PartitionFacts, Scope, Wait
from mgpu.ops import cancel as ops_cancel
from mgpu.ops import output as ops_output
from mgpu.ops import render
from mgpu.ops import update as ops_update
from mgpu.ops.context import Caller
from mgpu.ops.output import OutputRequest
from tests.api.conftest import submission

CONTRACT_KEYS = """
    job_id name user state reason gpus nodes command submit_time start_time end_time exit_code attempt allocation
"""
OTHER = Caller(4711, "mallory")


def test_a_submission_becomes_a_pending_job_and_wakes_the_master(served):
    status, answer = served.ask("POST", "/v1/jobs", submission("aaaaaaaa", gpus="1", job_name="first"))
    assert (status, answer) == (201, {"job_id": 1, "notices": [], "created": True})
    job = served.job(1)
    assert (job.uid, job.state, job.spec.name) == (os.getuid(), JobState.PENDING, "first")
    assert served.desk.wakes == 1
    with served.store.read() as r:
        assert [entry.what for entry in r.audits(job_id=1)] == ["submit"]


def test_the_same_request_twice_is_one_job(served):
    job_id = served.submit("aaaaaaaa")
    assert served.ask("POST", "/v1/jobs", submission("aaaaaaaa")) == (
        200,
        {"job_id": job_id, "notices": [], "created": False},
    )
    assert len(served.ask("GET", "/v1/jobs")[1]["jobs"]) == 1


def test_somebody_elses_request_id_is_not_a_way_to_their_job(served):
    job_id = served.submit("aaaaaaaa")
    served.change_job(job_id, uid=4711)
    status, answer = served.ask("POST", "/v1/jobs", submission("aaaaaaaa"))
    assert (status, answer["error"]["code"]) == (403, "not_allowed")


@pytest.mark.parametrize("request_id", [None, 7, "", "short", "x" * 32])
def test_a_request_id_is_needed(served, request_id):
    status, answer = served.ask("POST", "/v1/jobs", submission(request_id))
    assert (status, answer["error"]["code"]) == (400, "bad_request")


def test_a_request_that_can_never_be_met_is_refused(served):
    status, answer = served.ask("POST", "/v1/jobs", submission("aaaaaaaa", nodelist="gpu03"))
    assert status == 400
    assert "gpu03" in answer["error"]["message"]
    assert served.ask("GET", "/v1/jobs?scope=all")[1] == {"jobs": []}


def test_a_job_that_waits_shows_the_plans_reason(served):
    job_id = served.submit(gpus="2", nodes="2")
    served.desk.planned = {job_id: Wait("Resources", "2 GPUs free", ((NodeName("gpu01"), "busy"),))}
    job = served.ask("GET", "/v1/jobs")[1]["jobs"][0]
    assert " ".join(list(job)[:14]) == CONTRACT_KEYS.strip()
    assert (job["state"], job["reason"], job["gpus"], job["nodes"]) == ("PENDING", "Resources", 2, 2)
    assert job["command"] == ["echo", "\udcff"]
    assert job["allocation"] == []
    assert job["submit_time"].endswith("Z")
    why = served.ask("GET", f"/v1/jobs/{job_id}/why")[1]
    assert (why.pop("expected_start") <= render.moment(clock.now()), len(why.pop("expected_on"))) == (True, 2)
    assert why == {
        "job_id": job_id,
        "state": "PENDING",
        "reason": "Resources",
        "detail": "2 GPUs free",
        "nodes": [{"node": "gpu01", "reason": "busy"}],
        "sooner": [],
        "ahead": 0,
        "holders": [],
    }


def test_what_is_to_be_expected(served):
    """gpu01 has one GPU with a job on it and one with a stranger, gpu02 two that are free."""
    first = served.submit(gpus="1", time="10")
    served.start(first)
    served.change_job(first, state=JobState.RUNNING, attempt=1, start_time=5.0)
    there = {"gpus": "1", "nodelist": "gpu01", "time": "5"}
    waits = served.submit("1" * 8, **there)
    why = served.ask("GET", f"/v1/jobs/{waits}/why")[1]
    (holder,) = why["holders"]
    assert (holder["job_id"], holder["time_limit_s"], holder["gpus_until"]) == (first, 600, why["expected_start"])
    assert (why["expected_on"], why["sooner"]) == ([{"node": "gpu01", "devices": [0]}], ["without -w"])
    listed = served.ask("GET", "/v1/jobs?states=PENDING&start=1")[1]["jobs"]
    assert [(job["job_id"], bool(job["expected_start"])) for job in listed] == [(waits, True)]
    status, answer = served.ask("POST", "/v1/jobs/test", submission("2" * 8, gpus="2"))
    assert (status, answer["now"], answer["expected_on"]) == (200, True, [{"node": "gpu02", "devices": [0, 1]}])
    answer = served.ask("POST", "/v1/jobs/test", submission("2" * 8, **there))[1]
    assert not answer["now"] and answer["expected_start"] > why["expected_start"]
    assert served.ask("POST", "/v1/jobs/test", submission("2" * 8, gpus="9"))[0] == 400
    assert len(served.ask("GET", "/v1/jobs?scope=all")[1]["jobs"]) == 2


def test_when_one_is_expected_that_waits_for_another(served, monkeypatch):
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)  # answers that are compared are given at one time
    first = served.submit(gpus="1", time="10")
    served.start(first)
    served.change_job(first, state=JobState.RUNNING, attempt=1, start_time=5.0)
    behind = served.submit("1" * 8, gpus="2", time="5", dependency=f"afterok:{first}")
    never = served.submit("2" * 8, gpus="2", time="5", dependency=f"afternotok:{first}")
    listed = served.ask("GET", "/v1/jobs?states=PENDING&start=1")[1]["jobs"]
    assert [(job["job_id"], bool(job["expected_start"])) for job in listed] == [(behind, True), (never, False)]
    why = served.ask("GET", f"/v1/jobs/{behind}/why")[1]
    assert (why["expected_start"], len(why["expected_on"])) == (listed[0]["expected_start"], 1)
    asked = [
        served.ask("POST", "/v1/jobs/test", submission("3" * 8, gpus="1", time="5", dependency=text))[1]
        for text in (f"afterok:{first}", f"afterany:{behind}", f"afternotok:{first}", f"afterok:{never}", "singleton")
    ]
    starts = [answer["expected_start"] for answer in asked]
    at = submission("4" * 8, gpus="1", time="5", dependency=f"afterok:{first}", begin="now+3days")
    assert served.ask("POST", "/v1/jobs/test", at)[1]["expected_start"] > starts[1]
    assert starts[0] == listed[0]["expected_start"] < starts[1]
    assert (starts[2:], [answer["now"] for answer in asked]) == ([None] * 3, [False] * 5)


def test_a_job_that_runs_shows_where(served):
    job_id = served.submit(gpus="1")
    served.start(job_id)
    served.change_job(job_id, state=JobState.RUNNING, attempt=1, start_time=0.0)
    job = served.ask("GET", f"/v1/jobs/{job_id}")[1]
    assert job["start_time"] == "1970-01-01T00:00:00Z"
    assert job["allocation"] == [
        {
            "rank": 0,
            "node": "gpu01",
            "hostname": "",
            "address": "",
            "devices": [0],
            "uuids": ["GPU-gpu01-0"],
            "pid": 100,
            "start_time": None,
            "state": "RUNNING",
            "exit_code": None,
            "reason": "",
            "lost_since": None,
        }
    ]
    assert [attempt["attempt"] for attempt in job["attempts"]] == [1]
    assert job["attempts"][0]["allocation"] == job["allocation"]
    assert served.ask("GET", f"/v1/jobs/{job_id}/why")[1]["detail"] == "runs on gpu01 (GPU 0)"


def test_lists_are_filtered(served):
    first = served.submit("aaaaaaaa", job_name="a")
    second = served.submit("bbbbbbbb", job_name="b")
    served.change_job(second, state=JobState.FAILED)

    def ids(query):
        status, answer = served.ask("GET", f"/v1/jobs{query}")
        return [job["job_id"] for job in answer["jobs"]] if status == 200 else answer["error"]["message"]

    assert ids("") == [first]
    assert ids("?scope=ended") == [second]
    assert ids("?scope=all&name=b") == [second]
    assert ids("?scope=all&states=pending,failed&limit=1") == [second]
    assert ids(f"?scope=all&ids={first},99") == [first]
    assert ids("?user=nobody-at-all") == []
    assert ids("?states=asleep").startswith("there is no job state 'ASLEEP'")
    assert ids("?scope=none").startswith("scope 'none'")
    assert ids("?ids=1_x").startswith("'1_x' is not a job number")
    assert ids("?limit=-1").startswith("limit '-1'")


def test_ones_own_are_those_of_whom_the_master_sees(served):
    """A client on another machine may have another name there."""
    mine, theirs = served.submit("aaaaaaaa"), served.submit("bbbbbbbb")
    served.change_job(theirs, user="bob", uid=4711)
    assert [job["job_id"] for job in served.ask("GET", "/v1/jobs?me=1")[1]["jobs"]] == [mine]
    assert cancel(served, me="1")[1] == {"cancelled": [mine], "errors": []}


def cancel(served, **body):
    return served.ask("POST", "/v1/cancel", {"request_id": "cccccccc", **body})


def test_a_pending_job_is_cancelled_at_once_and_the_repeated_wish_is_the_same(served):
    job_id = served.submit()
    for _ in range(2):
        assert cancel(served, ids=[job_id]) == (200, {"cancelled": [job_id], "errors": []})
    job = served.job(job_id)
    assert job.state is JobState.CANCELLED
    assert job.end_time is not None
    status, answer = cancel(served, ids=[job_id], request_id="dddddddd")
    assert (status, answer["cancelled"]) == (200, [])
    assert answer["errors"][0]["code"] == "already_ended"
    assert answer["errors"][0]["message"] == f"job {job_id} has already ended (CANCELLED)"


def test_of_a_running_job_the_wish_is_stored(served):
    job_id = served.submit()
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    wakes = served.desk.wakes
    assert cancel(served, ids=[str(job_id), 99])[1]["cancelled"] == [job_id]
    job = served.job(job_id)
    assert job.state is JobState.RUNNING
    assert job.stop.startswith("CANCEL by ")
    assert served.desk.wakes == wakes + 1


def test_cancel_by_filter_means_ones_own_unless_a_user_is_named(served):
    mine, theirs = served.submit("aaaaaaaa"), served.submit("bbbbbbbb")
    running = served.submit("eeeeeeee")
    served.change_job(theirs, user="bob", uid=4711)
    served.change_job(running, state=JobState.RUNNING, attempt=1)
    assert cancel(served, states="PENDING")[1] == {"cancelled": [mine], "errors": []}
    assert cancel(served, user="bob")[1]["cancelled"] == [theirs]
    assert cancel(served, ids=[running], states="PENDING")[1] == {"cancelled": [], "errors": []}
    status, answer = cancel(served)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert cancel(served, ids="1")[0] == 400
    assert cancel(served, ids=[True])[0] == 400


def test_others_may_neither_cancel_nor_read(served):
    job_id = served.submit()
    answer = ops_cancel.cancel(served.context, OTHER, {"request_id": "cccccccc", "ids": [job_id]})
    assert answer["cancelled"] == []
    assert answer["errors"][0]["code"] == "not_allowed"
    assert served.job(job_id).state is JobState.PENDING
    with pytest.raises(Exception, match="mallory may not read its output"):
        ops_output.read_output(served.context, OTHER, OutputRequest(Reference(job_id)))


def test_output_is_raw_bytes_with_size_and_completeness(served):
    job_id = served.submit()
    path = f"/v1/jobs/{job_id}/output"

    def read(query=""):
        answer = http.request(served.endpoint, "GET", f"{path}{query}")
        return answer.body, answer.headers.get("x-mgpu-size"), answer.headers.get("x-mgpu-complete")

    assert read() == (b"", "0", "0")
    part = served.start(job_id)[0]
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    served.spool.append(part.key, "stdout", 0, b"\xff\x00line\r\n")
    served.spool.append(part.key, "stderr", 0, b"oops")
    assert read() == (b"\xff\x00line\r\n", "8", "0")
    assert read("?stream=stderr&offset=1&limit=2") == (b"op", "4", "0")
    served.change_part(part, state=AttemptState.ENDED, ended=9.0, collected=True)
    assert read("?offset=8&attempt=1") == (b"", "8", "1")
    for query in ("?rank=1", "?attempt=2"):
        assert served.ask("GET", f"{path}{query}")[0] == 404
    assert served.ask("GET", f"{path}?stream=other")[0] == 400


def test_output_that_an_ended_job_is_owed(served):
    job_id = served.submit()
    part = served.start(job_id)[0]
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    told = ("x-mgpu-complete", "x-mgpu-owed")

    def read(query="?fresh=1"):
        answer = http.request(served.endpoint, "GET", f"/v1/jobs/{job_id}/output{query}")
        return [answer.headers.get(name) for name in told]

    served.desk.gives = {part.key: False}
    assert read() == ["0", None]  # it runs: there is no end yet
    served.change_part(part, state=AttemptState.ENDED, ended=9.0)
    assert read() == ["0", "coming"]
    assert read("") == ["0", None]
    served.desk.gives = {}
    assert read() == ["0", "away"]
    served.desk.gives = {part.key: True}
    assert read() == ["1", None]
    served.desk.gives = {}
    served.change_part(part, state=AttemptState.ENDED, ended=9.0, collected=True)
    assert read() == ["1", None]


def update(served, job_id, **body):
    return served.ask("POST", f"/v1/jobs/{job_id}/update", {"request_id": "cccccccc", **body})


def test_the_time_limit_of_a_job_that_waits_or_runs_can_be_changed(served):
    waiting, running = served.submit("aaaaaaaa"), served.submit("bbbbbbbb", time="10")
    served.start(running)
    served.change_job(running, state=JobState.RUNNING, attempt=1)
    wakes = served.desk.wakes
    changed = {"job_id": waiting, "time_limit_s": 3600, "changes": ["time limit 01:00:00"]}
    assert update(served, waiting, time="1:00:00") == (200, changed)
    changed = {"job_id": running, "time_limit_s": None, "changes": ["no time limit"]}
    assert update(served, running, time="none") == (200, changed)
    assert served.desk.wakes == wakes + 2
    assert served.job(waiting).spec.time_limit_s == 3600
    assert served.job(running).spec.time_limit_s is None
    served.change_job(running, state=JobState.COMPLETED)
    status, answer = update(served, running, time="1")
    assert (status, answer["error"]["code"]) == (409, "already_ended")
    for body in ({}, {"time": ""}, {"time": "1:90"}, {"time": "1", "nodes": "2"}):
        assert update(served, waiting, **body)[0] == 400
    with pytest.raises(Exception, match="mallory may not change it"):
        ops_update.update(served.context, OTHER, Reference(waiting), {"request_id": "cccccccc", "time": "1"})
    assert update(served, 99, time="1")[0] == 404


def test_a_changed_time_limit_stays_within_the_partition(served):
    served.restart(
        config=replace(served.config, partitions={"train": PartitionFacts("train", max_time_s=7200)}),
    )
    waiting, running = served.submit("aaaaaaaa", time="10"), served.submit("bbbbbbbb", time="10")
    served.start(running)
    served.change_job(running, state=JobState.RUNNING, attempt=1)
    for job_id in (waiting, running):
        assert update(served, job_id, time="2:00:00")[0] == 200
        for time in ("2:00:01", "none"):
            status, answer = update(served, job_id, time=time)
            assert status == 400
            assert "is over that of partition train: at most 02:00:00" in answer["error"]["message"]
        assert served.job(job_id).spec.time_limit_s == 7200


def test_limits_refuse_what_is_too_much(served):
    served.restart(config=replace(served.config, user_limits=Limits(gpus=3, queued=1)))
    status, answer = served.ask("POST", "/v1/jobs", submission("aaaaaaaa", gpus="4"))
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert answer["error"]["message"] == "needs 4 GPUs, a user may have 3 at once: use -G 3"
    status, answer = served.ask("POST", "/v1/jobs", submission("aaaaaaaa", gpus="2", nodes="2", exclusive=True))
    told = "--exclusive takes all GPUs of a node: needs 4 GPUs, a user may have 3 at once"
    assert (status, answer["error"]["message"]) == (400, told)
    served.submit("bbbbbbbb")
    status, answer = served.ask("POST", "/v1/jobs", submission("cccccccc"))
    assert (status, answer["error"]["code"]) == (403, "not_allowed")
    assert answer["error"]["message"].endswith(" has 1 job queued, and may have 1")
    assert served.ask("POST", "/v1/jobs", submission("bbbbbbbb"))[0] == 200  # the same wish once more


def test_why_names_the_jobs_that_count_towards_a_limit(served):
    me = getpass.getuser()
    mine, others, ended, waits = (served.submit(letter * 8) for letter in "abcd")
    [part] = served.start(ended)
    served.change_part(part, state=AttemptState.ENDED, ended=9.0)
    served.start(mine)
    [part] = served.start(others, node=1)
    served.change_job(others, user="bob", uid=4711)
    holders = {
        Scope("user", "", me): [mine],
        Scope("account", "x"): [],
        Scope("partition", "train"): [mine, others],
        Scope("partition", "train", "bob"): [others],
        Scope("partition", "debug"): [],
    }
    for scope, named in holders.items():
        served.desk.planned[waits] = Wait("UserLimit", "too much", scope=scope)
        why = served.ask("GET", f"/v1/jobs/{waits}/why")[1]
        assert [holder["job_id"] for holder in why["holders"]] == named


def test_a_job_that_waits_shows_what_its_place_follows_from(served):
    served.restart(config=replace(served.config, accounts={"x": AccountFacts("x", 1, (getpass.getuser(),))}))
    job_id = served.submit("aaaaaaaa", account="x")
    served.desk.turns[job_id] = Turn(
        Owner(getpass.getuser(), "x"), 0.25, 3600.0, 7200.0, 4, Standing(1.0, 1.0, 12.0), False
    )
    shown = served.ask("GET", f"/v1/jobs/{job_id}")[1]
    assert shown["account"] == "x"
    assert shown["order"] == {
        "priority": 0,
        "first": False,
        "score": 0.25,
        "wait_s": 3600,
        "planned_s": 7200,
        "gpus": 4,
        "fair_share": 0.25,
        "user_use": 1.0,
        "account_use": 1.0,
        "user_gpu_hours": 12.0,
    }
    assert served.ask("POST", "/v1/jobs", submission("bbbbbbbb", account="y"))[0] == 400
