"""Whether the accounts of those who submit can be entered on the nodes: asked just before anything of theirs starts.

Where one cannot be, that is a reason why its jobs wait there, and no fault of the node: nothing is started, so nothing
fails. It is tried again now and then for as long as somebody waits for it, and at once when a user tests it (enroll).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core.errors import NotAllowed
from mgpu.core.logins import why_shut
from mgpu.core.model import NodeName
from mgpu.core.plan import Barred, Batch, Closed, Shut, Snapshot
from mgpu.logbook import about
from mgpu.master.board import Board
from mgpu.master.links import Links
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError, Trouble

log = logging.getLogger(__name__)

FRESH_S = 5.0  # so long an answer is good for a start
PATIENCE_S = 5.0  # with a login that does not come to an end; then jobs go elsewhere
AGAIN_S = (30.0, 600.0)  # a door that was found shut, each time twice as long
SOON_S = 10.0  # where it was the way there

_Key = tuple[NodeName, str]


@dataclass(slots=True)
class _Door:
    """`why` "" = it opens, None = not known; learnt at `at`, asked since `since` (inf: nobody is at it)."""

    why: str | None = None
    at: float = -inf
    pause_s: float = AGAIN_S[0]
    since: float = inf


class Doors:
    """Any thread."""

    def __init__(self, links: Links, config: Config, threads: Threads, clock: Clock) -> None:
        self.links = links
        self._config = config
        self._threads = threads
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[_Key, _Door] = {}
        self._apart = config.run_as == "submitter"

    def account_of(self, user: str, node: NodeName) -> str:
        """Under which the jobs of this user run there. Raises NotAllowed."""
        return self._config.logins.login_of(user) if self._apart else self.links[node].account

    # --- for the plan -----------------------------------------------------------------------------------------------

    def close(self, seen: Snapshot, board: Board) -> Snapshot:
        """With the nodes where nothing of an owner may start now closed to it."""
        if not self._apart:
            return seen
        reasons = self._reasons(board)
        shut = {
            owner.user: self._shut_to(owner.user, reasons) for owner in {batch.owner for batch in seen.batches} if owner
        }
        return replace(seen, batches=tuple([_with(batch, shut) for batch in seen.batches]))

    def _reasons(self, board: Board) -> dict[str, dict[NodeName, str]]:
        """By login: the nodes that are shut to it. What was given up there has to be ended before more of it starts,
        and others need not wait for that."""
        found: dict[str, dict[NodeName, str]] = {}
        now = self._clock.monotonic()
        with self._lock:
            for (name, login), door in self._known.items():
                late = now - door.since > PATIENCE_S
                if why := door.why or (f"the login as {login} has not been answered yet" if late else ""):
                    found.setdefault(login, {})[name] = why
        for _item, part in board.parts():
            if part.owes_fence:
                found.setdefault(part.account, {}).setdefault(part.node, "a job that was given up is looked for first")
        return found

    def _shut_to(self, user: str, reasons: Mapping[str, Mapping[NodeName, str]]) -> Closed:
        try:
            shut = reasons.get(self._config.logins.login_of(user), {})
        except NotAllowed as error:
            shut = dict.fromkeys(self.links, error.message)
        return tuple([(name, Shut(why, Barred.LOGIN)) for name, why in shut.items()])

    def unsure(self, user: str, names: Iterable[NodeName]) -> list[NodeName]:
        """Where it is not known of this moment that something of theirs may start: there it is tried now."""
        if not self._apart:
            return []
        login, now = self._config.logins.login_of(user), self._clock.monotonic()
        found = [name for name in names if not self._is_open(name, login, now)]
        for name in found:
            self._knock(name, login, user)
        return found

    def _is_open(self, name: NodeName, login: str, now: float) -> bool:
        with self._lock:
            door = self._known.get((name, login))
            return door is not None and door.why == "" and now - door.at <= FRESH_S

    def retry(self, users: Iterable[str]) -> float:
        """Of these, who wait, those doors that are shut are tried again in time; seconds until the next is due."""
        soonest, now = AGAIN_S[1], self._clock.monotonic()
        for user in users if self._apart else ():
            try:
                login = self._config.logins.login_of(user)
            except NotAllowed:
                continue
            with self._lock:
                theirs = [(key[0], door) for key, door in self._known.items() if key[1] == login]
                shut = [(name, door.at + door.pause_s) for name, door in theirs if door.why and door.since == inf]
            for name, due in shut:
                if due <= now:
                    self._knock(name, login, user)
                soonest = min(soonest, max(0.1, due - now))
        return soonest

    def _knock(self, name: NodeName, login: str, user: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            door = self._known.setdefault((name, login), _Door())
            if door.since != inf:
                return
            door.since = now

        def knock() -> None:
            self._try(name, login, user, anew=False)

        self._threads.spawn(f"enter {name} as {login}", knock)

    def _try(self, name: NodeName, login: str, user: str, anew: bool) -> str:
        """Why it does not open; "" = it does."""
        why, transient = "it could not be tried: the master's log says more", True
        link = self.links.under(name, login)
        try:
            if link is None:
                why, transient = "the node is no longer in the inventory", False
            else:
                if anew:
                    link.runner.enter()
                else:
                    link.runner.look(())
                why = ""
        except RemoteError as error:
            transient = error.transient
            refused = error.trouble is Trouble.AUTHENTICATION
            why = why_shut(user, login, self._sudo(name), refused, error.message)
        finally:
            self._learn(name, login, why, transient)
        return why

    def _learn(self, name: NodeName, login: str, why: str, transient: bool) -> None:
        with self._lock:
            door = self._known.setdefault((name, login), _Door())
            if why != (door.why or ""):
                log.info("as %s: %s", login, why or "can be entered", extra=about(node=name))
            later = min(2 * door.pause_s, AGAIN_S[1]) if door.why else AGAIN_S[0]
            door.pause_s = SOON_S if transient else later
            door.why, door.at, door.since = why, self._clock.monotonic(), inf
        self.links.wake()

    # --- for the user -----------------------------------------------------------------------------------------------

    def _sudo(self, name: NodeName) -> bool:
        return self._config.via == "sudo" or self.links[name].config.connection == "local"

    def test(self, user: str, names: Sequence[NodeName]) -> list[str | None]:
        """By a login made now: why nothing of theirs can start on each of these nodes, "" = it can, None = no answer in
        time. Raises NotAllowed."""
        limit_s = self._config.login_timeout_s + PATIENCE_S

        def task(name: NodeName, login: str) -> Callable[[], str]:
            return lambda: self._try(name, login, user, anew=True)

        return self._threads.together([task(name, self.account_of(user, name)) for name in names], limit_s)


def _with(batch: Batch, shut: dict[str, Closed]) -> Batch:
    more = shut.get(batch.owner.user, ()) if batch.owner else ()
    return batch._replace(closed=(*batch.closed, *more)) if more else batch
