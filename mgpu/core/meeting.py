"""Whether the nodes of a job reach each other, and at which addresses: what to try, and what came of it.

A node may be known to the master by an address that means nothing to its peers: a loopback, one behind a jump host. So
each node has candidates, and the one that the others really reach is where the ranks meet.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mgpu.core.model import NodeName
from mgpu.endpoint import LOOPBACK, is_loopback

ALL_PAIRS = 8  # nodes; of more, a ring and all ways from and to the first
MOST_CANDIDATES = 12
OK = "ok"

Pair = tuple[NodeName, NodeName]  # who calls, and who is called


@dataclass(frozen=True, slots=True)
class Door:
    """Where a node listens for a while: at a port of the range where ranks meet, and at one that the kernel chose, as
    ranks do for what they then send each other (None = the tool cannot)."""

    tool: str
    port: int
    other: int | None = None

    @property
    def narrow(self) -> bool:
        """One at a time may call."""
        return self.tool == "nc"

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.port,) if self.other is None else (self.port, self.other)


@dataclass(frozen=True, slots=True)
class Call:
    """One node calls another. `said`: OK, or what went wrong in the node's words. `doubt`: why it could not be tried,
    "" = it was. `any_port`: at the port that the kernel chose."""

    source: NodeName
    target: NodeName
    address: str
    port: int = 0
    said: str = ""
    doubt: str = ""
    any_port: bool = False

    @property
    def failed(self) -> bool:
        return not self.doubt and self.said != OK

    @property
    def place(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    def words(self) -> str:
        """`node002 cannot reach node001 at 10.0.0.1:20007: timed out`"""
        port = " (a port of the kernel's choice, as NCCL and gloo take them)" if self.any_port else ""
        return f"{self.source} cannot reach {self.target} at {self.place}{port}: {_why(self.said)}"


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of a node beforehand, "" = it is not. `told`: its address by the inventory; `reached`: where the
    master reaches it."""

    name: NodeName
    told: str = ""
    reached: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Meeting:
    """`addresses`: one a node, "" = none is known. `failed`: the call that stands for what is wrong, None = nothing is;
    `blamed` is then the node that is better left out."""

    addresses: tuple[str, ...]
    failed: Call | None = None
    blamed: NodeName | None = None


def pairs_of(names: Sequence[NodeName]) -> list[Pair]:
    """Those that are tried, each way by itself."""
    if len(names) <= ALL_PAIRS:
        return [(a, b) for a in names for b in names if a != b]
    ways = [(names[0], name) for name in names[1:]]
    ways += [(names[at], names[(at + 1) % len(names)]) for at in range(len(names))]
    return list(dict.fromkeys(way for a, b in ways for way in ((a, b), (b, a))))


def candidates(side: Side, own: Sequence[str], one_machine: bool) -> tuple[str, ...]:
    """Where it may be reached by its peers, the likeliest first. `own`: the addresses that it has itself, where it was
    asked. `one_machine`: all nodes of the job are one."""
    if side.told:
        return (side.told,)
    first = [LOOPBACK] if one_machine else []
    if is_address(side.reached) and not is_loopback(side.reached):
        first.append(side.reached)
    return tuple(dict.fromkeys([*first, *own]))[:MOST_CANDIDATES]


def one_machine(sides: Iterable[Side]) -> bool:
    boots = {side.boot_id for side in sides}
    return len(boots) == 1 and "" not in boots


def settle(names: Sequence[NodeName], calls: Sequence[Call]) -> Meeting:
    """Where each is reached by all. What could not be tried speaks against nobody."""
    addresses, failed = [], []
    for name in names:
        mine = [call for call in calls if call.target == name]
        address = reached_by_all(mine, name)
        if address is None:
            address = next(call.address for call in mine if not call.doubt)
            failed += [call for call in mine if call.failed and call.address == address] or [
                call for call in mine if call.failed
            ]
        addresses.append(address)
    if not failed:
        return Meeting(tuple(addresses))
    blamed = _blamed(names, failed)
    return Meeting(tuple(addresses), next(call for call in failed if blamed in (call.target, call.source)), blamed)


def reached_by_all(calls: Sequence[Call], name: NodeName) -> str | None:
    """The first address at which this node is reached by all who tried; None = there is none, though it was tried. In
    doubt it is the likeliest one."""
    mine = [call for call in calls if call.target == name]
    tried = [call for call in mine if not call.doubt]
    if not tried:
        return mine[0].address if mine else ""
    sources = {call.source for call in tried}
    for address in dict.fromkeys(call.address for call in tried):
        there = [call for call in tried if call.address == address]
        if {call.source for call in there} == sources and not any(call.failed for call in there):
            return address
    return None


def _blamed(names: Sequence[NodeName], failed: Sequence[Call]) -> NodeName:
    """Who is in most of what failed; of two, the one that is not reached (its firewall), and else the later one."""
    ways = {(call.source, call.target) for call in failed}
    times = Counter(name for way in ways for name in way)
    unreached = Counter(target for _, target in ways)
    return max(names, key=lambda name: (times[name], unreached[name], names.index(name)))


_WHY = (
    ("timed out", "timed out"),
    ("refused", "refused"),
    ("no route", "no route"),
    ("unreachable", "no route"),
    ("not permitted", "not permitted (a firewall on the node itself)"),
)


def _why(said: str) -> str:
    lower = said.lower()
    return next((word for part, word in _WHY if part in lower), said)


# --- what nodes print -----------------------------------------------------------------------------------------------

_REACHED = re.compile(r"([0-9A-Fa-f.:]{2,45}) ([0-9]{1,5}) (\S.{0,200})", re.ASCII)
_DOOR = re.compile(r"[0-9]{1,5}", re.ASCII)


def parse_reached(text: str) -> dict[tuple[str, int], str]:
    """Lines `ADDRESS PORT ok`, or what went wrong. Of several calls to one place, one that came through counts."""
    found = [line for line in map(_REACHED.fullmatch, text.splitlines()) if line]
    return {(line[1], int(line[2])): line[3] for line in sorted(found, key=lambda line: line[3] == OK)}


def parse_door(words: Sequence[str]) -> Door | None:
    """Of `listening TOOL PORT OTHER`; None = it listens nowhere."""
    if len(words) != 4 or words[0] != "listening" or not _DOOR.fullmatch(words[2]):
        return None
    return Door(words[1], int(words[2]), int(words[3]) if _DOOR.fullmatch(words[3]) else None)


# Prints the node's own addresses: `grep` is there everywhere, `ip` is not.
OWN = "grep -B1 '32 host LOCAL' /proc/net/fib_trie; cat /proc/net/if_inet6"
_LOCAL = re.compile(r"\|-- ([0-9.]{7,15})\n[^\n]*/32 host LOCAL")
_GLOBAL6 = re.compile(r"^([0-9a-f]{32}) \S+ \S+ 00 ", re.MULTILINE)  # scope 00 = global


def parse_own(text: str) -> tuple[str, ...]:
    """Of what OWN prints: those under which others may reach it, in their order."""
    four = [address for address in _LOCAL.findall(text) if is_address(address) and not _is_narrow(address)]
    six = [str(ipaddress.IPv6Address(int(digits, 16))) for digits in _GLOBAL6.findall(text)]
    return tuple(dict.fromkeys([*four, *six]))


def _is_narrow(address: str) -> bool:
    return is_loopback(address) or address.startswith("169.254.")


def is_address(text: str) -> bool:
    """Numeric, and the same to everybody: what has a zone (fe80::1%eth0) is not."""
    try:
        return "%" not in str(ipaddress.ip_address(text))
    except ValueError:
        return False
