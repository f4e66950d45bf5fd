"""What a client keeps of a job's stdin, and what it does when the master says something unexpected."""

from __future__ import annotations

import json
import os
from typing import Any

from mgpu.client import stdin
from mgpu.client.websocket import TEXT


def given(data: bytes, ended: bool = True) -> stdin.Stdin:
    """One that has read these bytes from a pipe."""
    reader, writer = os.pipe()
    os.write(writer, data)
    if ended:
        os.close(writer)
    made = stdin.Stdin(reader)
    made.told(taken())
    made.read()
    if ended:
        made.read()
    return made


def taken(attempt: int = 1, fed: int = 0, here: int = 0, over: bool = False) -> dict[str, Any]:
    return {"attempt": attempt, "fed": fed, "here": here, "over": over}


def sent(made: stdin.Stdin) -> list[Any]:
    return [
        json.loads(payload) if opcode == TEXT else (stdin.HEAD.unpack_from(payload)[1], payload[stdin.HEAD.size :])
        for opcode, payload in made.frames()
    ]


END = {"stdin": "end", "attempt": 1}


def test_nothing_is_read_before_the_job_can_take_it() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    made = stdin.Stdin(reader)
    made.told(taken(attempt=0))
    assert (made.descriptors(), sent(made)) == ([], [])
    made.told(taken())
    assert made.descriptors() == [reader]


def test_the_end_is_told_once_behind_the_bytes() -> None:
    made = given(b"abc")
    assert sent(made) == [(1, b"abc"), END]
    assert (sent(made), made.descriptors()) == ([], [])


def test_after_a_cut_it_goes_on_where_the_master_is() -> None:
    made = given(b"abcdef")
    sent(made)
    made.told(taken(fed=2, here=6))
    made.cut()
    made.told(taken(fed=2, here=4))
    assert sent(made) == [(1, b"ef"), END]


def test_bytes_of_others_move_ours() -> None:
    made = given(b"abc", ended=False)
    sent(made)
    made.cut()
    made.told(taken(here=10))  # seven of these are not ours
    assert sent(made) == []


def test_the_same_command_again_gives_what_is_missing() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"abcdef")
    os.close(writer)
    made = stdin.Stdin(reader, again=True)
    made.told(taken(fed=2, here=4))
    for _ in range(2):
        made.read()
    assert sent(made) == [(1, b"ef"), END]
    made.told(taken(fed=5, here=6))
    made.cut()
    made.told(taken(fed=5, here=5))
    assert sent(made) == [(1, b"f"), END]


def test_another_attempt_reads_it_all_if_all_is_there() -> None:
    made = given(b"abc")
    sent(made)
    made.told(taken(attempt=2))
    assert sent(made) == [(2, b"abc"), {**END, "attempt": 2}]
    assert not made.lost


def test_another_attempt_reads_nothing_if_some_is_gone() -> None:
    made = given(b"abc", ended=False)
    sent(made)
    made.told(taken(fed=1, here=3))
    made.told(taken(attempt=2))
    assert made.lost
    assert sent(made) == [{**END, "attempt": 2}]
    assert made.descriptors() == []


def test_when_nobody_reads_it_is_not_read_here_either() -> None:
    made = given(b"abc", ended=False)
    made.told(taken(over=True, here=1))
    assert (sent(made), made.descriptors()) == ([], [])
    assert not made.lost


def test_no_more_is_read_than_may_have_to_be_sent_again() -> None:
    made = given(b"abc", ended=False)
    made._kept.add(bytes(stdin.KEPT_B))
    assert made.descriptors() == []
    sent(made)
    made.told(taken(fed=100, here=100))
    assert made.descriptors() != []


def test_the_size_is_told_again_to_another_master() -> None:
    made = given(b"k", ended=False)
    sent(made)
    made.told(taken(fed=1, here=1))
    made.resize(24, 80)
    made.resize(50, 132)
    size = {"stdin": "size", "rows": 50, "columns": 132}
    assert sent(made) == [size]
    assert sent(made) == []
    made.cut()
    made.told(taken(fed=1, here=1))
    assert sent(made) == [size]


def test_what_cannot_be_read_has_ended() -> None:
    folder = os.open("/", os.O_RDONLY)
    made = stdin.Stdin(folder)
    made.told(taken())
    made.read()
    assert sent(made) == [END]
    os.close(folder)


def test_a_window_that_was_closed_is_no_end() -> None:
    reader, writer = os.pipe()
    made = stdin.Stdin(reader, lambda typed: typed)
    made.told(taken())
    os.close(writer)
    made.read()
    assert (sent(made), made.descriptors()) == ([], [])
