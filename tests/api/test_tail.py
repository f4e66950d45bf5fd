"""Where output begins that is not wanted from its start, and where a follower stands after that."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from mgpu.client import http
from mgpu.core.errors import RequestError
from mgpu.core.model import AttemptState, JobState
from mgpu.ops.since import parse_since
from tests.api.test_stream import end, messages, run, until_state

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 28, 9, 0, tzinfo=ZONE)


def since(text: str) -> str:
    return datetime.fromtimestamp(parse_since(text, NOW.timestamp(), ZONE), ZONE).isoformat(" ")[:19]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90", "2026-11-28 08:58:30"),
        ("10m", "2026-11-28 08:50:00"),
        ("1h30m", "2026-11-28 07:30:00"),
        ("2d", "2026-11-26 09:00:00"),
        ("now-1hour", "2026-11-28 08:00:00"),
        ("now", "2026-11-28 09:00:00"),
        ("8:00", "2026-11-28 08:00:00"),
        ("16:00", "2026-11-27 16:00:00"),
        ("noon", "2026-11-27 12:00:00"),
        ("today", "2026-11-28 00:00:00"),
        ("yesterday 18:00", "2026-11-27 18:00:00"),
        ("2026-11-20", "2026-11-20 00:00:00"),
        ("2026-11-20T08:15", "2026-11-20 08:15:00"),
        ("2026-11-20T08:15:00Z", "2026-11-20 10:15:00"),
        ("12/24", "2025-12-24 00:00:00"),
    ],
)
def test_since_is_a_moment_or_so_long_ago(text: str, moment: str) -> None:
    assert since(text) == moment


@pytest.mark.parametrize(
    "text", ["", "soon", "10x", "25:00", "2026-13-01", "10 mo m", "-5m", "now+1hour", "Z", "9" * 12]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"^--since '.*' cannot be read: write 10m, "):
        since(text)


def test_bytes_from_the_last_lines_on(served):
    job_id = served.submit()
    parts = run(served, job_id)
    served.spool.append(parts[0].key, "stdout", 0, b"one\ntwo\nthree\n")

    def read(query):
        answer = http.request(served.endpoint, "GET", f"/v1/jobs/{job_id}/output?{query}")
        return answer.body, answer.headers["x-mgpu-offset"], answer.headers["x-mgpu-size"]

    assert read("tail=2") == (b"two\nthree\n", "4", "14")
    assert read("tail=0") == (b"", "14", "14")
    assert read("tail=1&limit=2") == (b"th", "8", "14")
    assert read("since=1h") == (b"one\ntwo\nthree\n", "0", "14")
    assert read("since=2099-01-01") == (b"", "14", "14")
    assert read("since=2099-01-01&tail=2")[1] == "14"  # the later of both
    assert read("tail=2&offset=1")[1] == "1"
    status, refused = served.ask("GET", f"/v1/jobs/{job_id}/output?tail=x")
    assert (status, refused["error"]["message"]) == (400, "tail 'x' is not a whole number")


def test_a_stream_from_now_on(served):
    job_id = served.submit()
    parts = run(served, job_id, ranks=2)
    served.spool.append(parts[0].key, "stdout", 0, b"before\n")
    served.spool.append(parts[1].key, "stderr", 0, b"long before\n")
    stream = served.stream(f"/v1/jobs/{job_id}/stream?tail=0")
    assert served.desk.brought == [part.key for part in parts]  # what was written before is no news
    assert list(messages(stream, "begin"))[-1] == (
        "begin",
        {"offsets": [[1, 0, 7], [1, 1, 0], [2, 0, 0], [2, 1, 12]]},
    )
    served.spool.append(parts[0].key, "stdout", 7, b"after")
    assert next(messages(stream)) == (1, 0, 7, b"after")


def test_each_rank_is_resumed_where_it_was(served):
    job_id = served.submit()
    parts = run(served, job_id, ranks=2)
    for part in parts:
        served.spool.append(part.key, "stdout", 0, b"0123456789")
    end(served, job_id, parts)
    stream = served.stream(f"/v1/jobs/{job_id}/stream?stdout=4,8&stderr=0&attempt=1&tail=1")
    assert [item for item in messages(stream) if item[0] == 1] == [(1, 0, 4, b"456789"), (1, 1, 8, b"89")]


def test_a_job_that_waited_is_followed_from_its_start(served):
    job_id = served.submit()
    stream = served.stream(f"/v1/jobs/{job_id}/stream?tail=0")
    until_state(stream, "PENDING")
    parts = run(served, job_id)
    served.spool.append(parts[0].key, "stdout", 0, b"all")
    end(served, job_id, parts)
    seen = list(messages(stream))
    assert [item for item in seen if item[0] == 1] == [(1, 0, 0, b"all")]
    assert "begin" not in [item[0] for item in seen]


def test_a_later_attempt_is_followed_from_its_start(served):
    job_id = served.submit()
    first = run(served, job_id)
    served.spool.append(first[0].key, "stdout", 0, b"first")
    stream = served.stream(f"/v1/jobs/{job_id}/stream?tail=0")
    assert list(messages(stream, "begin"))
    end(served, job_id, first, JobState.RUNNING)
    second = run(served, job_id, number=2)
    served.spool.append(second[0].key, "stdout", 0, b"second")
    end(served, job_id, second)
    assert [item[3] for item in messages(stream) if item[0] == 1] == [b"second"]


def test_of_a_node_that_is_no_more_what_is_here_is_all_there_will_be(served):
    job_id = served.submit()
    parts = run(served, job_id)
    served.spool.append(parts[0].key, "stdout", 0, b"so far")
    served.change_part(parts[0], state=AttemptState.ENDED, ended=9.0, collected=False)
    served.change_job(job_id, state=JobState.NODE_FAIL, end_time=9.0)
    served.restart(config=replace(served.config, nodes=served.config.nodes[1:]))
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    assert [item[3] if item[0] == 1 else item[0] for item in messages(stream)] == ["state", b"so far", "end"]
    answer = http.request(served.endpoint, "GET", f"/v1/jobs/{job_id}/output")
    assert (answer.body, answer.headers["x-mgpu-complete"]) == (b"so far", "1")


def test_what_the_nodes_have_is_fetched_for_who_wants_it_fresh(served):
    job_id = served.submit()
    parts = run(served, job_id, ranks=2)
    for query in ("", "?fresh=1"):
        assert http.request(served.endpoint, "GET", f"/v1/jobs/{job_id}/output{query}").status == 200
    assert served.desk.brought == [part.key for part in parts]
