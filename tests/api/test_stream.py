"""Following a job: the events, every byte once, several attempts and ranks, slow readers, a master that ends."""

import json
import os
import struct

import pytest

from mgpu.client.http import MasterError
from mgpu.client.websocket import BINARY, StreamClosed
from mgpu.core.model import AttemptState, JobState
from mgpu.core.plan import Wait

HEAD = struct.Struct(">BHQ")


def messages(stream, last="end"):
    """Up to and with the event `last`: events as (name, body), output as (kind, rank, offset, data)."""
    while True:
        message = stream.receive()
        if message is None:
            continue
        opcode, payload = message
        if opcode == BINARY:
            yield (*HEAD.unpack_from(payload), payload[HEAD.size :])
            continue
        event = json.loads(payload)
        yield event.pop("event"), event
        if json.loads(payload)["event"] == last:
            return


def until_state(stream, state):
    for item in messages(stream, ""):
        if item[0] == "state" and item[1]["job"]["state"] == state:
            return item[1]["job"]
    return None


def run(served, job_id, number=1, ranks=1):
    parts = served.start(job_id, number, ranks)
    served.change_job(job_id, state=JobState.RUNNING, attempt=number)
    return parts


def end(served, job_id, parts, state=JobState.COMPLETED):
    for part in parts:
        served.change_part(part, state=AttemptState.ENDED, ended=9.0, exit_code=0, collected=True)
    served.change_job(job_id, state=state, exit_code=0, end_time=9.0)


def test_from_pending_to_the_end(served):
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    assert until_state(stream, "PENDING")["job_id"] == job_id
    served.desk.planned = {job_id: Wait("Resources", "all busy")}
    served.spool.notify(job_id)
    assert until_state(stream, "PENDING")["reason"] == "Resources"
    parts = run(served, job_id)
    assert until_state(stream, "RUNNING")["allocation"][0]["pid"] == 100
    served.notice(job_id, "working directory: home")
    served.spool.append(parts[0].key, "stdout", 0, b"one")
    served.spool.append(parts[0].key, "stderr", 0, b"two")
    served.change_job(job_id, state=JobState.COMPLETED, exit_code=0)
    served.spool.append(parts[0].key, "stdout", 3, b"three")
    end(served, job_id, parts)
    seen = list(messages(stream))
    assert ("notice", {"text": "working directory: home"}) in seen
    assert b"".join(item[3] for item in seen if item[0] == 1) == b"onethree"
    assert b"".join(item[3] for item in seen if item[0] == 2) == b"two"
    assert seen[-1][0] == "end"
    assert seen[-1][1]["job"]["state"] == "COMPLETED"
    with pytest.raises(StreamClosed):
        list(messages(stream))  # one look may bring only a part of the closing words
    assert served.desk.watched[0] == (job_id, True)


def test_the_end_waits_for_the_last_byte(served):
    job_id = served.submit()
    parts = run(served, job_id)
    served.change_job(job_id, state=JobState.COMPLETED)
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    until_state(stream, "COMPLETED")
    served.spool.append(parts[0].key, "stdout", 0, b"late")
    assert next(messages(stream)) == (1, 0, 0, b"late")
    end(served, job_id, parts)
    assert [item[0] for item in messages(stream)] == ["state", "end"]


def test_resumed_at_offsets(served):
    job_id = served.submit()
    parts = run(served, job_id, ranks=2)
    for part in parts:
        served.spool.append(part.key, "stdout", 0, b"0123456789")
        served.spool.append(part.key, "stderr", 0, b"abc")
    end(served, job_id, parts)
    stream = served.stream(f"/v1/jobs/{job_id}/stream?stdout=4&stderr=3&attempt=1")
    assert [item for item in messages(stream) if item[0] in (1, 2)] == [
        (1, 0, 4, b"456789"),
        (1, 1, 4, b"456789"),
    ]
    stream = served.stream(f"/v1/jobs/{job_id}/stream?stdout=8&rank=1")
    assert [item for item in messages(stream) if item[0] in (1, 2)] == [(1, 1, 8, b"89"), (2, 1, 0, b"abc")]


def test_a_later_attempt_follows_when_all_of_the_earlier_was_sent(served):
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    until_state(stream, "PENDING")
    first = run(served, job_id)
    until_state(stream, "RUNNING")
    served.change_part(first[0], state=AttemptState.ENDED, ended=8.0)
    second = run(served, job_id, number=2)
    served.spool.append(second[0].key, "stdout", 0, b"second")
    served.spool.append(first[0].key, "stdout", 0, b"first")
    served.change_part(first[0], state=AttemptState.ENDED, ended=8.0, collected=True)
    end(served, job_id, second)
    seen = [item for item in messages(stream) if item[0] != "state"]
    assert seen[0] == (1, 0, 0, b"first")
    assert seen[1] == ("attempt", {"attempt": 2})
    assert seen[2] == (1, 0, 0, b"second")
    assert seen[3][0] == "end"


def test_an_attempt_that_came_and_went_between_two_looks_is_announced(served):
    """The client hears of attempt 2 first, so it must be told that the next bytes are those of attempt 1."""
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    until_state(stream, "PENDING")
    first = served.start(job_id)  # the job's row tells of no attempt yet
    served.spool.append(first[0].key, "stdout", 0, b"first")
    served.change_part(first[0], state=AttemptState.ENDED, ended=8.0, collected=True)
    second = run(served, job_id, number=2)
    served.spool.append(second[0].key, "stdout", 0, b"second")
    end(served, job_id, second)
    seen = [item for item in messages(stream) if item[0] != "state"]
    assert [item if item[0] != "end" else "end" for item in seen] == [
        ("attempt", {"attempt": 1}),
        (1, 0, 0, b"first"),
        ("attempt", {"attempt": 2}),
        (1, 0, 0, b"second"),
        "end",
    ]


def test_an_ended_job_begins_with_its_last_attempt_or_the_one_asked_for(served):
    job_id = served.submit()
    for number in (1, 2):
        parts = run(served, job_id, number)
        served.spool.append(parts[0].key, "stdout", 0, b"attempt %d" % number)
        end(served, job_id, parts)

    def output(query):
        seen = messages(served.stream(f"/v1/jobs/{job_id}/stream{query}"))
        return [item[3] if item[0] == 1 else item[0] for item in seen]

    assert output("") == ["state", b"attempt 2", "end"]
    assert output("?attempt=1") == ["state", b"attempt 1", "attempt", b"attempt 2", "end"]
    assert output("?attempt=9") == ["state", "end"]


def test_a_job_cancelled_before_it_ran_ends_at_once(served):
    job_id = served.submit()
    served.ask("POST", "/v1/cancel", {"request_id": "cccccccc", "ids": [job_id]})
    assert [item[0] for item in messages(served.stream(f"/v1/jobs/{job_id}/stream"))] == ["state", "end"]


def test_every_byte_of_a_long_output_reaches_a_reader_who_begins_late(served):
    job_id = served.submit()
    parts = run(served, job_id)
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    sent = os.urandom(6 << 20)
    for offset in range(0, len(sent), 1 << 18):
        served.spool.append(parts[0].key, "stdout", offset, sent[offset : offset + (1 << 18)])
    end(served, job_id, parts)
    assert served.ask("GET", "/v1/jobs?scope=all")[0] == 200  # the slow reader holds up nobody
    received = bytearray()
    for item in messages(stream):
        if item[0] == 1:
            assert item[2] == len(received)
            received += item[3]
    assert received == sent


def test_refusals_come_before_the_stream(served):
    with pytest.raises(MasterError, match="there is no job 9"):
        served.stream("/v1/jobs/9/stream")
    job_id = served.submit()
    with pytest.raises(MasterError, match="rank 'x' is not a whole number"):
        served.stream(f"/v1/jobs/{job_id}/stream?rank=x")
    run(served, job_id, ranks=2)
    with pytest.raises(MasterError, match=f"job {job_id} has no rank 2") as caught:
        served.stream(f"/v1/jobs/{job_id}/stream?rank=2")
    assert (caught.value.code, caught.value.hint) == ("not_found", "its ranks are 0 to 1")


def test_a_client_that_goes_is_no_longer_served(served):
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    until_state(stream, "PENDING")
    stream.close()
    for _ in range(200):
        if served.desk.watched[-1:] == [(job_id, False)]:
            break
        served.ask("GET", "/v1/status")
    assert served.desk.watched == [(job_id, True), (job_id, False)]
    assert served.spool._subscribers == {}


def test_who_stays_with_a_job_and_who_only_looks_on(served):
    job_id = served.submit()
    assert served.desk.expected == [job_id]
    until_state(served.stream(f"/v1/jobs/{job_id}/stream"), "PENDING")
    assert served.desk.attended == []
    until_state(served.stream(f"/v1/jobs/{job_id}/stream?session=1"), "PENDING")
    assert served.desk.attended == [(job_id, True)]
    served.server.stop()
    assert served.desk.attended == [(job_id, True), (job_id, False)]
    served.restart()


def test_one_that_waits_is_told_its_place_if_it_wants(served):
    first, second = served.submit("0" * 8), served.submit("1" * 8)
    stream = served.stream(f"/v1/jobs/{second}/stream?prospects=1")
    until_state(stream, "PENDING")
    served.spool.notify(second)
    *_, (name, told) = messages(stream, "prospects")
    assert (name, told["ahead"]) == ("prospects", 1)
    assert sorted(told) == ["ahead", "expected_on", "expected_start"]
    served.ask("POST", "/v1/cancel", {"request_id": "c" * 8, "ids": [first]})
    run(served, second)
    assert [item[0] for item in messages(stream, "state")] == ["state"]


def test_a_master_that_ends_tells_its_readers_to_come_back(served):
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    until_state(stream, "PENDING")
    served.server.stop()
    with pytest.raises(StreamClosed):
        list(messages(stream))
    assert served.desk.watched == [(job_id, True), (job_id, False)]
    served.restart()
    assert until_state(served.stream(f"/v1/jobs/{job_id}/stream"), "PENDING")["job_id"] == job_id


def test_a_reader_who_does_not_read_holds_up_neither_the_job_nor_the_end(served):
    job_id = served.submit()
    parts = run(served, job_id)
    served.stream(f"/v1/jobs/{job_id}/stream")
    size = served.spool.append(parts[0].key, "stdout", 0, bytes(20 << 20))
    assert served.spool.append(parts[0].key, "stdout", size, b"more") == size + 4
    served.server.stop()
    assert not served.path.exists()
    assert served.desk.watched[-1] == (job_id, False)
