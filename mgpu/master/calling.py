"""One look at whether nodes reach each other: each listens for a moment, and the others call it there.

All nodes at the same time, each step with a limit: whoever has not answered by then is in doubt, and is asked nothing
more. Ports where packets vanish cost FIRST_S and AGAIN_S, all else a fraction of a second.
"""

from __future__ import annotations

import contextlib
import functools
import random
import secrets
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from mgpu.core.meeting import ALL_PAIRS, OWN, Call, Door, Pair, Side, candidates, parse_own, reached_by_all
from mgpu.core.model import NodeName
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError
from mgpu.remote.peers import NO_TOOL, Peers, Target

OPEN_S = 3.0  # for a node to say that it listens, or which addresses it has; with a login, if it must be
FIRST_S = 3  # for a call: the kernel sends three times within that
AGAIN_S = 2  # where that has failed, once more, and at other addresses
AGAIN = 3  # times at once: one that is lost on the way is no wall
ANSWER_S = 1.0  # for what came of the calls to get here
LISTEN_S = 60  # then a node ceases by itself, whatever became of us
PORTS_EACH = 4  # that a node tries, until one is free
SILENT = "it did not answer in time"
TOO_MANY = f"with nc nodes call one after the other, so no more than {ALL_PAIRS} do"


class Calling:
    """`ports`: the range where ranks meet; `taken`: those of it that attempts have."""

    def __init__(
        self,
        peers: Mapping[NodeName, Peers],
        threads: Threads,
        ports: tuple[int, int],
        taken: Container[int | None] = (),
    ) -> None:
        self._peers = peers
        self._threads = threads
        self._lock = threading.Lock()
        self._open: list[contextlib.AbstractContextManager[Door | str]] = []
        self._over = False
        low, high = ports
        around = random.randrange(high - low + 1)
        every = (low + (around + step) % (high - low + 1) for step in range(min(high - low + 1, 2000)))
        self._ports = [port for port in every if port not in taken] or [low]

    def calls(self, sides: Sequence[Side], pairs: Sequence[Pair], one_machine: bool) -> list[Call]:
        """Of each pair at least one."""
        try:
            doors = self._doors(sides)
            alive = [side for side in sides if doors[side.name][0] != SILENT]
            own = self._own([side for side in alive if not candidates(side, (), one_machine)])
            places = {side.name: candidates(side, own.get(side.name, ()), one_machine) for side in sides}
            made = self._round(pairs, doors, places, FIRST_S)
            # a packet may have got lost; and where the usual address is of no use to its peers, another one may be
            stuck = [side for side in alive if reached_by_all(made, side.name) is None]
            if stuck:
                own = self._own([side for side in stuck if not side.told and side.name not in own])
                more = {
                    side.name: tuple(dict.fromkeys((*places[side.name], *own.get(side.name, ())))) for side in stuck
                }
                again = [pair for pair in pairs if pair[1] in more]
                made = _later(made, self._round(again, doors, more, AGAIN_S, AGAIN))
            return made
        finally:
            self._close()

    # --- those who are called ---------------------------------------------------------------------------------------

    def _doors(self, sides: Sequence[Side]) -> dict[NodeName, tuple[Door | str, str]]:
        """Where each listens, or why it does not; and what is said there."""
        nonces = [secrets.token_hex(8) for _ in sides]

        def task(at: int) -> Callable[[], Door | str]:
            wanted = [self._ports[(at * PORTS_EACH + step) % len(self._ports)] for step in range(PORTS_EACH)]
            ports = tuple(dict.fromkeys(wanted))
            return lambda: self._listen(self._peers[sides[at].name], nonces[at], ports)

        answers = self._threads.together([task(at) for at in range(len(sides))], OPEN_S)
        return {
            side.name: (SILENT if answer is None else answer, nonce)
            for side, answer, nonce in zip(sides, answers, nonces, strict=True)
        }

    def _listen(self, peers: Peers, nonce: str, ports: Sequence[int]) -> Door | str:
        context = peers.listening(nonce, ports, LISTEN_S)
        try:
            answer = context.__enter__()
        except RemoteError as error:
            return error.message
        with self._lock:
            if not self._over:
                self._open.append(context)
                return answer
        context.__exit__(None, None, None)  # too late: nobody will close it
        return answer

    def _close(self) -> None:
        with self._lock:
            self._over = True
            contexts, self._open = self._open, []
        ends = [functools.partial(context.__exit__, None, None, None) for context in contexts]
        self._threads.together(ends, ANSWER_S)

    def _own(self, sides: Sequence[Side]) -> dict[NodeName, tuple[str, ...]]:
        """The addresses that they have, of those that answer."""

        def task(peers: Peers) -> Callable[[], tuple[str, ...] | None]:
            def ask() -> tuple[str, ...] | None:
                try:
                    return parse_own(peers.run(OWN, int(OPEN_S))[1])
                except RemoteError:
                    return None

            return ask

        answers = self._threads.together([task(self._peers[side.name]) for side in sides], OPEN_S)
        return {side.name: answer for side, answer in zip(sides, answers, strict=True) if answer is not None}

    # --- those who call ---------------------------------------------------------------------------------------------

    def _round(
        self,
        pairs: Sequence[Pair],
        doors: Mapping[NodeName, tuple[Door | str, str]],
        places: Mapping[NodeName, Sequence[str]],
        limit_s: int,
        times: int = 1,
    ) -> list[Call]:
        """Each of `pairs`, at every place of the one that is called; so many times at once, where that can be."""
        narrow = any(isinstance(door, Door) and door.narrow for door, _ in doors.values())
        of = {source: [target for one, target in pairs if one == source] for source, _ in pairs}

        def task(source: NodeName, targets: Sequence[NodeName]) -> Callable[[], list[Call]]:
            return lambda: self._call(source, targets, doors, places, limit_s, 1 if narrow else times)

        asked = {source: targets for source, targets in of.items() if doors[source][0] != SILENT}
        why, turns = SILENT, [list(asked)]
        if narrow:
            turns = [[source] for source in asked] if len(asked) <= ALL_PAIRS else []
            why = SILENT if turns else TOO_MANY
        told: dict[NodeName, list[Call] | None] = {}
        for turn in turns:
            answers = self._threads.together([task(source, asked[source]) for source in turn], limit_s + ANSWER_S)
            told.update(zip(turn, answers, strict=True))
        calls: list[Call] = []
        for source, targets in of.items():
            silent = [_doubt(source, target, places, f"{source}: {why}") for target in targets]
            calls += told.get(source) or silent
        # that nobody reaches a node which has fallen silent meanwhile says nothing of the ways to it
        gone = {source for source, answer in told.items() if answer is None}
        return [replace(call, doubt=f"{call.target}: {SILENT}") if call.target in gone else call for call in calls]

    def _call(
        self,
        source: NodeName,
        targets: Sequence[NodeName],
        doors: Mapping[NodeName, tuple[Door | str, str]],
        places: Mapping[NodeName, Sequence[str]],
        limit_s: int,
        times: int,
    ) -> list[Call]:
        calls, wanted = [], []
        for target in targets:
            door, nonce = doors[target]
            if isinstance(door, str):
                calls.append(_doubt(source, target, places, f"{target}: {door}"))
            elif not places[target]:
                calls.append(_doubt(source, target, places, f"{target}: no address of it is known"))
            else:
                goals = [Target(address, port, nonce) for address in places[target] for port in door.ports]
                wanted += [(target, goal) for goal in goals]
        if not wanted:
            return calls
        try:
            heard = self._peers[source].reach([goal for _, goal in wanted] * times, limit_s)
            why = NO_TOOL
        except RemoteError as error:
            heard, why = None, error.message
        for target, goal in wanted:
            said = (heard or {}).get((goal.address, goal.port), "")
            doubt = "" if said else f"{source}: {SILENT if heard is not None else why}"
            door = doors[target][0]
            any_port = isinstance(door, Door) and goal.port == door.other
            calls.append(Call(source, target, goal.address, goal.port, said, doubt, any_port))
        return calls


def _later(first: Sequence[Call], second: Sequence[Call]) -> list[Call]:
    """Both, where they are the same the second one."""
    of = {(call.source, call.target, call.address, call.port): call for call in (*first, *second)}
    return list(of.values())


def _doubt(source: NodeName, target: NodeName, places: Mapping[NodeName, Sequence[str]], why: str) -> Call:
    return Call(source, target, next(iter(places[target]), ""), doubt=why)
