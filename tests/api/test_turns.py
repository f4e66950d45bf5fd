"""One user's requests do not keep those of others waiting."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from mgpu.api import turns
from mgpu.ops import jobs
from mgpu.ops.context import Caller

BUSY = Caller(70002, "bob", "socket")
OTHER = Caller(70001, "ann", "socket")


@pytest.fixture
def asking(monkeypatch):
    """Two users, told apart by a word in what they ask, of a master of somebody else."""
    monkeypatch.setattr("mgpu.api.app.caller_of", lambda request: OTHER if "ann" in request.query else BUSY)


@pytest.mark.usefixtures("asking")
def test_of_all_that_one_asks_a_few_are_in_hand_and_others_get_their_turn(served, monkeypatch):
    lock, go = threading.Lock(), threading.Event()
    inside, most = 0, 0
    all_in_hand = threading.Event()

    def slow(context, caller, *_):
        nonlocal inside, most
        if caller.user == "ann":
            return {"job_id": 0}
        with lock:
            inside += 1
            most = max(most, inside)
            if inside == turns.IN_HAND:
                all_in_hand.set()
        go.wait(30)
        with lock:
            inside -= 1
        return {"job_id": 1}

    monkeypatch.setattr(jobs, "why", slow)  # before the routes are made
    served.restart_shared(owner_uid=70000)
    job_id = served.submit("0" * 8)
    served.restart_shared(owner_uid=70000)  # what is called is known from its beginning on
    answers = []
    many = [
        threading.Thread(target=lambda: answers.append(served.ask("GET", f"/v1/jobs/{job_id}/why")[0]))
        for _ in range(3 * turns.IN_HAND)
    ]
    for one in many:
        one.start()
    assert all_in_hand.wait(30)
    assert served.ask("GET", f"/v1/jobs/{job_id}/why?ann=1") == (200, {"job_id": 0})
    assert served.ask("GET", "/v1/jobs?ann=1&scope=all")[0] == 200
    assert served.ask("GET", "/v1/jobs?ann=1")[0] == 200
    go.set()
    for one in many:
        one.join()
    assert (answers, most) == ([200] * len(many), turns.IN_HAND)


def test_who_runs_the_master_is_not_counted():
    async def tried():
        shares = turns.Turns(frozenset((0, 7)))
        assert (shares.begin(0), shares.begin(7), turns.SHARE.get()) == (None, None, None)
        own = shares.begin(8)
        assert own is shares.begin(8) is turns.SHARE.get()
        assert own is not shares.begin(9)

    asyncio.run(tried())


def test_large_bodies_of_one_user_come_a_few_at_a_time():
    def request(size, body=True):
        return SimpleNamespace(body_exists=body, content_length=size)

    async def tried():
        share = turns.Turns(frozenset()).begin(7)
        for size in (turns.LARGE_B + 1, None):
            assert turns.of_body(request(size), share) is share.large
        for _ in range(turns.LARGE_AT_ONCE):
            await share.large.acquire()
        assert share.large.locked()
        async with turns.of_body(request(100), share), turns.of_body(request(None, body=False), share):
            pass
        async with turns.of_body(request(turns.LARGE_B + 1), None):
            pass

    asyncio.run(tried())
