"""Those who showed no token that holds: each address waits longer for its next answer, and the audit hears of them
without being filled by them."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.model import Audit
from mgpu.ops.context import Context, record

NOBODY = "-"  # who it was is not known
KEPT = 1024  # addresses
FORGOTTEN_S = 300.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.25, 4.0
ROWS_S = 600.0  # between two rows about one address
ROWS_AN_HOUR = 60  # about all


@dataclass(slots=True)
class _Address:
    last: float
    failures: int = 0
    untold: int = 0
    told: float | None = None


class Strangers:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: OrderedDict[str, _Address] = OrderedDict()
        self._others = 0  # failures of addresses that were forgotten before they were told
        self._hour, self._rows = 0.0, 0

    def failed(self, address: str, now: float) -> float:
        """How long the answer is to wait."""
        block = block_of(address)
        known = self._known.get(block)
        if known is None or now - known.last > FORGOTTEN_S:
            told, untold = (known.told, known.untold) if known else (None, 0)
            known = self._known[block] = _Address(now, untold=untold, told=told)
        self._known.move_to_end(block)
        known.last = now
        known.failures += 1
        known.untold += 1
        if len(self._known) > KEPT:
            self._others += self._known.popitem(last=False)[1].untold
        return min(FIRST_DELAY_S * 2.0 ** min(known.failures - 1, 10), LONGEST_DELAY_S)

    async def tell(self, now: float) -> None:
        """What is due, into the audit."""
        if now - self._hour > 3600.0:
            self._hour, self._rows = now, 0
        for block, known in list(self._known.items()):
            if self._rows >= ROWS_AN_HOUR:
                return
            if known.untold and (known.told is None or now - known.told >= ROWS_S):
                times, known.untold, known.told = known.untold, 0, now
                await self._record(block, times)
        if self._others and self._rows < ROWS_AN_HOUR:
            times, self._others = self._others, 0
            await self._record("", times)

    async def _record(self, block: str, times: int) -> None:
        self._rows += 1
        how_often = f"{times} times" if times > 1 else "once"
        whence = block or "many addresses"
        detail = f"no token that holds, {how_often}"
        entry = Audit(clock.now(), NOBODY, "come in", detail=detail, origin=f"tcp {whence}", result="refused")
        with suppress(StoreError):
            await asyncio.get_running_loop().run_in_executor(None, record, self._context, entry)


def plain(address: str) -> str:
    """As people write it: of IPv4 also where a listener for both has it as IPv6."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def block_of(address: str) -> str:
    """Who is taken for one: an address, of IPv6 the network that a customer has whole."""
    parsed = ipaddress.ip_address(plain(address))
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
