"""A signal for jobs: who gets it, as what, and what is said of the rest."""

from __future__ import annotations

import pytest

from mgpu.core.errors import RequestError
from mgpu.core.model import JobState
from mgpu.core.signals import parse_signal
from tests.api.conftest import submission
from tests.api.test_stream import run


def ask(served, signal, *ids, request_id="ffffffff", **more):
    return served.ask("POST", "/v1/signal", {"request_id": request_id, "ids": list(ids), "signal": signal, **more})


@pytest.mark.parametrize(("text", "number"), [("USR1", 10), ("sigusr2", 12), ("9", 9), ("SIGTERM ", 15), ("64", 64)])
def test_names_and_numbers(text, number):
    assert parse_signal(text) == number


@pytest.mark.parametrize("text", ["", "0", "65", "USR3", "-9", "1e1", "²", "9" * 99])
def test_what_is_no_signal(text):
    with pytest.raises(RequestError, match="there is no signal"):
        parse_signal(text)


def batch(served, request_id, form, words, **options):
    command = {"form": form, "words": words, "script": "true\n" * (form == "script"), "script_name": ""}
    body = {**submission(request_id, **options), "kind": "batch", "command": command}
    status, answer = served.ask("POST", "/v1/jobs", body)
    assert status == 201, answer
    served.change_job(answer["job_id"], state=JobState.RUNNING, attempt=1)
    return answer["job_id"]


def test_the_shell_of_a_script_is_spared_unless_it_is_meant(served):
    script = batch(served, "0" * 8, "script", [])
    argv = batch(served, "1" * 8, "argv", ["python", "x"])
    interactive = served.submit("2" * 8)
    run(served, interactive)
    jobs = (script, argv, interactive)
    for number, more in enumerate(({}, {"full": True}, {"batch": True})):
        assert ask(served, "USR1", *jobs, request_id=f"{number}" * 8, **more) == (
            200,
            {"signalled": list(jobs), "errors": []},
        )
    words = [word for _, word in served.desk.signals]
    assert words == ["S:10", "10", "10", *["10"] * 3, *["B:10"] * 3]


def test_of_mpi_only_mpirun_gets_it_unless_all_are_meant(served):
    script = batch(served, "0" * 8, "script", [], launcher="mpi")
    argv = batch(served, "1" * 8, "argv", ["mpirun", "x"], launcher="mpi")
    for number, more in enumerate(({}, {"full": True}, {"batch": True})):
        ask(served, "USR1", script, argv, request_id=f"{number}" * 8, **more)
    words = [word for _, word in served.desk.signals]
    assert words == ["R:S:10", "R:B:10", "10", "10", "R:B:10", "R:B:10"]


def test_only_what_runs_can_be_signalled(served):
    waiting, over = served.submit("0" * 8), served.submit("1" * 8)
    served.change_job(over, state=JobState.FAILED)
    status, answer = ask(served, "15", waiting, over, 99)
    assert (status, answer["signalled"]) == (200, [])
    assert {error["job_id"]: error["message"] for error in answer["errors"]} == {
        waiting: f"job {waiting} waits: there is nothing to signal",
        over: f"job {over} has already ended (FAILED)",
        99: "there is no job 99",
    }
    assert served.desk.signals == []
    assert served.job(waiting).state is JobState.PENDING


def test_one_that_does_not_get_it_is_told_with_the_reason(served):
    first, second = served.submit("0" * 8), served.submit("1" * 8)
    for job_id in (first, second):
        served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    served.desk.deaf[second] = "not sent to gpu02: contact is lost"
    _, answer = ask(served, "USR2", first, second)
    assert answer["signalled"] == [first]
    assert answer["errors"][0]["message"] == f"job {second} did not get SIGUSR2: not sent to gpu02: contact is lost"


def test_the_same_wish_again_sends_nothing_twice(served):
    job_id = served.submit()
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    served.desk.deaf[job_id] = "no answer within 15 s"
    assert ask(served, "USR1", job_id)[1]["signalled"] == []
    del served.desk.deaf[job_id]
    for _ in range(2):
        assert ask(served, "USR1", job_id)[1]["signalled"] == [job_id]
    assert len(served.desk.signals) == 2


def test_of_an_array_those_that_run(served):
    status, answer = served.ask("POST", "/v1/jobs", {**submission("0" * 8, array="0-3"), "kind": "batch"})
    assert status == 201, answer
    array = answer["job_id"]
    assert ask(served, "USR1", array)[1]["errors"][0]["message"] == (
        f"no task of job {array} runs: there is nothing to signal"
    )
    served.ask("GET", f"/v1/jobs/{array}_2/stream")  # as a task that is looked at alone, it is a job of its own
    served.stream(f"/v1/jobs/{array}_2/stream")
    with served.store.read() as r:
        task = r.task(array, 2)
    served.change_job(task.job_id, state=JobState.RUNNING, attempt=1)
    assert ask(served, "USR1", array, request_id="a" * 8) == (200, {"signalled": [array], "errors": []})
    assert ask(served, "USR1", f"{array}_2", request_id="b" * 8)[1]["signalled"] == [f"{array}_2"]
    assert served.desk.signals == [(task.job_id, "10")] * 2
    assert ask(served, "USR1", f"{array}_[0-1]", request_id="c" * 8)[1]["signalled"] == []


def test_by_filter_only_what_runs_is_meant(served):
    waiting, running = served.submit("0" * 8), served.submit("1" * 8)
    served.change_job(running, state=JobState.RUNNING, attempt=1)
    user = served.job(waiting).user
    assert ask(served, "USR1", user=user)[1] == {"signalled": [running], "errors": []}
