from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mgpu.client.http import Endpoint, MasterError
from mgpu.client.job_stream import Event, JobStream, Output
from mgpu.client.locate import Location
from mgpu.client.master import Master
from tests.client.peer import CUT, Peer, end, output, state


def follow(peer: Peer, **where: int) -> list[Any]:
    """All that a follower sees, without the pauses."""
    location = Location("", "", Endpoint(peer.path, "", (os.getuid(),)), personal=False)
    reader, writer = os.pipe()
    try:
        stream = JobStream(Master(location), 17, **where)
        return [item for item in stream.items(reader) if item is not None]
    finally:
        os.close(reader)
        os.close(writer)


def names(items: list[Any]) -> list[Any]:
    return [item.name if isinstance(item, Event) else item for item in items]


def test_output_and_events_in_order(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer:
        peer.streams = [[state("RUNNING"), output(b"out\n"), output(b"\xff\0", kind=2), end("COMPLETED")]]
        items = follow(peer, rank=0, attempt=1)
        assert names(items) == ["state", Output(1, 0, b"out\n"), Output(2, 0, b"\xff\0"), "end"]
        assert peer.paths() == ["/v1/jobs/17/stream?stdout=0&stderr=0&rank=0&attempt=1"]


def test_after_a_cut_each_byte_is_seen_once(tmp_path: Path) -> None:
    two = {"allocation": [{"rank": 0}, {"rank": 1}]}
    with Peer(tmp_path / "s") as peer:
        peer.streams = [
            [state("RUNNING", **two), output(b"abcdef"), output(b"xy", rank=1), output(b"err", kind=2), CUT],
            [state("RUNNING", **two), output(b"cdefgh", offset=2), output(b"z", rank=1, offset=2), CUT],
            [state("RUNNING", **two), output(b"xyz", rank=1), end("COMPLETED")],
        ]
        items = follow(peer)
        outputs = [item for item in items if isinstance(item, Output)]
        assert outputs == [
            Output(1, 0, b"abcdef"),
            Output(1, 1, b"xy"),
            Output(2, 0, b"err"),
            Output(1, 0, b"gh"),
            Output(1, 1, b"z"),
        ]
        streams = [path for path in peer.paths() if "stream" in path]
        assert streams[1:] == [
            "/v1/jobs/17/stream?stdout=6%2C2&stderr=3%2C0&attempt=1",
            "/v1/jobs/17/stream?stdout=8%2C3&stderr=3%2C0&attempt=1",
        ]
        assert [item for item in names(items) if isinstance(item, str)].count("found") == 2


def test_a_new_attempt_begins_at_its_own_start(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer:
        peer.streams = [
            [state("RUNNING"), output(b"first"), {"event": "attempt", "attempt": 2}, output(b"second"), CUT],
            [state("RUNNING", attempt=2), output(b"!", offset=6), end("COMPLETED", attempt=2)],
        ]
        items = follow(peer)
        assert b"".join(item.data for item in items if isinstance(item, Output)) == b"firstsecond!"
        assert peer.paths()[-1] == "/v1/jobs/17/stream?stdout=6&stderr=0&attempt=2"


def test_missing_bytes_are_never_passed_over(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer, pytest.raises(MasterError, match="missing from byte 0 to 5"):
        peer.streams = [[state("RUNNING"), output(b"late", offset=5)]]
        follow(peer)


def test_a_refusal_ends_it(tmp_path: Path) -> None:
    with Peer(tmp_path / "s") as peer, pytest.raises(MasterError, match="no /v1/jobs/17/stream"):
        follow(peer)
