"""Stored parts -> orders to nodes. Run on every pass; giving an order again is harmless (node.sh sees to that), so all
that is remembered is what need not be said twice at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from mgpu.core import launch
from mgpu.core.errors import StoreError
from mgpu.core.gang import Gang
from mgpu.core.lifecycle import START_HANGS, News, PartEvent
from mgpu.core.meeting import Meeting
from mgpu.core.model import AttemptState, FailureClass, Job, NodeName, Part, PartKey
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Done, Heard, Inbox
from mgpu.master.link import Known, NodeLink
from mgpu.master.links import Links
from mgpu.master.preflight import Preflight, why_not
from mgpu.remote.runner import Refusal
from mgpu.store.exports import Exports
from mgpu.store.trees import Trees

LOOK_SOON_S = 1.0  # while something begins or ends
LOOK_S = 5.0  # the sweep that finds what no event told, and how much was written
LOOK_LOST_S = (1.0, 30.0)  # backoff while contact is lost
START_LIMIT_S = 60.0  # from the request to `started`: then the node hangs
UNPACK_S = 240.0  # more, where a tree has to be unpacked; a gang waits for its last for 300
AGAIN_S = 5.0  # a stop or a go of which nothing shows may not have arrived
AGAIN_THEIRS_S = 15.0
_NEVER_TOLD = -1  # no limit is that


@dataclass(slots=True)
class _Looks:
    """When the parts of an account on a node are looked at next."""

    due: float = 0.0
    pause: float = LOOK_LOST_S[0]


class Realiser:
    def __init__(
        self,
        links: Links,
        inbox: Inbox,
        renumbered: Callable[[NodeName], bool],
        trees: Trees,
        exports: Exports,
        preflight: Preflight,
    ) -> None:
        self._exports = exports
        self._trees = trees
        self._preflight = preflight
        self._links = links
        self._renumbered = renumbered
        self._inbox = inbox
        self._given: dict[tuple[str, PartKey], float] = {}
        self._under_way: set[tuple[str, PartKey]] = set()
        self._accepted: dict[PartKey, float] = {}  # when a node was first known to have taken a start
        self._not_begun: dict[PartKey, float] = {}  # when it was last seen not to have begun
        self._asked: set[PartKey] | None = None  # parts that a start may have been sent for, also by a master before
        self._limits = _Limits()
        self._looks: dict[tuple[NodeName, str], _Looks] = {}

    # --- what came of it ------------------------------------------------------------------------------------------

    def done(self, done: Done, monotonic: float) -> None:
        """Just now: the order may have waited long for its turn."""
        order = (done.what, done.key)
        self._under_way.discard(order)
        if order in self._given:
            self._given[order] = monotonic
        if done.what == "start" and done.answered:
            self._accepted.setdefault(done.key, monotonic)
        if done.what == "limit" and done.answered:
            self._limits.answered(done.key)
            self.again("limit", done.key)  # the next one may be wanted at once

    def seen(self, limits: Mapping[PartKey, int | None]) -> None:
        """The time limits that nodes know of."""
        self._limits.found(limits)

    def not_yet(self, key: PartKey, accepted: bool, monotonic: float) -> None:
        """A look shows that the part has not begun; `accepted`: and that the node took the start."""
        self._not_begun[key] = monotonic
        if accepted:
            self._accepted.setdefault(key, monotonic)

    def again(self, what: str, key: PartKey) -> None:
        """It was found not to have been carried out."""
        self._given.pop((what, key), None)

    @property
    def under_way(self) -> bool:
        return bool(self._under_way)

    def forget(self, board: Board) -> None:
        """What is done with needs no memory."""
        alive = {part.key for _, part in board.parts()}
        self._given = {order: at for order, at in self._given.items() if order[1] in alive}
        self._limits.forget(alive)
        self._asked = {key for key in self._asked or () if key in alive}
        for memory in (self._accepted, self._not_begun):
            for key in memory.keys() - alive:
                del memory[key]

    # --- orders -----------------------------------------------------------------------------------------------------

    def realise(self, board: Board, up: Container[NodeName], now: float, monotonic: float) -> float:
        """Give the orders that are due; seconds until the next one may be. `up`: the nodes that answer."""
        self._limits.begin(part.key for _, part in board.parts())
        self._preflight.follow(board)
        if self._asked is None:
            self._asked = {part.key for _, part in board.parts()}
        for item in board:
            for part in item.parts:
                link = self._links.of(part)
                if link is None:
                    continue
                if part.state is not AttemptState.ENDED:
                    self._realise(item, part, link, now, monotonic)
                elif part.owes_fence and part.node in up and self._owed(part, link, monotonic):
                    link.stop(Known(part, item.attempt.token_of(part)))
        return self._look(board, monotonic)

    def _owed(self, part: Part, link: NodeLink, monotonic: float) -> bool:
        """It is time to ask for it; less often in an account that perhaps nobody can enter any more."""
        pause_s = AGAIN_S if link is self._links.get(part.node) else AGAIN_THEIRS_S
        return self._repeatedly("stop", part.key, monotonic, pause_s)

    def _realise(self, item: Running, part: Part, link: NodeLink, now: float, monotonic: float) -> None:
        known = Known(part, item.attempt.token_of(part))
        if part.state is AttemptState.STARTING and not part.ready:
            if self._is_new("start", part.key):
                self._begin(item, known, link, monotonic)
            elif self._hangs(part, item.job):
                self._give_up_start(part, now)
        elif part.state is AttemptState.STARTING and _together(item.parts):
            if self._repeatedly("go", part.key, monotonic):
                link.go(part)
        elif part.state is AttemptState.RUNNING and self._limits.differs(part.key, item.job.spec.time_limit_s):
            if self._repeatedly("limit", part.key, monotonic):
                self._limits.tell(part.key, item.job.spec.time_limit_s)
                link.limit(known, item.job.spec.time_limit_s)
        elif part.state is AttemptState.STOPPING and self._repeatedly("stop", part.key, monotonic):
            link.stop(known)

    def _begin(self, item: Running, known: Known, link: NodeLink, monotonic: float) -> None:
        """Once it is known where its nodes reach each other: that is part of what it is told."""
        part = known.part
        meeting = self._preflight.judge(item)
        if meeting is None or (meeting.failed and part.node != _refused(item, meeting)):
            return  # the end of that one part is the others' too
        self._note("start", part.key, monotonic)
        first = self._first_request(part.key)
        if meeting.failed:
            link.refuse(known, Refusal(why_not(meeting), FailureClass.NETWORK), first)
            return
        try:
            job = self._with_values(item.job)
        except StoreError as error:
            link.refuse(known, Refusal(f"{error.message}: {error.hint}", FailureClass.DIRECTORY), first)
            return
        self._limits.started(part.key, job.spec.time_limit_s)
        link.start(known, self._launch(item, job, part, link, meeting.addresses), first, self._tree(job))

    def _first_request(self, key: PartKey) -> bool:
        assert self._asked is not None
        first = key not in self._asked
        self._asked.add(key)
        return first

    def _with_values(self, job: Job) -> Job:
        """Raises StoreError."""
        spec = job.spec
        return replace(job, spec=replace(spec, env=self._exports.read(spec.exports))) if spec.exports else job

    def _tree(self, job: Job) -> Callable[[], tuple[BinaryIO, int]] | None:
        tree = job.spec.tree
        return None if tree is None else lambda: self._trees.open(job.uid, tree.digest)

    def _hangs(self, part: Part, job: Job) -> bool:
        """Long after the node took the start, it was seen not to have begun: that nothing is heard proves nothing."""
        accepted = self._accepted.get(part.key)
        limit = START_LIMIT_S + (UNPACK_S if job.spec.tree else 0.0)
        return accepted is not None and self._not_begun.get(part.key, accepted) - accepted > limit

    def _give_up_start(self, part: Part, now: float) -> None:
        """The node took the request and nothing comes of it. Its records tell what it hung on, once it is ended."""
        self.again("start", part.key)
        news = News(part.key, PartEvent.STOP_WANTED, now, stop=START_HANGS, reason="the start hangs")
        self._inbox.put(Heard(part.node, (news,)))

    def _launch(self, item: Running, job: Job, part: Part, link: NodeLink, addresses: tuple[str, ...]) -> launch.Launch:
        config = link.config
        world = launch.NodeWorld(
            config.workdir, config.setup, config.env, self._renumbered(part.node), config.login_shell
        )
        links = [self._links.get(other.node) for other in item.parts]
        interfaces = tuple(link.config.network_interface if link else "" for link in links)
        gang = Gang(job, item.attempt, part, item.parts, addresses, interfaces)
        return launch.render(gang, world)

    def _is_new(self, what: str, key: PartKey) -> bool:
        return (what, key) not in self._given and (what, key) not in self._under_way

    def _repeatedly(self, what: str, key: PartKey, monotonic: float, pause_s: float = AGAIN_S) -> bool:
        if (what, key) in self._under_way or monotonic - self._given.get((what, key), -1e9) < pause_s:
            return False
        self._note(what, key, monotonic)
        return True

    def _note(self, what: str, key: PartKey, monotonic: float) -> None:
        self._given[what, key] = monotonic
        self._under_way.add((what, key))

    # --- looks ------------------------------------------------------------------------------------------------------

    def look_now(self, node: NodeName) -> None:
        for key, looks in self._looks.items():
            if key[0] == node:
                looks.due = 0.0

    def _look(self, board: Board, monotonic: float) -> float:
        soonest, on = LOOK_S, self._held(board)
        for key in self._looks.keys() - on.keys():
            del self._looks[key]
        for key, (link, parts) in on.items():
            looks = self._looks.setdefault(key, _Looks(monotonic + LOOK_SOON_S))
            if monotonic >= looks.due and link.look(parts):
                looks.due = monotonic + self._pause(looks, parts)
            soonest = min(soonest, max(0.05, looks.due - monotonic))
        return soonest

    def _held(self, board: Board) -> dict[tuple[NodeName, str], tuple[NodeLink, list[Known]]]:
        """By link: what is looked at through it."""
        found: dict[tuple[NodeName, str], tuple[NodeLink, list[Known]]] = {}
        for item, part in board.parts():
            link = self._links.of(part) if part.state.holds_devices else None
            if link is not None:
                known = Known(part, item.attempt.token_of(part))
                found.setdefault((link.name, link.account), (link, []))[1].append(known)
        return found

    @staticmethod
    def _pause(looks: _Looks, parts: Sequence[Known]) -> float:
        states = {known.part.state for known in parts}
        if AttemptState.LOST in states:
            looks.pause = min(looks.pause * 2, LOOK_LOST_S[1])
            return looks.pause * random.uniform(0.7, 1.3)
        looks.pause = LOOK_LOST_S[0]
        changing = {AttemptState.STARTING, AttemptState.STOPPING} & states
        return LOOK_SOON_S if changing else LOOK_S


class _Limits:
    """The time limit that each part's node is known to have been told. A master that has just begun knows of none,
    until a look has told it."""

    def __init__(self) -> None:
        self._told: dict[PartKey, int | None] = {}
        self._telling: dict[PartKey, int | None] = {}
        self._unknown: set[PartKey] = set()
        self._begun = False

    def begin(self, keys: Iterable[PartKey]) -> None:
        """What is found at the first pass may have been started by another master, with another limit."""
        if not self._begun:
            self._begun, self._unknown = True, set(keys)

    def started(self, key: PartKey, limit: int | None) -> None:
        """A start goes out that carries this limit. Of several that differ it is not known which one arrived first."""
        assert self._begun
        if key not in self._unknown and self._told.setdefault(key, limit) != limit:
            del self._told[key]
            self._unknown.add(key)

    def found(self, limits: Mapping[PartKey, int | None]) -> None:
        """What the nodes of these know. What was told since, or is being told, is newer."""
        for key, limit in limits.items():
            if key in self._unknown:
                self._unknown.discard(key)
                self._told.setdefault(key, limit)

    def differs(self, key: PartKey, limit: int | None) -> bool:
        """It has to be told. Of one that somebody else started it is not, until its node was asked."""
        return key not in self._unknown and self._told.get(key, _NEVER_TOLD) != limit

    def tell(self, key: PartKey, limit: int | None) -> None:
        self._telling[key] = limit

    def answered(self, key: PartKey) -> None:
        if key in self._telling:  # else the part has ended meanwhile
            self._told[key] = self._telling.pop(key)

    def forget(self, alive: Container[PartKey]) -> None:
        for memory in (self._told, self._telling):
            for key in [key for key in memory if key not in alive]:
                del memory[key]
        self._unknown = {key for key in self._unknown if key in alive}


def _refused(item: Running, meeting: Meeting) -> NodeName:
    """On which node it is told so that they cannot meet: the one to be avoided, unless it has begun there already."""
    waiting = [part.node for part in item.parts if part.state is AttemptState.STARTING and not part.ready]
    return meeting.blamed if meeting.blamed in waiting else waiting[0]


def _together(parts: Sequence[Part]) -> bool:
    """They may begin: all of them wait, or the word was given already (it may have reached some of them only)."""
    return all(part.ready and part.state is AttemptState.STARTING for part in parts) or any(
        part.started is not None or part.state is AttemptState.ENDED for part in parts
    )
