"""The client's half of a stream: what is given to a job, how far that is, and who may."""

import json
import select
from dataclasses import replace
from threading import Condition, Event

import pytest

from mgpu.api.stdin import HEAD
from mgpu.client.websocket import BINARY, TEXT
from mgpu.core.array import parse_reference
from mgpu.ops.context import Caller, Taken
from mgpu.ops.output import begin_to_follow


class Kept:
    """A stdin that writes down what it is given."""

    def __init__(self):
        self.heard = []
        self.now = Taken(1, 0, 0, over=False, room=True)
        self.changed = Condition()
        self.listened = Event()
        self.news = None

    def taken(self):
        return self.now

    def give(self, attempt, data):
        self._hear((attempt, data))

    def end(self, attempt):
        self._hear((attempt, "end"))

    def resize(self, rows, columns):
        self._hear((rows, columns))

    def _hear(self, what):
        self.listened.set()
        with self.changed:
            self.heard.append(what)
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.heard) >= count, 20), self.heard
        return self.heard

    # --- of all jobs ---

    def open(self, job_id, news):
        self.news = news
        return self

    def close(self, job_id, news):
        self._hear("closed")

    def say(self, **changes):
        self.now = self.now._replace(**changes)
        self.news()


def until_stdin(stream):
    while True:
        if not stream.buffered():
            assert select.select([stream.fileno()], [], [], 20)[0]
        message = stream.receive()
        if message and message[0] == TEXT and (event := json.loads(message[1]))["event"] == "stdin":
            return event


@pytest.fixture
def given(served):
    """(a job's stdin, a stream of it)"""
    served.desk.stdins = kept = Kept()
    job_id = served.submit(input="pipe")
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    assert until_stdin(stream) == {"event": "stdin", "attempt": 1, "fed": 0, "here": 0, "over": False}
    return kept, stream


def test_bytes_their_end_and_sizes_arrive_in_order(given):
    kept, stream = given
    stream.send(BINARY, HEAD.pack(0, 1) + b"a\0\xff")
    stream.send(TEXT, b'{"stdin": "size", "rows": 24, "columns": 80}')
    stream.send(TEXT, b'{"stdin": "end", "attempt": 1}')
    assert kept.wait_for(3) == [(1, b"a\0\xff"), (24, 80), (1, "end")]
    kept.say(fed=3, here=3)
    assert until_stdin(stream)["fed"] == 3
    kept.say(over=True)
    assert until_stdin(stream)["over"]
    stream.close()
    assert kept.wait_for(4)[3] == "closed"


@pytest.mark.parametrize(
    ("opcode", "payload"),
    [
        (TEXT, b"{"),
        (TEXT, b"[]"),
        (TEXT, b'{"stdin": "size", "rows": 0, "columns": 80}'),
        (TEXT, b'{"stdin": "size", "rows": 24, "columns": -1}'),
        (TEXT, b'{"stdin": "size", "rows": "many", "columns": 80}'),
        (TEXT, b'{"stdin": "size", "rows": 1e999, "columns": 80}'),
        (TEXT, b'{"stdin": "size", "rows": ' + b"9" * 6000 + b', "columns": 80}'),
        (TEXT, b'{"stdin": "end", "attempt": 1e999}'),
        (TEXT, b'{"stdin": ["end"], "attempt": 1}'),
        (TEXT, b"[" * 100_000),
        (TEXT, b'{"stdin": "end"}'),
        (TEXT, b'{"stdin": "what"}'),
        (BINARY, b""),
        (BINARY, b"\0\0\0\0\1"),
    ],
)
def test_what_says_nothing_is_passed_over(given, opcode, payload):
    kept, stream = given
    stream.send(opcode, payload)
    stream.send(BINARY, HEAD.pack(0, 1) + b"after")
    assert kept.wait_for(1) == [(1, b"after")]


def test_no_more_is_read_than_there_is_room_for(given):
    kept, stream = given
    kept.say(room=False)
    stream.send(BINARY, HEAD.pack(0, 1) + b"x")
    stream.send(TEXT, b'{"stdin": "end", "attempt": 1}')
    assert not kept.listened.wait(0.2)
    kept.say(room=True)
    assert kept.wait_for(2) == [(1, b"x"), (1, "end")]


def test_a_job_that_reads_nothing_is_given_nothing(served):
    served.desk.stdins = kept = Kept()
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    stream.send(BINARY, HEAD.pack(0, 1) + b"x")
    stream.close()
    assert kept.heard == []


def test_admins_look_on_but_do_not_act_in_the_name_of_others(served):
    job_id = served.submit(input="24x80")
    served.change_job(job_id, uid=1234, user="ann")
    context = replace(served.context, config=replace(served.config, admins=("boss",)))

    def may(uid, user):
        return begin_to_follow(context, Caller(uid, user), parse_reference(str(job_id)))[1]

    assert may(1234, "ann")
    assert may(0, "root")
    assert not may(4321, "boss")
