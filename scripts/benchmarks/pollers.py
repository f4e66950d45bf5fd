"""Many clients that ask for the same again and again, in one small process: `python -m scripts.benchmarks.pollers`.

A real one would spend most of its time starting Python and reading JSON, on a machine of its own. These only send, and
count what comes until the answer is whole, so that what is measured on shared cores is the master. What they cost all
the same is told beside it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from time import monotonic, process_time

PATIENCE_S = 20.0
ROOM = bytearray(1 << 20)  # what comes is not looked at, but for heads: all clients may share it


@dataclass
class Told:
    """`late_s`: from the moment at which a client meant to ask until its answer was whole; its wait for a core of this
    machine counts, as it does for a person."""

    late_s: list[float] = field(default_factory=list)
    failed: int = 0
    received: int = 0


class Poller(asyncio.BufferedProtocol):
    def __init__(self, done: asyncio.Future[None], told: Told) -> None:
        self.done = done
        self._told = told
        self._head = b""
        self._left = -1  # bytes of the answer, once its head is here

    def expect(self, done: asyncio.Future[None]) -> None:
        self.done, self._head, self._left = done, b"", -1

    def get_buffer(self, sizehint: int) -> bytearray:
        return ROOM

    def buffer_updated(self, nbytes: int) -> None:
        self._told.received += nbytes
        if self._left >= 0:
            self._left -= nbytes
        else:
            self._head += bytes(ROOM[:nbytes])
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if end:
                self._begin(head.decode("latin-1"), len(rest))
        if self._left == 0 and not self.done.done():
            self.done.set_result(None)

    def _begin(self, head: str, here: int) -> None:
        first, *lines = head.split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split()[1])
        self._told.failed += status != 200
        self._left = int(found["content-length"]) - here

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("cut short"))


def request(path: str, kept: bool) -> bytes:
    """As `mgpu queue` sends it; `kept`: by one that goes on with its connection."""
    return f"GET {path} HTTP/{'1.1' if kept else '1.0'}\r\nHost: mgpu\r\nAccept-Encoding: deflate\r\n\r\n".encode()


async def one(socket: str, path: str, kept: bool, told: Told, moments: list[float]) -> None:
    loop = asyncio.get_running_loop()
    transport: asyncio.Transport | None = None
    protocol: Poller | None = None
    for moment in moments:
        await asyncio.sleep(max(0.0, moment - monotonic()))
        done = loop.create_future()
        try:
            if transport is None or protocol is None or transport.is_closing():
                transport, protocol = await loop.create_unix_connection(lambda: Poller(done, told), socket)  # noqa: B023
            else:
                protocol.expect(done)
            transport.write(request(path, kept))
            await asyncio.wait_for(done, PATIENCE_S)
        except (OSError, TimeoutError, asyncio.TimeoutError):
            told.failed += 1
            transport = None
            continue
        told.late_s.append(monotonic() - moment)
        if not kept:
            transport.close()
            transport = None
    if transport is not None:
        transport.close()


async def crowd(socket: str, path: str, kept: bool, clients: int, period_s: float, seconds: float) -> dict[str, object]:
    told = Told()
    begin = monotonic() + 0.2
    rounds = max(1, int(seconds / period_s))
    cpu = process_time()
    await asyncio.gather(
        *(
            one(
                socket,
                path,
                kept,
                told,
                [begin + period_s * (number / clients + round_) for round_ in range(rounds)],
            )
            for number in range(clients)
        )
    )
    return {
        "late_s": told.late_s,
        "failed": told.failed,
        "received": told.received,
        "seconds": monotonic() - begin,
        "cpu_s": process_time() - cpu,
    }


if __name__ == "__main__":
    socket, path, kept, clients, period_s, seconds = sys.argv[1:]
    json.dump(
        asyncio.run(crowd(socket, path, kept == "kept", int(clients), float(period_s), float(seconds))), sys.stdout
    )
