"""A job's stdin from a client's pipe to the ranks' own: whatever is cut in between, each byte once and in order."""

from __future__ import annotations

import json
import os
import random

import pytest

from mgpu.client import stdin as client
from mgpu.client.websocket import BINARY
from mgpu.master import stdin as master
from mgpu.remote.errors import RemoteError


class Node:
    """A rank's pipe, as remote/feed gives to it; cut off in the middle now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.taken = bytearray()
        self.ended = False
        self.sizes: list[tuple[int, int]] = []

    @property
    def fed(self) -> int:
        return len(self.taken)

    def give(self, data: bytes) -> None:
        assert not self.ended
        reached = self.chance.choice((len(data), len(data), self.chance.randint(0, len(data))))
        self.taken += data[:reached]
        if reached < len(data):
            raise RemoteError("cut")

    def end(self) -> None:
        self.ended = True

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))


class Way:
    """A client, a master and nodes; each step moves something on, or breaks it."""

    def __init__(self, seed: int, ranks: int, data: bytes) -> None:
        self.chance = random.Random(seed)
        self.nodes = [Node(self.chance) for _ in range(ranks)]
        reader, self.writer = os.pipe()
        self.client = client.Stdin(reader)
        self.data = memoryview(data)
        self.new_master()

    def new_master(self) -> None:
        self.cut()
        self.master = master.Stdin()
        self.master.subscribe(lambda: None)
        self.master.begin(1, len(self.nodes))

    def cut(self) -> None:
        self.wire: list[tuple[int, bytes]] = []
        self.client.cut()

    def write(self) -> None:
        if not self.data:
            return
        size = self.chance.randint(1, 200)
        os.write(self.writer, self.data[:size])
        self.data = self.data[size:]
        if not self.data:
            os.close(self.writer)

    def read(self) -> None:
        if self.client.descriptors() and (not self.data or self.pending):
            self.client.read()

    @property
    def pending(self) -> bool:
        import select

        return bool(select.select(self.client.descriptors(), [], [], 0)[0])

    def tell(self) -> None:
        taken = self.master.taken()
        self.client.told({key: getattr(taken, key) for key in ("attempt", "fed", "here", "ended", "over")})

    def send(self) -> None:
        self.wire += self.client.frames()

    def arrive(self) -> None:
        for opcode, payload in self.wire:
            if opcode == BINARY:
                self.master.give(client.HEAD.unpack_from(payload)[1], payload[client.HEAD.size :])
            elif json.loads(payload)["stdin"] == "end":
                self.master.end(json.loads(payload)["attempt"])
        self.wire.clear()

    def give(self) -> None:
        for rank, node in enumerate(self.nodes):
            if self.chance.random() < 0.3:
                continue
            self.master.begin_to_give(1, rank, node.fed)
            with self.master._change:
                order = self.master._order(self.master._readers[rank])
            try:
                if order:
                    order(node)  # type: ignore[arg-type]
                    self.master.reached(1, rank, node.fed)
            except RemoteError:
                pass

    @property
    def done(self) -> bool:
        return all(node.ended for node in self.nodes)


@pytest.mark.parametrize("seed", range(60))
def test_each_byte_once_whatever_is_cut(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "KEPT_B", 500)
    monkeypatch.setattr(client, "PIECE_B", 90)
    monkeypatch.setattr(master, "PIECE_B", 70)
    data = random.Random(seed).randbytes(3000)
    way = Way(seed, ranks=1 + seed % 3, data=data)
    steps = [way.write, way.read, way.tell, way.send, way.arrive, way.give]
    for _ in range(4000):
        way.chance.choice(steps)()
        if way.chance.random() < 0.03:
            way.chance.choice([way.cut, way.new_master])()
        if way.done:
            break
    for _ in range(200):
        for step in steps:
            step()
    assert way.done
    assert all(bytes(node.taken) == data for node in way.nodes)


def stdin(ranks: int = 1, attempt: int = 1) -> master.Stdin:
    made = master.Stdin()
    made.subscribe(lambda: None)
    made.begin(attempt, ranks)
    return made


def test_nothing_is_taken_before_all_ranks_are_there() -> None:
    given = stdin(ranks=2)
    given.reached(1, 0, 0)
    given.give(1, b"early")
    assert given.taken().attempt == 0
    given.reached(1, 1, 0)
    assert given.taken()[:3] == (1, 0, 0)
    given.give(1, b"data")
    given.give(2, b"of another attempt")
    assert given.taken()[:3] == (1, 0, 4)


def test_what_a_slow_rank_has_not_is_kept_and_makes_no_room() -> None:
    given = stdin(ranks=2)
    for rank in (0, 1):
        given.begin_to_give(1, rank, 0)
    given.give(1, bytes(master.KEPT_B))
    assert not given.taken().room
    given.reached(1, 0, master.KEPT_B)
    assert (given.taken().fed, given.taken().room) == (0, False)
    given.leave(1, 1, over=True)  # it will read nothing any more: no reason to wait for it
    assert (given.taken().fed, given.taken().room, given.taken().over) == (master.KEPT_B, True, False)
    given.leave(1, 0, over=True)
    assert given.taken().over


def test_one_thread_a_rank_gives() -> None:
    given = stdin()
    assert given.claim(0)
    assert not given.claim(0)
    given.leave(1, 0, over=False)
    assert given.claim(0)


def test_what_was_given_is_brought_there_though_its_giver_left() -> None:
    given = master.Stdin()
    given.subscribe(print)
    given.begin(1, 1)
    given.reached(1, 0, 0)
    given.give(1, b"last words")
    given.unsubscribe(print)
    assert given.used
    node = Node(random.Random(3))
    node.chance.choice = lambda options: options[0]  # type: ignore[method-assign, assignment]
    order = given.next(1, 0)
    assert order is not None
    order(node)  # type: ignore[arg-type]
    given.reached(1, 0, node.fed)
    assert given.next(1, 0) is None
    assert bytes(node.taken) == b"last words"
    assert not given.used
