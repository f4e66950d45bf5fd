"""Logins on jump hosts, shared by the nodes behind them.

A hundred nodes behind one jump host would be a hundred logins there, all at the moment when the master begins: sshd
drops those above MaxStartups, and an administrator asks who that is. Connections to nodes are channels of a login on
the jump host, and one carries many; its MaxSessions does not count them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

NODES_A_LOGIN = 25  # one that hangs takes no more than these with it

Chain = TypeVar("Chain")
Link = TypeVar("Link")


@dataclass(slots=True, eq=False)
class _Shared(Generic[Link]):
    link: Link
    users: int = 0


@dataclass(slots=True, eq=False)
class _Place(Generic[Link]):
    """All logins on one jump host. `turn`: held while somebody logs in, so that they come one after the other."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    shared: list[_Shared[Link]] = field(default_factory=list)


class Gateways(Generic[Chain, Link]):
    """`alive(link)`: it still carries connections; `close(link)` ends it."""

    def __init__(self, alive: Callable[[Link], bool], close: Callable[[Link], None]) -> None:
        self._alive = alive
        self._close = close
        self._lock = threading.Lock()
        self._places: dict[Chain, _Place[Link]] = {}

    def borrow(self, chain: Chain, login: Callable[[], Link]) -> tuple[Link, Callable[[], None]]:
        """A login there, and what to call once when it is no longer needed. Raises what `login` raises."""
        with self._lock:
            place = self._places.setdefault(chain, _Place())
        with place.turn:
            shared = self._one_with_room(place)
            if shared is None:
                shared = _Shared(login())
                with self._lock:
                    place.shared.append(shared)
                    shared.users = 1
        return shared.link, self._release(place, shared)

    def _one_with_room(self, place: _Place[Link]) -> _Shared[Link] | None:
        with self._lock:
            place.shared = [shared for shared in place.shared if self._alive(shared.link)]
            for shared in place.shared:
                if shared.users < NODES_A_LOGIN:
                    shared.users += 1
                    return shared
        return None

    def _release(self, place: _Place[Link], shared: _Shared[Link]) -> Callable[[], None]:
        once = threading.Lock()

        def release() -> None:
            if not once.acquire(blocking=False):
                return
            with self._lock:
                shared.users -= 1
                idle = shared.users == 0
                if idle and shared in place.shared:
                    place.shared.remove(shared)
            if idle:
                self._close(shared.link)

        return release
