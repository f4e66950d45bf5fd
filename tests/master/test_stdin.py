"""A job's stdin from a client's pipe to the ranks' own: whatever is cut in between, each byte once and in order."""

from __future__ import annotations

import json
import os
import random
from types import SimpleNamespace
from typing import Any

import pytest

from mgpu.client import stdin as client
from mgpu.client.websocket import BINARY
from mgpu.master import stdin as master


class Node:
    """A rank's pipe, as remote/feed gives to it: what is asked of it is done later, and as far as the link lasts."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.taken = bytearray()
        self.ended = False
        self.orders: list[bytes | None] = []  # None: the end
        self.linked = False

    @property
    def fed(self) -> int:
        return len(self.taken)

    def give(self, data: bytes) -> None:
        self.orders.append(data)

    def end(self) -> None:
        self.orders.append(None)

    def work(self) -> None:
        if self.orders:
            data = self.orders.pop(0)
            assert data is None or not self.ended
            self.ended = self.ended or data is None
            self.taken += data or b""

    def cut(self) -> None:
        """In the middle of what is under way."""
        if self.orders and self.orders[0]:
            self.taken += self.orders[0][: self.chance.randint(0, len(self.orders[0]))]
        self.orders.clear()
        self.linked = False


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
        for node in self.nodes:
            node.cut()
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
        self.client.told({key: getattr(taken, key) for key in ("attempt", "fed", "here", "over")})

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
            if not node.linked:
                node.linked = True
                self.master.begin_to_give(1, rank, node.fed)
            with self.master._change:
                act = self.master._act(self.master._readers[rank])
            if act:
                act(node)  # type: ignore[arg-type]
            if self.chance.random() < 0.4:
                node.work()
                self.master.reached(1, rank, node.fed)

    def cut_a_node(self) -> None:
        self.chance.choice(self.nodes).cut()

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
    for _ in range(way.chance.randint(100, 800)):
        way.chance.choice(steps)()
        if way.chance.random() < 0.05:
            way.chance.choice([way.cut, way.cut_a_node, way.new_master])()
        if way.done:
            break
    for _ in range(1000):
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
    assert given.used(running=True)
    assert not given.used(running=False)
    node = Node(random.Random(3))
    order = given.next(1, 0)
    assert order is not None
    order(node)  # type: ignore[arg-type]
    node.work()
    given.reached(1, 0, node.fed)
    assert given.next(1, 0) is None
    assert bytes(node.taken) == b"last words"
    assert not given.used(running=True)


def test_a_size_that_is_told_again_is_an_order_again() -> None:
    given = stdin()
    given.begin_to_give(1, 0, 0)
    sizes: list[tuple[int, int]] = []
    feed: Any = SimpleNamespace(resize=lambda rows, columns: sizes.append((rows, columns)))
    for _ in range(2):
        given.resize(24, 80)
        order = given.next(1, 0, wait=False)
        assert order is not None
        order(feed)
        assert given.next(1, 0, wait=False) is None
    given.begin_to_give(1, 0, 0)  # it may have been lost with the link
    order = given.next(1, 0, wait=False)
    assert order is not None
    order(feed)
    assert sizes == [(24, 80)] * 3


def test_an_end_that_was_lost_with_the_link_is_told_again() -> None:
    given, node = stdin(), Node(random.Random(3))
    given.begin_to_give(1, 0, 0)
    given.end(1)
    for _ in range(2):
        order = given.next(1, 0, wait=False)
        assert order is not None
        order(node)  # type: ignore[arg-type]
        assert given.next(1, 0, wait=False) is None
        node.cut()
        given.begin_to_give(1, 0, 0)
