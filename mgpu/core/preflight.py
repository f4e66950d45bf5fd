"""What speaks against a job on these nodes together: all that was looked at, as findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.core.hostlist import fold
from mgpu.core.meeting import Call, Side, settle
from mgpu.core.model import NodeName
from mgpu.core.nodefacts import Facts
from mgpu.endpoint import LOOPBACK, is_loopback

CLOCK_S = 1.0
_INNER = re.compile(
    r"lo|docker\d*|br-[0-9a-f]{12}|virbr\d+(-nic)?|veth.*|cni\d*|flannel.*|cali.*|lxcbr\d+|lxdbr\d+|podman\d*"
)


@dataclass(frozen=True, slots=True)
class NodeTold:
    """One node: what was known of it, and what it told. `interface`: by the inventory. `facts` None: it told nothing,
    and `trouble` says why. `clock_s`: (node's clock minus ours, by so much that may be wrong)."""

    side: Side
    interface: str = ""
    driver: str = ""
    cuda: str = ""
    facts: Facts | None = None
    trouble: str = ""
    clock_s: tuple[float, float] | None = None

    @property
    def name(self) -> NodeName:
        return self.side.name


@dataclass(frozen=True, slots=True)
class Together:
    """All of them. `ports`: the range where ranks meet; `directories`: what is looked for on each, and where a file for
    the others to see could be made (by the first of them)."""

    nodes: Sequence[NodeTold]
    calls: Sequence[Call]
    ports: tuple[int, int]
    directories: Sequence[tuple[str, str, bool]] = ()  # what it is, its path, whether the first made a file there


def findings(seen: Together) -> list[Finding]:
    meeting = settle([node.name for node in seen.nodes], seen.calls)
    addresses = dict(zip((node.name for node in seen.nodes), meeting.addresses, strict=True))
    found = [finding for node in seen.nodes for finding in _reached(node, seen, addresses[node.name])]
    found += [_silent(node, seen.calls) for node in seen.nodes if node.facts is None]
    for node in seen.nodes:
        found += _interface(node, {name: at for name, at in addresses.items() if name != node.name})
        found += _own_name(node, addresses[node.name])
    told = [node for node in seen.nodes if node.facts is not None]  # of the others nothing can be said
    for check, what, value, hint in _SAME:
        found += _same(check, what, {node.name: value(node) for node in told}, hint, len(seen.nodes))
    found += _clocks(seen.nodes)
    for number, (what, path, made) in enumerate(seen.directories):
        found += _directory(seen.nodes, number, f"{what} ({path})", made)
    return found


def _silent(node: NodeTold, calls: Sequence[Call]) -> Finding:
    """One that told nothing. Where it was not heard of in any call either, no job runs there."""
    text = f"{node.name}: {node.trouble}"
    if any(call.said for call in calls if node.name in (call.source, call.target)):
        return skipped("node", text)
    return failure("node", text, f"mgpu doctor {node.name} says more")


# --- ways -----------------------------------------------------------------------------------------------------------


def _reached(node: NodeTold, seen: Together, address: str) -> Iterator[Finding]:
    calls = [call for call in seen.calls if call.target == node.name]
    here = [call for call in calls if call.address == address]
    doubts = dict.fromkeys(call.doubt for call in calls if call.doubt)
    yield from (skipped("way", f"who reaches {node.name} could not be tried: {doubt}") for doubt in doubts)
    bad = [call for call in here if call.failed]
    if bad:
        told: set[NodeName] = set()
        for call in bad:
            if call.source not in told:  # the range's port comes first, and says it all
                told.add(call.source)
                yield failure("way", call.words(), _mend(call, seen.ports))
        return
    good = [call for call in here if call.said and not call.doubt]
    if good:
        ports = sorted({call.port for call in good})
        names = _nodes(call.source for call in good)
        at = f"at {address} ({_why(node.side, address)}), port{'s' * (len(ports) > 1)} {_listed(ports)}"
        yield ok("way", f"{node.name} is reached by {names} {at}")


def _why(side: Side, address: str) -> str:
    if side.told:
        return "network.address in the inventory"
    if address == LOOPBACK:
        return "all are this one machine"
    if address == side.reached:
        return "where the master reaches it too"
    return f"found there; {side.reached or 'nothing'}, by which the master knows it, is of no use to the others"


def _mend(call: Call, ports: tuple[int, int]) -> str:
    said = call.said.lower()
    if is_loopback(call.address):
        return (
            f"{call.address} leads every node to itself: network.address of {call.target} names one that others reach"
        )
    if "route" in said or "unreachable" in said:
        return f"{call.address} is in a network that {call.source} has no way to: network.address names another one"
    if "somebody" in said:
        return f"for {call.source} that address is another machine's: network.address names one that is unique"
    needed = f"ports {ports[0]}-{ports[1]} and those that the kernel hands out (32768-60999) between the nodes"
    return f"a firewall: open {needed}; or name another network by network.address in the inventory"


# --- interfaces and names -------------------------------------------------------------------------------------------


def _interface(node: NodeTold, peers: Mapping[NodeName, str]) -> Iterator[Finding]:
    facts = node.facts
    if facts is None:
        return
    known = {name for name, _ in facts.interfaces}
    if node.interface and known and node.interface not in known:
        there = _listed(sorted(known - {"lo"})) or "none"
        hint = f"it has {there}: mend network.interface of {node.name} in the inventory"
        yield failure("interface", f"{node.name} has no interface {node.interface} with an address", hint)
        return
    if node.interface and known and node.side.told and (node.interface, node.side.told) not in facts.interfaces:
        carries = _listed([address for name, address in facts.interfaces if name == node.interface])
        text = f"{node.interface} of {node.name} has {carries}, and not {node.side.told}, its network.address"
        yield failure("interface", text, f"mend network of {node.name} in the inventory: both are to be of one network")
        return
    over: dict[str, list[NodeName]] = {}
    for name, address in peers.items():
        if address in facts.routes and not is_loopback(address):
            over.setdefault(facts.routes[address][0], []).append(name)
    for interface, names in over.items():
        yield from _route(node, interface, names)
    others = _outer(facts) - over.keys()
    if over and others and not node.interface:
        text = (
            f"{node.name} has {_listed(sorted(others))} beside {_listed(sorted(over))}: NCCL and gloo may take either"
        )
        hint = f"network: {{interface: {next(iter(over))}}} in the inventory tells them"
        yield warning("interface", text, hint)


def _route(node: NodeTold, interface: str, names: Sequence[NodeName]) -> Iterator[Finding]:
    to = f"{node.name} goes to {_nodes(names)} over {interface}"
    if interface == "lo":
        hint = "its address there is its own: network.address of those names one that is unique"
        yield failure("interface", to, hint)
    elif _INNER.fullmatch(interface):
        yield warning(
            "interface", f"{to}, which is for containers of this machine", "network.address names another way"
        )
    elif node.interface and interface != node.interface:
        hint = "network.address and network.interface in the inventory should be of one network"
        yield warning("interface", f"{to}, and the inventory says {node.interface}", hint)
    else:
        yield ok("interface", f"{to}{', as the inventory says' if node.interface else ''}")


def _outer(facts: Facts) -> set[str]:
    """Interfaces with an address that lead somewhere."""
    return {
        name
        for name, address in facts.interfaces
        if not _INNER.fullmatch(name)
        and not is_loopback(address)
        and not address.lower().startswith(("fe80", "169.254."))
    }


def _own_name(node: NodeTold, address: str) -> Iterator[Finding]:
    """What gloo listens at, where it is not told an interface."""
    facts = node.facts
    if facts and is_loopback(facts.resolves) and not is_loopback(address) and not node.interface:
        text = f"{node.name} takes its own name, {facts.hostname}, for {facts.resolves}: nobody reaches gloo there"
        over = next((name for name, at in facts.interfaces if at == address), "NAME")
        hint = f"network: {{interface: {over}}} in the inventory; MASTER_ADDR is right without it"
        yield warning("name", text, hint)


# --- agreement ------------------------------------------------------------------------------------------------------


def _fact(node: NodeTold, name: str) -> str:
    return str(getattr(node.facts, name)) if node.facts else ""


def _torch(node: NodeTold) -> str:
    version, cuda = _fact(node, "torch"), _fact(node, "torch_cuda")
    return f"{version} (CUDA {cuda})" if version and cuda else version


_VERSIONS = "ranks of different versions hang or fail: install the same on all"
_SAME: tuple[tuple[str, str, Callable[[NodeTold], str], str], ...] = (
    ("driver", "NVIDIA driver", lambda node: node.driver, "NCCL wants one for all: --gpu-type or -p keep them apart"),
    ("cuda", "CUDA of the driver", lambda node: node.cuda, "what is built for the newer one fails on the other"),
    ("python", "Python", lambda node: _fact(node, "python"), "`setup` in the inventory can make it one"),
    ("torch", "PyTorch", _torch, _VERSIONS),
    ("nccl", "NCCL", lambda node: _fact(node, "nccl"), _VERSIONS),
)


def _same(check: str, what: str, values: Mapping[NodeName, str], hint: str, nodes: int) -> Iterator[Finding]:
    """`nodes`: how many there are, those among them that told nothing."""
    if len(values) < 2:
        return
    of: dict[str, list[NodeName]] = {}
    for name, value in values.items():
        of.setdefault(value, []).append(name)
    if len(of) > 1:
        told = "; ".join(f"{value or 'none'} on {_nodes(names)}" for value, names in of.items())
        yield warning(check, f"{what} differs: {told}", hint)
    elif value := next(iter(of)):
        yield ok(check, f"{what} {value} on {'all' if len(values) == nodes else _nodes(values)}")


def _clocks(nodes: Sequence[NodeTold]) -> Iterator[Finding]:
    told = {node.name: node.clock_s for node in nodes if node.clock_s is not None}
    if len(told) < 2:
        return
    ahead, behind = max(told, key=lambda name: told[name][0]), min(told, key=lambda name: told[name][0])
    apart = told[ahead][0] - told[behind][0]
    doubt = told[ahead][1] + told[behind][1]
    if apart - doubt > CLOCK_S:
        hint = "run chrony or ntpd on all: times of logs and files are wrong against each other, and tokens expire"
        yield warning("clock", f"the clock of {ahead} is {apart:.1f} s ahead of that of {behind}", hint)
    else:
        yield ok("clock", f"the clocks differ by {max(apart, 0.0):.2f} s at most")


def _directory(nodes: Sequence[NodeTold], number: int, what: str, made: bool) -> Iterator[Finding]:
    first = nodes[0].name
    words = {node.name: node.facts.directories.get(number, "") for node in nodes if node.facts}
    if len(words) < 2:
        return
    missing = [name for name, word in words.items() if word == "none"]
    if missing and len(missing) == len(words):
        yield ok("directory", f"{what} is on none of them")
    elif missing:
        yield warning(
            "directory",
            f"{what} is not on {_nodes(missing)}",
            "-D names one that is on all; --ship sends a tree along",
        )
    elif not made:
        why = f"cannot be written on {first}" if first in words else f"could not be looked at on {first}"
        yield skipped("directory", f"{what} {why}: whether it is one for all is not known")
    else:
        others = [name for name in words if name != first]
        shared = [name for name in others if words[name] == "seen"]
        if len(shared) == len(others):
            yield ok("directory", f"{what} is one directory for {'all' if len(words) == len(nodes) else _nodes(words)}")
        elif not shared:
            yield ok("directory", f"{what} is not shared: what is made there on {first} is not on {_nodes(others)}")
        else:
            apart = _nodes(name for name in others if name not in shared)
            yield warning(
                "directory",
                f"{what} is one directory for {_nodes([first, *shared])}, and another on {apart}",
                "is it mounted there?",
            )


FEW = 3  # names that are written out


def _nodes(names: Iterable[NodeName]) -> str:
    listed = list(dict.fromkeys(names))
    return _listed(listed) if len(listed) <= FEW else fold(listed)


def _listed(items: Sequence[object]) -> str:
    words = [str(item) for item in items]
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
