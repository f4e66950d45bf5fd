"""Which link serves a part, and how long those of other accounts last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mgpu.core.model import AttemptState, NodeName
from mgpu.master.links import IDLE_S, Links

NODE = NodeName("node001")


class Link:
    def __init__(self, name: NodeName, account: str) -> None:
        self.name, self.account = name, account
        self.whose: tuple[str, ...] = ()
        self.closed, self.listens = False, 0

    def listen(self) -> None:
        self.listens += 1

    def close(self) -> None:
        self.closed = True


class Board:
    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def parts(self) -> Any:
        return [(None, part) for part in self._parts]


def part(account: str, state: AttemptState = AttemptState.RUNNING, node: str = NODE) -> Any:
    return SimpleNamespace(node=NodeName(node), account=account, state=state)


def links(account: str = "gpuq") -> tuple[Links, Any]:
    own: Any = Link(NODE, account)
    make: Any = Link
    return Links({NODE: own}, make), own


def test_the_stored_account_decides() -> None:
    all_links, own = links()
    assert all_links.of(part("gpuq")) is own
    assert all_links.of(part("")) is own  # from before accounts were told
    ann = all_links.of(part("ann"))
    assert ann is not None
    assert ann.account == "ann"
    assert all_links.of(part("ann")) is ann
    assert all_links.of(part("ann", node="elsewhere")) is None
    assert [*all_links] == [NODE]
    assert all_links[NODE] is own


def test_what_an_older_master_called_its_own_is_still_that() -> None:
    all_links, own = links()
    own.whose = ("gpuq", "", "root")
    assert all_links.of(part("root")) is own


def test_where_there_is_one_account_it_serves_all() -> None:
    own: Any = Link(NODE, "gpuq")
    assert Links({NODE: own}).of(part("ann")) is own


def test_events_are_followed_while_something_is_in_sight() -> None:
    all_links, own = links()
    ann: Any = all_links.of(part("ann"))
    board: Any = Board(part("ann"), part("gpuq"))
    all_links.tend(board, {NODE}, 0.0)
    assert (ann.listens, own.listens) == (1, 0)  # the probing sees to the nodes' own
    all_links.tend(board, (), 1.0)
    lost: Any = Board(part("ann", AttemptState.LOST))
    all_links.tend(lost, {NODE}, 2.0)
    assert ann.listens == 1


def test_what_nobody_needs_any_more_is_closed_after_a_while() -> None:
    all_links, own = links()
    ann: Any = all_links.of(part("ann"))
    open_part: Any = Board(part("ann", AttemptState.ENDED))  # its output is still to come
    nothing: Any = Board()
    all_links.tend(open_part, {NODE}, 1000.0)
    all_links.tend(nothing, {NODE}, 1000.0 + IDLE_S)
    assert not ann.closed
    all_links.tend(nothing, {NODE}, 1001.0 + IDLE_S)
    assert ann.closed
    assert not own.closed
    assert all_links.of(part("ann")) is not ann
