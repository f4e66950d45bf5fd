"""The network of a lab in namespaces: a bridge on this machine, a veth pair per node, a /24 that nothing else uses."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from tests.lab.node import LabError

Network = ipaddress.IPv4Network


class Links:
    """Names and commands of one lab's links. The names follow from the lab's folder, so that any process finds them."""

    def __init__(self, lab_folder: Path) -> None:
        self.prefix = f"lab{hashlib.sha256(str(lab_folder).encode()).hexdigest()[:7]}"
        self.bridge = f"{self.prefix}br"

    def veth(self, number: int) -> str:
        return f"{self.prefix}.{number}"

    def create_bridge(self, network: Network) -> None:
        gateway = network.broadcast_address - 1
        batch(
            f"link add {self.bridge} address {hardware_address(gateway)} type bridge",
            f"addr add {gateway}/{network.prefixlen} dev {self.bridge}",
            f"link set {self.bridge} up",
        )

    def connect(self, number: int, pid: int, address: str) -> None:
        """Joins the network namespace of `pid` to the bridge as `eth0`."""
        veth = self.veth(number)
        hardware = hardware_address(ipaddress.IPv4Address(address))
        batch(
            f"link add {veth} type veth peer name eth0 address {hardware} netns {pid}",
            f"link set {veth} master {self.bridge} up",
        )
        batch(f"addr add {address}/24 dev eth0", "link set lo up", "link set eth0 up", pid=pid)

    def disconnect(self, number: int) -> None:
        delete(self.veth(number))

    def remove(self) -> None:
        """All links of this lab, also those that no node remembers."""
        for device in Path("/sys/class/net").iterdir():
            if device.name.startswith(f"{self.prefix}.") or device.name == self.bridge:
                delete(device.name)


def hardware_address(address: ipaddress.IPv4Address) -> str:
    """The same for ever: one made by chance at each boot would make neighbours talk to the old one for a while."""
    return ":".join(["02", "00", *(f"{byte:02x}" for byte in address.packed)])


def delete(device: str, timeout_s: float = 5) -> None:
    """Until it is gone: the kernel may be removing it by itself, since its peer's namespace has ended."""
    deadline = monotonic() + timeout_s
    while Path("/sys/class/net", device).exists():
        done = subprocess.run(["ip", "link", "del", device], capture_output=True, text=True, check=False)
        if monotonic() > deadline:
            raise LabError(f"cannot remove the link {device}: {done.stderr.strip()}")


def batch(*lines: str, pid: int | None = None, tool: str = "ip") -> None:
    """Runs lines of ip (or tc) at once; in the network namespace of `pid`, when given."""
    words = [tool, "-batch", "-"]
    execute(words if pid is None else [*inside(pid), *words], "\n".join(lines) + "\n")


def inside(pid: int) -> list[str]:
    return ["nsenter", "--net", "--target", str(pid), "--"]


def execute(words: Sequence[str], text: str = "") -> None:
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


def free_network(wish: str) -> Network:
    """A /24 that overlaps no address and no route of this machine. `wish` decides where the search begins."""
    used = _networks_in_use()
    start = int(hashlib.sha256(wish.encode()).hexdigest(), 16)
    pools = [Network("10.64.0.0/10"), Network("198.18.0.0/15")]
    for pool in pools:
        candidates = list(pool.subnets(new_prefix=24))
        for step in range(len(candidates)):
            candidate = candidates[(start + step) % len(candidates)]
            if not any(candidate.overlaps(network) for network in used):
                return candidate
    raise LabError("no free network for the lab; stop other labs with scripts/lab down")


def _networks_in_use() -> list[Network]:
    found = []
    for words in (["addr"], ["route", "show", "table", "all"]):
        done = subprocess.run(["ip", "-4", "-j", *words], capture_output=True, text=True, check=True)
        for entry in json.loads(done.stdout or "[]"):
            texts = [f"{a['local']}/{a['prefixlen']}" for a in entry.get("addr_info", []) if "local" in a]
            texts.append(entry.get("dst", "default"))
            found += [Network(text, strict=False) for text in texts if text[:1].isdigit()]
    return [network for network in found if network.prefixlen]


# --- faults on the link of a node ------------------------------------------------------------------------------------


def set_link(device: str, state: str) -> None:
    batch(f"link set {device} {state}")


def drop(pid: int, percent: int) -> None:
    """Packets vanish without a word in both directions; 0 = none does."""
    table = "add table inet lab\ndelete table inet lab\n"
    if percent:
        rule = "drop" if percent >= 100 else f"numgen random mod 100 < {percent} drop"
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; policy accept; {rule}; }}\n"
            for hook in ("input", "output")
        )
        table += f"table inet lab {{\n{chains}}}\n"
    if shutil.which("nft") is None:
        raise LabError("nft is missing; install it: apt-get install nftables")
    execute([*inside(pid), "nft", "-f", "-"], table)


def shut(pid: int, ports: str, how: str = "drop") -> None:
    """Nobody reaches these ports (`FIRST-LAST`) there: packets vanish, or are turned down (`reject`); "" = all can."""
    table = "add table inet labports\ndelete table inet labports\n"
    if ports:
        first, _, last = ports.partition("-")
        begins = "tcp flags & (syn | ack) == syn"  # its own calls are answered
        rule = f"iifname != lo tcp dport {int(first)}-{int(last or first)} {begins} {how}"
        chain = f"chain input {{ type filter hook input priority 0; policy accept; {rule}; }}"
        table += f"table inet labports {{\n{chain}\n}}\n"
    if shutil.which("nft") is None:
        raise LabError("nft is missing; install it: apt-get install nftables")
    execute([*inside(pid), "nft", "-f", "-"], table)


def limit_rate(device: str, pid: int, mbit: int) -> None:
    """At most `mbit` Mbit/s each way; 0 = no limit."""
    for name, where in ((device, None), ("eth0", pid)):
        words = ["tc"] if where is None else [*inside(where), "tc"]
        subprocess.run([*words, "qdisc", "del", "dev", name, "root"], capture_output=True, check=False)
        if mbit:
            burst_kb = max(32, mbit * 2)
            limit = ["rate", f"{mbit}mbit", "burst", f"{burst_kb}kb", "latency", "200ms"]
            execute([*words, "qdisc", "add", "dev", name, "root", "tbf", *limit])
