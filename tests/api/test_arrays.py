"""Arrays as they are asked for: one row, and names for their tasks."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.core.array import Reference, parse_reference
from mgpu.core.model import JobId, JobState
from mgpu.ops import arrays, cancel, output
from mgpu.ops.context import Caller
from mgpu.store.filters import JobFilter
from tests.api.conftest import Served, submission

SCRIPT = {"form": "script", "words": ["x"], "script": "#!/bin/sh\ntrue\n", "script_name": "s.sh"}
OTHER = Caller(4321, "mallory")


def submit(served: Served, array: str, **more: Any) -> JobId:
    body = {**submission("abababab", **({"array": array} if array else {})), "kind": "batch", **more}
    status, answer = served.ask("POST", "/v1/jobs", body)
    assert status == 201, answer
    return JobId(answer["job_id"])


def begin(served: Served, array_id: JobId, index: int, on_a_gpu: bool = True) -> JobId:
    """The task runs."""
    with served.store.write() as w:
        of = w.job(array_id)
        assert of is not None
        job_id = arrays.make_task(w, of, index, 5.0).job_id
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    if on_a_gpu:
        served.start(job_id)
    return job_id


def ended(served: Served, job_id: JobId, state: JobState) -> None:
    served.change_job(job_id, state=state)
    with served.store.write() as w:
        arrays.end_if_over(w, served.job(job_id).array_id or job_id, 9.0)


def rows(served: Served, query: str = "") -> list[tuple[Any, str]]:
    return [(job["job_id"], job["state"]) for job in served.ask("GET", f"/v1/jobs{query}")[1]["jobs"]]


def act(served: Served, what: str, *ids: Any, **more: Any) -> Any:
    return served.ask(
        "POST", f"/v1/{what}", {"request_id": f"{hash((what, *ids)) & 0xFFFFFFFFFF:012x}", "ids": ids, **more}
    )[1]


def test_a_hundred_thousand_tasks_are_one_row(served: Served) -> None:
    array = submit(served, "0-99999%4")
    [shown] = served.ask("GET", "/v1/jobs")[1]["jobs"]
    assert (shown["job_id"], shown["array_rest"], shown["state"]) == (array, "0-99999%4", "PENDING")
    with served.store.read() as r:
        assert len(list(r.pending())) == 1
    assert act(served, "cancel", f"{array}_[0-49999]", f"{array}_77777")["cancelled"] == [
        f"{array}_[0-49999]",
        f"{array}_77777",
    ]
    with served.store.read() as r:
        assert len(list(r.pending())) == 1
    assert served.job(array).rest == "50000-77776,77778-99999"
    assert act(served, "hold", array)["held"] == [array]
    assert act(served, "cancel", array) == {"cancelled": [array], "errors": []}
    assert rows(served) == []
    assert rows(served, "?scope=ended") == [(array, "CANCELLED")]


def test_tasks_are_named_by_array_and_index(served: Served) -> None:
    array = submit(served, "1-9:2")
    task = begin(served, array, 3)
    assert rows(served) == [(array, "PENDING"), (f"{array}_3", "RUNNING")]
    assert rows(served, f"?ids={array}_[3-5]") == [(f"{array}_3", "RUNNING")]
    assert rows(served, f"?ids={array}") == [(array, "PENDING"), (f"{array}_3", "RUNNING")]
    for name, state in ((f"{array}_3", "RUNNING"), (f"{array}_5", "PENDING"), (task, "RUNNING"), (array, "PENDING")):
        status, shown = served.ask("GET", f"/v1/jobs/{name}")
        assert (status, shown["state"]) == (200, state)
        assert shown["job_id"] == (f"{array}_3" if name == task else name)
        assert served.ask("GET", f"/v1/jobs/{name}/why")[1]["job_id"] == shown["job_id"]
    served.change_job(task, start_time=9.0)
    shown = served.ask("GET", f"/v1/jobs/{array}")[1]
    assert (shown["tasks"], shown["start_time"]) == ({"PENDING": 4, "RUNNING": 1}, "1970-01-01T00:00:09Z")
    assert served.ask("GET", f"/v1/jobs/{array}_3")[1]["number"] == task
    refused = [served.ask("GET", f"/v1/jobs/{name}")[1]["error"]["message"] for name in (f"{array}_4", f"{task}_1")]
    assert refused == [f"array {array} has no task 4", f"job {task} is task {array}_3 of an array: it has no tasks"]
    [gpu, *_] = served.ask("GET", "/v1/nodes/gpu01")[1]["gpus"]
    assert (gpu["job_id"], gpu["reason"]) == (f"{array}_3", f"held by job {array}_3")
    waits = served.submit("cdcdcdcd", gpus="1", nodelist="gpu01")
    why = served.ask("GET", f"/v1/jobs/{waits}/why")[1]
    assert [holder["job_id"] for holder in why["holders"]] == [f"{array}_3"]
    for name in (task, f"{array}_9", f"{array} left"):  # in words as in numbers
        served.change_job(waits, detail=f"job {task} of {name}, job {name}")
        told = served.ask("GET", "/v1/jobs?states=PENDING")[1]["jobs"][-1]["detail"]
        last = f"{array}_3" if name == task else name
        assert told.endswith(f"job {array}_3 of {name}, job {last}")


def test_an_array_ends_with_its_last_task(served: Served) -> None:
    array = submit(served, "0-2")
    first, second = (begin(served, array, index, on_a_gpu=False) for index in (0, 1))
    ended(served, first, JobState.COMPLETED)
    assert served.job(array).state is JobState.PENDING
    third = begin(served, array, 2, on_a_gpu=False)
    assert rows(served) == [(f"{array}_1", "RUNNING"), (f"{array}_2", "RUNNING")]  # nothing of it is still to come
    ended(served, second, JobState.TIMEOUT)
    assert served.job(array).state is JobState.RUNNING
    ended(served, third, JobState.COMPLETED)
    over = served.job(array)
    assert (over.state, over.detail, over.end_time) == (JobState.FAILED, "2 COMPLETED, 1 TIMEOUT", 9.0)
    assert [name for name, _ in rows(served, "?scope=ended")] == [f"{array}_{index}" for index in range(3)]


def test_cancelled_tasks_and_those_that_are_not(served: Served) -> None:
    array = submit(served, "0-5")
    running = begin(served, array, 0)
    answer = act(served, "cancel", f"{array}_0", f"{array}_1", f"{array}_9", f"{running}_1")
    assert answer["cancelled"] == [f"{array}_0", f"{array}_1"]
    assert [error["job_id"] for error in answer["errors"]] == [f"{array}_9", f"{running}_1"]
    assert served.job(running).stop.startswith("CANCEL by ")
    assert served.ask("GET", f"/v1/jobs/{array}_1")[1]["state"] == "CANCELLED"
    again = act(served, "cancel", f"{array}_1")
    assert again["errors"][0]["message"] == f"job {array}_1 has already ended"
    assert served.job(array).rest == "2-5"
    assert act(served, "cancel", f"{array}_[0-3]")["cancelled"] == [f"{array}_[2-3]", f"{array}_0"]
    refused = cancel.cancel(served.context, OTHER, {"request_id": "cccccccc", "ids": [array, f"{array}_4"]})
    assert [error["code"] for error in refused["errors"]] == ["not_allowed"] * 2 + ["not_allowed"] * (
        len(refused["errors"]) - 2
    )
    assert act(served, "cancel", array, states="RUNNING")["cancelled"] == [array]
    assert served.job(array).rest == "4-5"
    assert act(served, "cancel", array)["cancelled"] == [array]
    ended(served, running, JobState.CANCELLED)
    assert served.job(array).state is JobState.CANCELLED


def test_a_wish_that_comes_again_is_the_same(served: Served) -> None:
    array = submit(served, "0-5")
    assert act(served, "cancel", f"{array}_[0-1]") == {"cancelled": [f"{array}_[0-1]"], "errors": []}
    assert act(served, "cancel", f"{array}_[0-1]")["errors"] == []
    assert act(served, "cancel", array)["cancelled"] == [array]
    assert act(served, "cancel", array) == {"cancelled": [array], "errors": []}


def test_one_that_is_asked_for_alone_becomes_a_job(served: Served) -> None:
    array = submit(
        served, "0-3", command={"form": "script", "words": ["x"], "script": "#!/bin/sh\n", "script_name": "s.sh"}
    )
    assert act(served, "hold", f"{array}_[1-2]")["held"] == [f"{array}_[1-2]"]
    assert rows(served) == [(array, "PENDING"), (f"{array}_1", "PENDING"), (f"{array}_2", "PENDING")]
    status, answer = served.ask("POST", f"/v1/jobs/{array}_3/update", {"request_id": "dddddddd", "time": "5"})
    assert (status, answer["job_id"], answer["time_limit_s"]) == (200, f"{array}_3", 300)
    with served.store.read() as r:
        task = r.task(array, 3)
    assert task is not None
    assert (task.spec.command.script, task.spec.command.words, task.spec.time_limit_s) == ("", ("x",), 300)
    served.ask("POST", f"/v1/jobs/{array}/update", {"request_id": "eeeeeeee", "time": "9"})
    with served.store.read() as r:
        assert {job.spec.time_limit_s for job in (*r.tasks(array), r.job(array)) if job} == {540}
    assert act(served, "release", array)["released"] == [array]
    assert not any(served.job(JobId(job_id)).held for job_id in range(array, array + 4))


def test_what_all_share_is_read_for_the_launch(served: Served) -> None:
    array = submit(served, "0-3", command=SCRIPT, env={"A": "1"})
    begin(served, array, 2)
    with served.store.read() as r:
        [(job, _, _)] = r.open_attempts()
        assert job.spec.command.script == SCRIPT["script"]
        assert served.store.exports.read(job.spec.exports) == {"A": "1"}
        stored = r.task(array, 2)
    assert stored is not None and (stored.spec.command.script, stored.spec.exports) == ("", "")


def test_a_line_each(served: Served) -> None:
    lines = {"form": "lines", "words": [], "script": "# all\none $X\n\ntwo\n", "script_name": "runs.txt"}
    array = submit(served, "%1", command=lines)
    assert served.job(array).spec.array == "2,4%1"
    begin(served, array, 4)
    assert served.ask("GET", f"/v1/jobs/{array}_4")[1]["command"] == ["two"]
    assert served.ask("GET", f"/v1/jobs/{array}_2")[1]["command"] == ["one $X"]


def test_tasks_that_need_no_gpu_are_held_back(served: Served) -> None:
    for given, stored in (("0-100", "0-100%100"), ("0-99", "0-99"), ("0-500%200", "0-500%200")):
        body = {**submission(f"{len(given)}bababababab", array=given, gpus="0"), "kind": "batch"}
        _, answer = served.ask("POST", "/v1/jobs", body)
        assert served.job(answer["job_id"]).spec.array == stored
        assert bool(answer["notices"]) == (given != stored)


REFUSED = [
    ({"kind": "srun"}, "1-2", "srun follows one job"),
    ({}, "2-1", "--array '2-1' cannot be read"),
    ({"command": {"form": "lines", "script": "#\n", "script_name": "r"}}, "%2", "r holds no command"),
    (
        {"command": {"form": "lines", "script": "a\n#\n", "script_name": "r"}},
        "1-2",
        "--array '1-2': r has no command in line 2",
    ),
]


@pytest.mark.parametrize(("more", "array", "told"), REFUSED)
def test_what_is_no_array(served: Served, more: dict[str, Any], array: str, told: str) -> None:
    body = {**submission("abababab", array=array), "kind": "batch", **more}
    status, answer = served.ask("POST", "/v1/jobs", body)
    assert status == 400 and answer["error"]["message"].startswith(told)


def test_output_is_that_of_a_task(served: Served) -> None:
    array = submit(served, "0-3")
    status, answer = served.ask("GET", f"/v1/jobs/{array}/output")
    assert (status, answer["error"]["message"]) == (400, f"job {array} is an array")

    found = output.read_output(
        served.context, Caller(0, "root"), output.OutputRequest(Reference(array, (range(1, 2),)))
    )
    assert (found.data, found.complete) == (b"", False)
    served.stream(f"/v1/jobs/{array}_1/stream")  # who follows it has it made a job
    with served.store.read() as r:
        task = r.task(array, 1)
    assert task is not None and task.state is JobState.PENDING


def test_others_wait_for_a_task_or_for_all_of_them(served: Served) -> None:
    array = submit(served, "0-2")
    served.submit("bbbbbbbb", dependency=f"afterok:{array}_1,afterany:{array}")
    after = served.ask("GET", "/v1/jobs")[1]["jobs"][-1]
    assert after["dependency"] == f"afterok:{array}_1,afterany:{array}"
    with served.store.read() as r:
        task = r.task(array, 1)
        spec = r.jobs(JobFilter(ids=(after["job_id"],)))[0].spec
    assert task is not None and spec.dependency is not None
    assert spec.dependency.job_ids == (task.job_id, array)
    act(served, "cancel", f"{array}_2")
    for name, message in ((f"{array}_9", f"array {array} has no task 9"), ("99_1", "there is no job 99")):
        status, answer = served.ask("POST", "/v1/jobs", submission("cccccccc", dependency=f"afterok:{name}"))
        assert (status, answer["error"]["message"]) == (404, message)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_task_that_never_began_ended_as_cancelled(served: Served, all_of_it: bool) -> None:
    array = submit(served, "0-2")
    act(served, "cancel", f"{array}_[0-2]" if all_of_it else f"{array}_2")
    for kind, met in (("afterok", False), ("afternotok", True), ("afterany", True), ("after", True)):
        body = submission(f"{len(kind)}aaaaaaa", dependency=f"{kind}:{array}_2")
        asked = served.ask("POST", "/v1/jobs/test", body)[1]
        never = "" if met else f"job {array}_2 had to end well, and is CANCELLED"
        assert (asked["waits_for"], asked["never"]) == (never, not met)
        assert served.ask("POST", "/v1/jobs", body)[1]["notices"] == (
            [] if met else [f"it waits for what can never be: {never}"]
        )
    of = served.job(array)
    assert (of.rest, of.dropped) == ("", "0-1") if all_of_it else ("0-1", "")
    shown = served.ask("GET", f"/v1/jobs/{array}")[1]
    assert (shown["tasks"]["CANCELLED"], shown["start_time"]) == (3 if all_of_it else 1, None)
    assert act(served, "requeue", f"{array}_2")["requeued"] == [f"{array}_2"]


def test_an_array_full_of_holes(served: Served) -> None:
    lines = [f"echo {number}" if number % 7 in (1, 2, 4) else "#" for number in range(1, 5001)]
    command = {"form": "lines", "words": [], "script": "\n".join(lines), "script_name": "runs.txt"}
    array = submit(served, "", command=command)
    begin(served, array, 2, on_a_gpu=False)
    holes = served.job(array).spec.array
    assert holes.count(",") > 1000
    with served.store.read() as r:
        named = JobFilter("all", named=(parse_reference(f"{array}_[{holes}]"),))
        assert [job.array_index for job in r.jobs(named)] == [2]
    assert act(served, "cancel", f"{array}_[{holes}]")["errors"] == []
    assert (served.job(array).rest, served.job(array).state) == ("", JobState.RUNNING)
