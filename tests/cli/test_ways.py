"""Lines that somebody pastes: right for the machine where that somebody sits."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.cli.ways import ways
from mgpu.client.head import Head

NODE = {"host": "10.0.0.1", "port": 22, "user": "train"}
HOP = {"host": "bastion", "port": 2200, "user": "me"}


def login(here: list[str], there: Any, rank: int = 0) -> dict[str, Any]:
    return {"rank": rank, "node": "gpu01", "here": here, "there": there}


PLAIN = login(["-l", "train", "gpu01"], [NODE])
BEHIND = login(["gpu01"], [HOP, {**NODE, "port": 2222}])
OURS = login(["-i", "/my key", "gpu01"], None)
SAME = login([], None)
HEAD = Head("head", "me", 2022)


@pytest.mark.parametrize(
    ("found", "head", "line"),
    [
        (PLAIN, None, "ssh -l train gpu01"),
        (PLAIN, HEAD, "ssh -J me@head:2022 train@10.0.0.1"),
        (PLAIN, Head("fe80::1"), "ssh -J '[fe80::1]' train@10.0.0.1"),
        (BEHIND, HEAD, "ssh -J me@head:2022,me@bastion:2200 -p 2222 train@10.0.0.1"),
        (OURS, None, "ssh -i '/my key' gpu01"),
        (OURS, HEAD, """ssh -t -p 2022 -l me head 'ssh -i '"'"'/my key'"'"' gpu01'"""),
        (SAME, HEAD, "ssh -p 2022 -l me head"),
    ],
)
def test_a_way_to_log_in(found: dict[str, Any], head: Head | None, line: str) -> None:
    assert ways([found], head)[0] == ("log in", line)


def test_a_port_of_the_job_brought_here() -> None:
    assert ways([PLAIN], HEAD)[1:] == [
        ("port 8888", "ssh -N -L 8888:localhost:8888 -J me@head:2022 train@10.0.0.1"),
    ]
    assert len(ways([OURS], HEAD)) == 1  # a shell there brings no port here


def test_several_nodes_and_none() -> None:
    second = login(["gpu02"], [NODE], 1)
    assert [word for word, _ in ways([PLAIN, second], None)] == ["log in 0", "log in 1", "port 8888"]
    assert ways([SAME], None) == []
    assert ways([], HEAD) == []
