"""What a job's first node asks to have started on the others: handed on, and the exit code brought back.

The asks lie on rank 0's node until they are answered; work and what came of it lie where it is done. So nothing of this
is stored: a master that begins finds the asks by its first look, and each step may be taken again at will. Events only
make it quick.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.model import AttemptState, JobId, Part
from mgpu.core.payload import shown
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Asked, Step
from mgpu.master.link import Known
from mgpu.master.links import Links

AGAIN_S = 5.0  # a step that failed, or of which nothing was heard
LOOK_S = 10.0  # at work of whose end no event told
IDLE_S = 60.0

# Of one attempt, for a job may write what it likes: asks that are known at once (what is left out is in the next look),
# and steps that are under way, since others too want something of its nodes.
MOST_ASKS = 1000
MOST_STEPS = 8

HERE = b"here\n"  # an answer: it is the node that asks
_REFUSED = 255  # as ssh ends
_CODE = re.compile(r"\d{1,3}", re.ASCII)

_AttemptKey = tuple[JobId, int]
_AskKey = tuple[JobId, int, str]


@dataclass(slots=True)
class _Ask:
    """`host` and `text`: what was read; the text only until it is handed on. `answer`: what to say, once known."""

    host: bytes = b""
    text: bytes | None = None
    answer: bytes | None = None
    taken: bool = False
    under_way: bool = False
    told: bool = False  # of its end, since the last step was taken
    due: float = 0.0


class Spawner:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._asks: dict[_AskKey, _Ask] = {}
        self._count: Counter[_AttemptKey] = Counter()

    # --- what was heard ---------------------------------------------------------------------------------------------

    def heard(self, message: Asked | Step, board: Board, monotonic: float) -> None:
        key = (message.key.job_id, message.key.attempt, message.ask)
        if isinstance(message, Asked):
            self._asked(key, message, board)
        elif key in self._asks:
            self._stepped(key, message, board, monotonic)

    def _asked(self, key: _AskKey, message: Asked, board: Board) -> None:
        item = board.get(message.key.job_id, message.key.attempt)
        if item is None or not ends_with_rank_0(item.job):
            return
        if message.worked:
            if key in self._asks:
                self._asks[key].due, self._asks[key].told = 0.0, True
        elif _tells(message, item.parts[0]) and self._count[key[:2]] < MOST_ASKS and key not in self._asks:
            self._asks[key] = _Ask()
            self._count[key[:2]] += 1

    def _stepped(self, key: _AskKey, step: Step, board: Board, monotonic: float) -> None:
        ask = self._asks[key]
        ask.under_way = False
        if step.words is None:
            ask.due = monotonic + AGAIN_S
            return
        ask.due = 0.0
        word, *rest = step.words
        if word == "read":
            ask.host, _, ask.text = step.text.partition(b"\n")
            if not step.text:
                self._forget(key)  # it is answered, or its job gone
        elif word == "long":
            ask.answer = _refusal("what is to be started there is too long")
        elif ask.answer is not None:
            self._forget(key)
        elif word == "worked":
            item = board.get(step.key.job_id, step.key.attempt)
            ask.answer = _ended(rest[0] if rest else "", item.parts[step.key.rank].node if item else "")
        else:
            # work that is not there any more is given anew: its part has begun since, or its directory was removed
            ask.taken, ask.text = word == "taken", None
            pause = LOOK_S if ask.taken else AGAIN_S
            ask.due = 0.0 if ask.told else monotonic + pause

    # --- orders -----------------------------------------------------------------------------------------------------

    def tend(self, board: Board, monotonic: float) -> float:
        """Take the steps that are due; seconds until the next one may be."""
        soonest = IDLE_S
        busy = Counter(key[:2] for key, ask in self._asks.items() if ask.under_way)
        for key, ask in list(self._asks.items()):
            item = board.get(*key[:2])
            if item is None or item.parts[0].state is AttemptState.ENDED:
                self._forget(key)
                continue
            if not ask.under_way and monotonic >= ask.due:
                if busy[key[:2]] >= MOST_STEPS:
                    continue  # the end of another step wakes us
                ask.due, ask.told = monotonic + AGAIN_S, False
                self._step(key[2], ask, item)
                busy[key[:2]] += ask.under_way
            soonest = min(soonest, max(0.05, ask.due - monotonic))
        return soonest

    def _forget(self, key: _AskKey) -> None:
        del self._asks[key]
        self._count[key[:2]] -= 1
        if not self._count[key[:2]]:
            del self._count[key[:2]]

    def _step(self, name: str, ask: _Ask, item: Running) -> None:
        first = item.parts[0]
        link = self._links.of(first)
        if link is None or first.state is AttemptState.LOST:
            return
        if ask.text is None and ask.answer is None and not ask.taken:
            ask.under_way = True
            link.read_ask(first, name)
            return
        target = None
        if ask.answer is None:
            target = self._part(ask.host.decode("utf-8", "replace"), item)
            if target is None:
                ask.answer = _stranger(ask.host, item)
            elif target.rank == 0:
                ask.answer = HERE
        if ask.answer is not None:
            ask.under_way = True
            link.hand(Known(first, item.attempt.token_of(first)), "answer", name, ask.answer)
        elif target is not None and target.state in (AttemptState.STARTING, AttemptState.RUNNING):
            there = self._links.of(target)
            if there is not None:
                ask.under_way = True
                there.hand(Known(target, item.attempt.token_of(target)), "work", name, ask.text or b"")
        else:
            ask.text = None  # until there is somebody to take it: the node keeps it better

    def _part(self, host: str, item: Running) -> Part | None:
        """That of the node which is called so, or of that rank; never one outside of the allocation."""
        if host.startswith("@"):
            return next((part for part in item.parts if host == f"@{part.rank}"), None)
        wanted = host.lower()
        return next((part for part in item.parts if wanted in self._names(part)), None)

    def _names(self, part: Part) -> set[str]:
        link = self._links.get(part.node)
        names = {part.node, part.hostname, part.hostname.partition(".")[0], part.address}
        if link is not None:
            names |= {link.config.network_address, link.config.ssh.host, link.address}
        return {name.lower() for name in names if name}


def _tells(message: Asked, part: Part) -> bool:
    return part.node == message.node and (not message.whose or part.account in message.whose)


def _stranger(host: bytes, item: Running) -> bytes:
    nodes = ", ".join(part.node for part in item.parts)
    return _refusal(f"{shown(host.decode('utf-8', 'replace'))} is not a node of job {item.job.job_id} ({nodes})")


def _refusal(why: str) -> bytes:
    return f"{_REFUSED}\nmgpu: {why}: nothing was started there\n".encode()


def _ended(code: str, node: str) -> bytes:
    number = code if _CODE.fullmatch(code) and int(code) <= _REFUSED else str(_REFUSED)
    if number == "137":
        return f"{number}\nmgpu: {node}: what mpirun started there was killed (exit code {number})\n".encode()
    if number not in ("126", "127"):
        return f"{number}\n".encode()
    said = f"mgpu: {node}: what mpirun starts there was not found (exit code {number})"
    hint = "install the same MPI there, or have the node's `setup` put it into PATH"
    return f"{number}\n{said}: {hint}\n".encode()
