"""All links: of each node its own, under mgpu's account there, and one for each other account that has parts on it.

The node's own probes and looks at the machine. All that is done to a part goes through the link of the part's account,
and that is the stored one, whatever the configuration says by now. Such links are made when they are needed, also by a
master that has just begun, and closed when nothing of theirs was open for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import chain

from mgpu.core.errors import NotFound
from mgpu.core.model import AttemptState, NodeName, Part
from mgpu.master.board import Board
from mgpu.master.link import NodeLink
from mgpu.meters import Contact

IDLE_S = 300.0

_Key = tuple[NodeName, str]


class Links(Mapping[NodeName, NodeLink]):
    """As a mapping: the nodes' own. `make` makes one for an account of a node; None = a node's own serves all.
    `public_key`: of what these are entered with. `wake`: the master, who has news of them."""

    def __init__(
        self,
        own: Mapping[NodeName, NodeLink],
        make: Callable[[NodeName, str], NodeLink] | None = None,
        public_key: Callable[[], str] = lambda: "",
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.public_key = public_key
        self.wake = wake
        self._own = own
        self._make = make
        self._others: dict[_Key, NodeLink] = {}
        self._used: dict[_Key, float] = {}  # monotonic: when last something of theirs was open
        self._lock = threading.Lock()
        self._closed = False

    def __getitem__(self, name: NodeName) -> NodeLink:
        return self._own[name]

    def __iter__(self) -> Iterator[NodeName]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def named(self, name: NodeName) -> NodeLink:
        """A node's own. Raises NotFound."""
        if name not in self._own:
            raise NotFound(f"there is no node {name!r}")
        return self._own[name]

    def of(self, part: Part) -> NodeLink | None:
        """None: its node is no longer in the inventory. Any thread."""
        return self.under(part.node, part.account)

    def under(self, name: NodeName, account: str) -> NodeLink | None:
        """As `of`."""
        own = self._own.get(name)
        if own is None or self._make is None or account in ("", own.account, *own.whose):
            return own
        with self._lock:
            found = self._others.get((name, account))
            if found is None:
                found = self._make(name, account)
                if not self._closed:
                    self._others[name, account] = found
            return found

    def tend(self, board: Board, up: Container[NodeName], monotonic: float) -> None:
        """Part of a pass: those that have parts in sight follow their events, those that have none for long end."""
        if self._make is None:
            return
        for _item, part in board.parts():
            link = self.of(part)
            if link is None or link is self._own.get(part.node):
                continue
            self._used[part.node, part.account] = monotonic
            in_sight = part.state.holds_devices and part.state is not AttemptState.LOST
            if in_sight and part.node in up:
                link.listen()
        with self._lock:
            idle = [key for key in self._others if monotonic - self._used.setdefault(key, monotonic) > IDLE_S]
            ended = [(self._others.pop(key), self._used.pop(key)) for key in idle]
        for link, _ in ended:
            link.close()

    def contacts(self) -> dict[NodeName, Contact]:
        """With all accounts of each node."""
        with self._lock:
            others = [(key[0], link.runner.contact) for key, link in self._others.items()]
        found = {name: link.runner.contact for name, link in self._own.items()}
        for name, theirs in others:
            found[name] = Contact(*[one + other for one, other in zip(found[name], theirs, strict=True)])
        return found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            links = list(chain(self._own.values(), self._others.values()))
        for link in links:
            link.close()
