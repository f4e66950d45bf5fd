"""What a job's first node asks to have started on the others: handed on, and the exit code brought back.

The asks lie on rank 0's node until they are answered; work and what came of it lie where it is done. So nothing of this
is stored: a master that begins finds the asks by its first look, and each step may be taken again at will. Events only
make it quick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.model import AttemptState, JobId, NodeName, Part
from mgpu.core.payload import shown
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Asked, Step
from mgpu.master.link import Known, NodeLink

AGAIN_S = 5.0  # a step that failed, or of which nothing was heard
LOOK_S = 10.0  # at work of whose end no event told
IDLE_S = 60.0
MOST = 10_000  # asks at a time; a look tells again of what was passed over

HERE = b"here\n"  # an answer: it is the node that asks
_REFUSED = 255  # as ssh ends
_CODE = re.compile(r"\d{1,3}", re.ASCII)

_AskKey = tuple[JobId, int, str]


@dataclass(slots=True)
class _Ask:
    """`text`: what was read, from the host's line on; `answer`: what to say, once that is known."""

    text: bytes | None = None
    answer: bytes | None = None
    taken: bool = False
    under_way: bool = False
    told: bool = False  # of its end, since the last step was taken
    due: float = 0.0


class Spawner:
    def __init__(self, links: Mapping[NodeName, NodeLink]) -> None:
        self._links = links
        self._asks: dict[_AskKey, _Ask] = {}

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
        elif item.parts[0].node == message.node and len(self._asks) < MOST:
            self._asks.setdefault(key, _Ask())

    def _stepped(self, key: _AskKey, step: Step, board: Board, monotonic: float) -> None:
        ask = self._asks[key]
        ask.under_way = False
        if step.words is None:
            ask.due = monotonic + AGAIN_S
            return
        ask.due = 0.0
        word, *rest = step.words
        if word == "read":
            ask.text = step.text or None
            if not step.text:
                del self._asks[key]  # it is answered, or its job gone
        elif word == "long":
            ask.answer = _refusal("what is to be started there is too long")
        elif ask.answer is not None:
            del self._asks[key]
        elif word == "worked":
            item = board.get(step.key.job_id, step.key.attempt)
            ask.answer = _ended(rest[0] if rest else "", item.parts[step.key.rank].node if item else "")
        else:
            # work that is not there any more is given anew: its part has begun since, or its directory was removed
            ask.taken = word == "taken"
            pause = LOOK_S if ask.taken else AGAIN_S
            ask.due = 0.0 if ask.told else monotonic + pause

    # --- orders -----------------------------------------------------------------------------------------------------

    def tend(self, board: Board, monotonic: float) -> float:
        """Take the steps that are due; seconds until the next one may be."""
        soonest = IDLE_S
        for key in list(self._asks):
            item, ask = board.get(*key[:2]), self._asks[key]
            if item is None or item.parts[0].state is AttemptState.ENDED:
                del self._asks[key]
                continue
            if not ask.under_way and monotonic >= ask.due:
                ask.due, ask.told = monotonic + AGAIN_S, False
                self._step(key[2], ask, item)
            soonest = min(soonest, max(0.05, ask.due - monotonic))
        return soonest

    def _step(self, name: str, ask: _Ask, item: Running) -> None:
        first = item.parts[0]
        link = self._links.get(first.node)
        if link is None or first.state is AttemptState.LOST:
            return
        if ask.text is None and ask.answer is None:
            ask.under_way = True
            link.read_ask(first, name)
            return
        target = None
        if ask.answer is None:
            assert ask.text is not None
            host, _, text = ask.text.partition(b"\n")
            target = self._part(host.decode("utf-8", "replace"), item)
            if target is None:
                ask.answer = _stranger(host, item)
            elif target.rank == 0:
                ask.answer = HERE
        if ask.answer is not None:
            ask.under_way = True
            link.hand(Known(first, item.attempt.token_of(first)), "answer", name, ask.answer)
        elif target is not None and target.state in (AttemptState.STARTING, AttemptState.RUNNING):
            there = self._links.get(target.node)
            if there is not None:
                ask.under_way = True
                there.hand(Known(target, item.attempt.token_of(target)), "work", name, b"" if ask.taken else text)

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


def _stranger(host: bytes, item: Running) -> bytes:
    nodes = ", ".join(part.node for part in item.parts)
    return _refusal(f"{shown(host.decode('utf-8', 'replace'))} is not a node of job {item.job.job_id} ({nodes})")


def _refusal(why: str) -> bytes:
    return f"{_REFUSED}\nmgpu: {why}: nothing was started there\n".encode()


def _ended(code: str, node: str) -> bytes:
    number = code if _CODE.fullmatch(code) and int(code) <= _REFUSED else str(_REFUSED)
    if number not in ("126", "127"):
        return f"{number}\n".encode()
    said = f"mgpu: {node}: what mpirun starts there was not found (exit code {number})"
    hint = "install the same MPI there, or have the node's `setup` put it into PATH"
    return f"{number}\n{said}: {hint}\n".encode()
