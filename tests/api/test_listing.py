"""The queue that is kept says what the store would say, at every moment and to everybody."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain

import pytest

from mgpu.api.listed import Together
from mgpu.cli.queue import queue_lines
from mgpu.client import http
from mgpu.core.model import AttemptState, JobId, JobState
from mgpu.core.plan import Wait
from mgpu.ops import jobs, listing
from mgpu.ops.context import Caller
from mgpu.store.changes import MOST, Changes
from mgpu.store.filters import JobFilter
from mgpu.store.writing import HoldConflict
from tests.api.conftest import NODES, Served, submission

MALLORY = Caller(4711, "mallory")
FILTERS = (
    JobFilter(),
    JobFilter(limit=2),
    JobFilter(user="mallory"),
    JobFilter(name="odd\\udcff"),
    JobFilter(partition="train"),
    JobFilter(node=NODES[1]),
    JobFilter(states=(JobState.RUNNING,)),
    JobFilter(states=(JobState.PENDING, JobState.FAILED), user="mallory", limit=3),
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan is asked at once."""
    monkeypatch.setattr(listing, "WORDS_S", -1.0)


def change(served: Served, dice: random.Random) -> None:
    """One of the things that happen to jobs."""
    with served.store.read() as r:
        known = r.jobs(JobFilter(scope="all"))
    one = dice.choice(known) if known else None
    what = dice.choice(("submit", "submit", "start", "end", "again", "hold", "plan", "part"))
    if one is None or what == "submit":
        options = {"job_name": dice.choice(("a", "odd\udcff")), "partition": dice.choice(("", "train"))}
        options |= {"array": "1-3"} if dice.random() < 0.2 else {}
        body = submission(f"{dice.getrandbits(60):016x}", **{key: value for key, value in options.items() if value})
        made = JobId(served.ask("POST", "/v1/jobs", {**body, "kind": "batch"})[1]["job_id"])
        if dice.random() < 0.5:
            served.change_job(made, uid=MALLORY.uid, user=MALLORY.user)
    elif what == "start" and one.state is JobState.PENDING and not one.is_array:
        with suppress(HoldConflict):
            served.start(one.job_id, one.attempt + 1, node=dice.randrange(2))
            served.change_job(one.job_id, state=JobState.RUNNING, attempt=one.attempt + 1, start_time=5.0, reason="")
    elif what == "part" and one.state is JobState.RUNNING:
        with served.store.read() as r:
            part = r.parts(one.job_id, one.attempt)[0]
        served.change_part(part, state=AttemptState.STOPPING, reason="job 1 says so")
    elif what == "end" and not one.is_array:
        with served.store.read() as r:
            parts = r.parts(one.job_id, one.attempt)
        for part in parts:
            served.change_part(part, state=AttemptState.ENDED, ended=9.0)
        served.change_job(one.job_id, state=JobState.FAILED, end_time=9.0, exit_code=3)
    elif what == "again" and one.attempt:
        served.change_job(one.job_id, state=JobState.PENDING, detail="was lost", reason="NodeFail", end_time=None)
    elif what == "hold":
        served.change_job(one.job_id, held="JobHeldUser by somebody")
    else:
        wait = Wait("Resources", f"held by job {dice.choice(known).job_id}")
        served.desk.planned = {job.job_id: wait for job in known if dice.random() < 0.8}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("privacy", ["full", "names", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_it_says_what_the_store_says(served: Served, privacy: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgpu.cli.queue.clock.now", lambda: 100.0)
    served.restart_shared(privacy=privacy)
    kept = listing.Listing(served.context)
    dice = random.Random(seed)
    for _ in range(25):
        change(served, dice)
        for caller in (Caller(served.context.owner_uid, "root"), MALLORY, Caller(4712, "carol")):
            for wanted in FILTERS:
                asked = kept.asked(caller, wanted, False)
                assert asked is not None
                found = kept.kept(asked) or kept.answer(asked)
                assert json.loads(found)["jobs"] == list(chain(*jobs.list_jobs(served.context, caller, wanted)))
                assert kept.kept(asked) == found
                brief = json.loads(kept.answer(asked._replace(brief=True)))
                assert queue_lines(brief) == queue_lines(json.loads(found))
                assert len(json.dumps(brief)) < len(found) or not brief["jobs"]


def test_what_is_asked_otherwise_is_for_the_store(served: Served) -> None:
    kept = listing.Listing(served.context)
    for wanted in (JobFilter(scope="all"), JobFilter(ids=(1,)), JobFilter(scope="ended")):
        assert kept.asked(MALLORY, wanted, False) is None


def test_a_change_of_ones_own_is_always_seen(served: Served) -> None:
    """While others ask all the time, and change things as well."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            served.ask("GET", "/v1/jobs")

    def submit(number: int) -> None:
        for turn in range(6):
            made = served.submit(f"{number:08}-{turn}")
            listed = {job["job_id"] for job in served.ask("GET", "/v1/jobs")[1]["jobs"]}
            assert made in listed
            served.change_job(made, state=JobState.COMPLETED, end_time=9.0)
            assert made not in {job["job_id"] for job in served.ask("GET", "/v1/jobs")[1]["jobs"]}

    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(look) for _ in range(2)]
        mine = [pool.submit(submit, number) for number in range(4)]
        try:
            for one in mine:
                one.result()
        finally:
            over.set()
        for one in others:
            one.result()


def test_a_plans_words_may_be_old_where_jobs_had_some(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "WORDS_S", 3600.0)
    served.submit("a" * 8)
    served.desk.planned = {1: Wait("Resources", "first")}
    assert [job["detail"] for job in served.ask("GET", "/v1/jobs")[1]["jobs"]] == ["first"]
    served.submit("b" * 8)
    assert [job["detail"] for job in served.ask("GET", "/v1/jobs")[1]["jobs"]] == ["first", ""]
    served.desk.planned = {1: Wait("Resources", "second"), 2: Wait("Resources", "second")}
    assert [job["detail"] for job in served.ask("GET", "/v1/jobs")[1]["jobs"]] == ["first", "second"]


def test_who_can_unpack_gets_it_packed(served: Served) -> None:
    served.submit("a" * 8)
    plain = http.Response(200, {}, b"")
    for headers, packed in (("", False), ("Accept-Encoding: deflate\r\n", True)):
        with closing(http.connect(served.endpoint)) as connection:
            connection.sendall(f"GET /v1/jobs HTTP/1.0\r\nHost: mgpu\r\n{headers}\r\n".encode())
            answer = http.read_response(connection)
        assert (answer.headers.get("content-encoding") == "deflate") is packed
        assert plain.body in (b"", answer.body)
        plain = answer
    damaged = zlib.compress(b"x" * 99)[:-3]
    with pytest.raises(OSError, match="cannot be unpacked"):
        http.unpacked(damaged)


def test_a_reading_that_failed_is_made_up_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = listing.Listing(served.context)
    asked = kept.asked(MALLORY, JobFilter(), False)
    assert asked is not None
    assert json.loads(kept.answer(asked)) == {"jobs": []}
    served.submit("a" * 8)
    with monkeypatch.context() as broken:
        broken.setattr(served.store, "read", None)
        with pytest.raises(TypeError):
            kept.answer(asked)
    assert kept.kept(asked) is None
    assert [job["job_id"] for job in json.loads(kept.answer(asked))["jobs"]] == [1]


def test_changes_are_told_until_they_are_committed_and_once_more() -> None:
    changes = Changes()
    assert changes.take() is None
    changes.coming(7, {1, 2})
    assert changes.take() == {1, 2}
    assert changes.waiting
    assert changes.take() == {1, 2}
    changes.over(7)
    assert changes.take() == {1, 2}
    assert not changes.waiting
    changes.coming(7, set(range(MOST + 1)))
    changes.over(7)
    assert changes.take() is None


def test_who_comes_during_a_making_has_the_next_with_all_others() -> None:
    begun: list[str] = []

    async def story() -> None:
        gates = [asyncio.Event() for _ in range(2)]

        async def make(key: str) -> int:
            begun.append(key)
            number = len(begun)
            await gates[number - 1].wait()
            return number

        together = Together(make)
        first = asyncio.create_task(together.join("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert begun == ["a"]
        others = [asyncio.create_task(together.join("a")) for _ in range(5)]
        await asyncio.sleep(0)
        others.pop().cancel()  # who leaves takes it away from nobody
        gates[0].set()
        gates[1].set()
        assert await first == 1
        assert [await one for one in others] == [2] * 4
        assert begun == ["a", "a"]

    asyncio.run(story())


def test_what_is_kept_is_told_apart_from_names_that_look_like_it(served: Served) -> None:
    served.ask("POST", "/v1/jobs", submission("a" * 8, job_name='", "detail": "x'))
    with served.store.write() as w:
        job = w.job(1)
        assert job is not None
        w.save_job(replace(job, user='"\\u0000"'))
    found = served.ask("GET", "/v1/jobs")[1]["jobs"][0]
    assert (found["name"], found["user"]) == ('", "detail": "x', '"\\u0000"')
