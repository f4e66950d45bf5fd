"""What the master can ask of a node about the way to other nodes; see node/serve/peers.sh."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from mgpu.core.meeting import Door, parse_door, parse_reached
from mgpu.remote.errors import RemoteError
from mgpu.remote.session import NodeSession
from mgpu.remote.shell import Talk
from mgpu.remote.wire import encode, encode_text

BEGIN_S = 5.0  # for what is to be said at once
NO_TOOL = "no perl, python3, socat or nc there"


class Target(NamedTuple):
    """`nonce`: what is said there by whom we mean."""

    address: str
    port: int
    nonce: str


class Peers(Protocol):
    """Each may raise RemoteError."""

    def listening(self, nonce: str, ports: Sequence[int], limit_s: int) -> AbstractContextManager[Door | str]:
        """Listens at the first of `ports` that is free while the block lasts, and no longer than `limit_s`. Whoever
        connects is told the nonce. A text: why it cannot."""

    def reach(self, targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        """What comes of connecting to each, at the same time: "ok", or what went wrong; None = there is no tool."""

    def run(self, text: str, limit_s: int, shell: str = "sh") -> tuple[int, str]:
        """The exit status of a shell text (124 = its time was up) and what it printed."""

    def marked(self, nonce: str, directories: Sequence[str]) -> AbstractContextManager[tuple[bool, ...]]:
        """A file `.mgpu.NONCE` in each directory, as long as the block lasts; whether it could be made there."""


class ShellPeers:
    def __init__(self, session: NodeSession) -> None:
        self._session = session

    @contextlib.contextmanager
    def listening(self, nonce: str, ports: Sequence[int], limit_s: int) -> Iterator[Door | str]:
        with self._talk("listen", nonce, str(limit_s), *map(str, ports)) as talk:
            words = talk.hear(BEGIN_S)
            if words[0] == "end":
                yield NO_TOOL
            elif words[0] == "taken":
                yield "all ports that were tried are in use there"
            elif words[0] == "unable":
                yield NO_TOOL
            else:
                yield parse_door(words) or "its answer could not be read"

    def reach(self, targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        words = (str(word) for target in targets for word in target)
        with self._session.shell() as shell:
            reply = shell.request("reach", str(limit_s), *words, timeout_s=limit_s + BEGIN_S)
        return parse_reached(reply.text) if reply.status == "ok" else None

    def run(self, text: str, limit_s: int, shell: str = "sh") -> tuple[int, str]:
        word, raw = encode_text(text)
        with self._session.shell() as lent:
            reply = lent.request("try", str(limit_s), shell, word, texts=raw, timeout_s=limit_s + BEGIN_S)
        if reply.status != "ok":
            raise RemoteError("the node runs nothing")
        return reply.number(0), reply.text

    @contextlib.contextmanager
    def marked(self, nonce: str, directories: Sequence[str]) -> Iterator[tuple[bool, ...]]:
        with self._talk("marks", nonce, *map(encode, directories)) as talk:
            words = talk.hear(BEGIN_S)
            yield tuple(word == "1" for word in words[1:])

    @contextlib.contextmanager
    def _talk(self, operation: str, *words: str) -> Iterator[Talk]:
        with self._session.shell() as shell:
            talk = shell.begin(operation, *words)
            try:
                yield talk
            finally:
                talk.end()
