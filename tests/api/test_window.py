"""A window on the queue: what a long list shows of itself a screen at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.model import JobId, JobState
from mgpu.core.plan import Wait
from mgpu.ops import listing
from mgpu.ops.context import Caller
from mgpu.ops.listing import Listing
from mgpu.ops.outlook import Prospects
from mgpu.ops.window import Windows, parse_view
from mgpu.store.reading import Reader
from tests.api.conftest import NODES, Served

BOB = Caller(70002, "bob", "socket")
MALLORY = {"uid": 4711, "user": "mallory"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan is asked at once, and every place in the queue reckoned anew."""
    monkeypatch.setattr(listing, "WORDS_S", -1.0)
    for name in ("FRESH_S", "PLACES_FRESH_S", "_SELDOM"):
        monkeypatch.setattr(f"mgpu.ops.outlook.{name}", 0)


def window(served: Served, query: str = "") -> dict[str, Any]:
    status, answer = served.ask("GET", f"/v1/window?{query}")
    assert status == 200, answer
    return answer


def ids(answer: dict[str, Any]) -> list[Any]:
    return [row["job_id"] for row in answer["jobs"]]


def submitted(served: Served, number: int, **options: Any) -> JobId:
    return served.submit(f"{number:08}", **options)


def run(served: Served, job_id: JobId, start: float, node: int = 0) -> None:
    served.start(job_id, node=node)
    served.change_job(job_id, state=JobState.RUNNING, attempt=1, start_time=start, reason="")


def test_those_that_run_come_first_then_those_that_wait_as_they_are_planned(served: Served) -> None:
    first, late, urgent, held, runs = (
        submitted(served, 1),
        submitted(served, 2, priority="-5"),
        submitted(served, 3, priority="9"),
        submitted(served, 4, hold=True),
        submitted(served, 5),
    )
    run(served, runs, 10.0)
    assert ids(window(served)) == [runs, urgent, first, late, held]
    assert ids(window(served, "sort=-queue")) == [held, late, first, urgent, runs]
    assert ids(window(served, "offset=1&limit=2")) == [urgent, first]
    assert window(served, "offset=7")["jobs"] == []


def test_what_it_adds_up_to_is_of_all_of_them(served: Served) -> None:
    runs = submitted(served, 1, gpus="2")
    submitted(served, 2, gpus="2", job_name="wanted")
    status, made = served.ask(
        "POST",
        "/v1/jobs",
        {
            "request_id": "a" * 8,
            "kind": "batch",
            "options": {"array": "0-9", "gpus": "1"},
            "env": {},
            "cwd": "/",
            "command": {"form": "argv", "words": ["x"], "script": "", "script_name": ""},
            "virtual_env": "",
        },
    )
    assert status == 201, made
    run(served, runs, 10.0)
    answer = window(served, "name=wanted&limit=5")
    assert (answer["matching"], len(answer["jobs"])) == (1, 1)
    assert answer["states"] == {"PENDING": 11, "RUNNING": 1}, "each task of an array counts"
    assert (answer["waiting_gpus"], answer["rows"]) == (12, 3), "an array that waits is a row"


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("id", [1, 2, 3]),
        ("-id", [3, 2, 1]),
        ("name", [2, 3, 1]),
        ("-name", [1, 3, 2]),
        ("user", [1, 3, 2]),
        ("state", [2, 3, 1]),
        ("gpus", [1, 3, 2]),
        ("-gpus", [2, 1, 3]),
        ("node", [1, 2, 3]),
        ("time", [3, 2, 1]),
        ("-time", [1, 2, 3]),
    ],
)
def test_it_is_sorted_by_what_one_likes_and_by_number_where_that_is_equal(
    served: Served, sort: str, order: list[int]
) -> None:
    for number, (name, gpus) in enumerate((("zebra", "1"), ("Ant", "2"), ("bee", "1")), 1):
        submitted(served, number, job_name=name, gpus=gpus)
        served.change_job(JobId(number), submit_time=5.0 + number)
    served.change_job(JobId(2), **MALLORY)
    served.change_job(JobId(1), user="alice")
    served.change_job(JobId(3), user="alice")
    run(served, JobId(1), 1.0)
    assert ids(window(served, f"sort={sort}")) == order


def test_words_are_searched_in_all_that_is_told(served: Served) -> None:
    """By number, name, user, state, node, and why it waits; all of them have to be there."""
    one, two = submitted(served, 1, job_name="ImageNet"), submitted(served, 2, job_name="bert")
    served.change_job(two, **MALLORY)
    run(served, one, 1.0, node=1)
    served.desk.planned = {two: Wait("Resources", "2 of 4 GPUs are held")}
    for words, found in {
        "imagenet": [one],
        "MALLORY": [two],
        "running": [one],
        NODES[1]: [one],
        "resources": [two],
        "held gpus": [two],
        "bert running": [],
        "zzz": [],
    }.items():
        assert ids(window(served, f"search={words.replace(' ', '%20')}")) == found, words


def test_only_what_one_may_know_is_found_or_sorted_by(served: Served) -> None:
    one, two = submitted(served, 1, job_name="secret"), submitted(served, 2, job_name="apple")
    served.change_job(one, **MALLORY)
    served.change_job(two, uid=BOB.uid, user=BOB.user)
    served.desk.planned = {one: Wait("Resources", "a private word")}

    def seen(privacy: str, **query: str) -> list[Any]:
        config = replace(served.config, shared=True, privacy=privacy)
        context = replace(served.context, config=config, owner_uid=4712)
        windows = Windows(context, Listing(context), Prospects(context))
        return ids(json.loads(windows.look(BOB, parse_view(query, BOB))))

    assert seen("none", search="secret") == seen("none", search="mallory") == seen("none", search="private") == []
    assert seen("none", search="apple") == [two]
    assert seen("none", name="secret") == seen("none", user="mallory") == []
    assert seen("none", sort="-name") == [two, one], "what is hidden counts as empty"
    assert seen("names", sort="-name") == seen("full", sort="-name") == [one, two]
    assert seen("names", search="secret") == [one]
    assert seen("names", search="private") == []
    assert seen("full", search="private") == [one]


def test_what_has_not_changed_is_not_sent_again(served: Served) -> None:
    job = submitted(served, 1)
    mark = window(served)["mark"]
    assert window(served, f"seen={mark}") == {"same": True, "mark": mark}
    served.desk.planned = {job: Wait("Resources", "other words")}
    changed = window(served, f"seen={mark}")
    assert changed["jobs"][0]["detail"] == "other words"
    assert changed["mark"] != mark
    submitted(served, 2)
    assert window(served, f"limit=1&seen={changed['mark']}")["matching"] == 2


def test_when_those_that_wait_will_start_is_told_on_wish(served: Served) -> None:
    job = submitted(served, 1, time="1:00:00")
    assert "expected_start" not in window(served)["jobs"][0]
    (row,) = window(served, "start=1")["jobs"]
    assert row["expected_start"] is not None
    assert row["expected_on"][0]["node"] in NODES
    run(served, job, 1.0)
    assert window(served, "start=1")["jobs"][0]["expected_start"] is None


def test_of_what_ended_the_newest_come_first(served: Served) -> None:
    for number in range(1, 4):
        submitted(served, number, job_name=f"j{number}")
        served.change_job(JobId(number), state=JobState.COMPLETED, end_time=100.0 - number, exit_code=0)
    submitted(served, 4)
    assert ids(window(served, "scope=ended")) == [1, 2, 3]
    assert ids(window(served, "scope=ended&sort=-name")) == [3, 2, 1]
    answer = window(served, "scope=ended&search=j2")
    assert (ids(answer), answer["states"]) == ([2], {"COMPLETED": 3})
    served.change_job(JobId(4), state=JobState.FAILED, end_time=200.0, exit_code=1)
    assert ids(window(served, "scope=ended"))[0] == 4, "one that ends since is seen"


def test_what_ended_is_read_again_only_where_it_changed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[JobId]] = []
    whole = Reader.jobs_in_turn
    monkeypatch.setattr(Reader, "jobs_in_turn", lambda self, ids: (read.append(list(ids)), whole(self, ids))[1])
    for number in range(1, 4):
        submitted(served, number, job_name=f"j{number}")
        served.change_job(JobId(number), state=JobState.COMPLETED, end_time=100.0 + number, exit_code=0)
    assert ids(window(served, "scope=ended")) == [3, 2, 1]
    read.clear()
    submitted(served, 4)
    assert ids(window(served, "scope=ended")) == [3, 2, 1]
    served.change_job(JobId(2), detail="its output is incomplete")
    rows = window(served, "scope=ended")["jobs"]
    assert [(row["job_id"], row["detail"]) for row in rows] == [(3, ""), (2, "its output is incomplete"), (1, "")]
    served.change_job(JobId(3), state=JobState.PENDING, end_time=None, exit_code=None)
    assert ids(window(served, "scope=ended")) == [2, 1]
    assert [some for some in read if some not in ([], [4])] == [[2], [3]], "and 3 for the queue"


def test_what_changed_is_not_forgotten_where_reading_it_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(served, 1)
    served.change_job(JobId(1), state=JobState.COMPLETED, end_time=100.0, exit_code=0)
    assert ids(window(served, "scope=ended")) == [1]
    served.change_job(JobId(1), detail="its output is incomplete")
    with monkeypatch.context() as broken:
        broken.setattr(Windows, "_read", lambda *_: 1 / 0)
        assert served.ask("GET", "/v1/window?scope=ended")[0] == 500
    assert window(served, "scope=ended")["jobs"][0]["detail"] == "its output is incomplete"


@pytest.mark.parametrize("query", ["sort=colour", "offset=-1", "limit=x", "scope=all", "states=NEW"])
def test_what_cannot_be_asked_is_refused(served: Served, query: str) -> None:
    status, answer = served.ask("GET", f"/v1/window?{query}")
    assert (status, answer["error"]["code"]) == (400, "bad_request")
