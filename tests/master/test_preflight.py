"""What is looked at before a start on several nodes, when it is looked at again, and what is made of nodes that do not
answer: real threads, and nodes that answer as they are told to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from mgpu.core.meeting import OWN, Door, Meeting
from mgpu.core.model import NodeName
from mgpu.endpoint import LOOPBACK
from mgpu.master import calling
from mgpu.master.preflight import DOUBT_S, FAILED_S, GOOD_S, Preflight, why_not
from mgpu.master.worker import SystemThreads
from mgpu.remote.errors import RemoteError
from mgpu.remote.peers import Target

A, B, C, D = NodeName("a"), NodeName("b"), NodeName("c"), NodeName("d")


@dataclass
class Node:
    """`walls`: addresses that it cannot reach. `own`: what it says of its addresses."""

    name: str
    address: str
    walls: set[str] = field(default_factory=set)
    own: tuple[str, ...] = ()
    boot_id: str = ""
    told: str = ""
    mute: threading.Event | None = None  # it says nothing until then
    listens: int = 0
    calls: int = 0
    open: int = 0
    logins: int = 0
    link: Any = None
    tool: str = "perl"
    counting: ClassVar[threading.Lock] = threading.Lock()
    inside: ClassVar[int] = 0  # calls under way, of all nodes
    most: ClassVar[int] = 0

    @contextlib.contextmanager
    def listening(self, nonce: str, ports: Sequence[int], limit_s: int) -> Iterator[Door | str]:
        if self.mute:
            self.mute.wait()
        self.listens += 1
        self.open += 1
        yield Door(self.tool, ports[0])
        self.open -= 1

    def reach(self, targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        self.calls += 1
        with self.counting:
            Node.inside += 1
            Node.most = max(Node.most, Node.inside)
        threading.Event().wait(0.02)
        with self.counting:
            Node.inside -= 1
        return {(t.address, t.port): "Connection timed out" if t.address in self.walls else "ok" for t in targets}

    def run(self, text: str, limit_s: int, shell: str = "sh") -> tuple[int, str]:
        if text != OWN:
            self.logins += 1
            self.link.address = self.address
            return 0, ""
        return 0, "".join(f"  |-- {address}\n    /32 host LOCAL\n" for address in self.own)


class Bench:
    def __init__(self, *nodes: Node, enabled: bool = True) -> None:
        self.nodes = {NodeName(node.name): node for node in nodes}
        for number, node in enumerate(nodes):
            node.boot_id = node.boot_id or f"boot{number}"
        self.now = 1000.0
        self.woken = threading.Semaphore(0)
        links: Any = {name: self.link(node) for name, node in self.nodes.items()}
        clock: Any = SimpleNamespace(monotonic=lambda: self.now)

        def seen(name: NodeName) -> Any:
            return SimpleNamespace(boot_id=self.nodes[name].boot_id)

        self.preflight = Preflight(links, SystemThreads(), clock, (20000, 20100), self.woken.release, seen, enabled)
        self.attempts = 0

    @staticmethod
    def link(node: Node) -> Any:
        node.link = SimpleNamespace(
            runner=SimpleNamespace(peers=node),
            address=node.address,
            config=SimpleNamespace(network_address=node.told),
        )
        return node.link

    @property
    def looks(self) -> int:
        return sum(node.listens for node in self.nodes.values())

    def item(self, *names: NodeName) -> Any:
        """Another attempt, on these nodes."""
        self.attempts += 1
        parts = tuple(SimpleNamespace(node=name, address=self.nodes[name].address) for name in names)
        return SimpleNamespace(
            job=SimpleNamespace(job_id=self.attempts), attempt=SimpleNamespace(number=1, port=20007), parts=parts
        )

    def judge(self, *names: NodeName) -> Meeting:
        """Of a new attempt, once it is known."""
        item = self.item(*names)
        for _ in range(5):
            meeting = self.preflight.judge(item)
            if meeting is not None:
                assert self.preflight.judge(item) is meeting  # it stays so, for all of its parts
                return meeting
            assert self.woken.acquire(timeout=30)
        raise AssertionError("it is never known")


def test_one_node_is_not_looked_at() -> None:
    bench = Bench(Node("a", "192.0.2.1"))
    assert bench.preflight.judge(bench.item(A)) == Meeting(("192.0.2.1",))
    assert bench.looks == 0


def test_who_wants_no_look_gets_none() -> None:
    bench = Bench(Node("a", "192.0.2.1", told="10.0.0.1"), Node("b", "192.0.2.2"), enabled=False)
    assert bench.preflight.judge(bench.item(A, B)) == Meeting(("10.0.0.1", "192.0.2.2"))
    assert bench.looks == 0


def test_without_a_look_a_loopback_is_no_address_but_for_one_machine() -> None:
    """A tunnel's end, say: better no MASTER_ADDR than one at which each rank finds itself."""
    bench = Bench(Node("a", "127.0.0.1"), Node("b", "192.0.2.2"), enabled=False)
    assert bench.preflight.judge(bench.item(A, B)) == Meeting(("", "192.0.2.2"))
    same = Bench(Node("a", "127.0.0.1", boot_id="one"), Node("b", "192.0.2.2", boot_id="one"), enabled=False)
    assert same.preflight.judge(same.item(A, B)) == Meeting(("127.0.0.1", "127.0.0.1"))


def test_that_it_is_looked_at_can_be_seen() -> None:
    mute = threading.Event()
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2", mute=mute))
    item = bench.item(A, B)
    assert bench.preflight.judge(item) is None
    assert bench.preflight.is_looked_at(item.job.job_id)
    mute.set()
    assert bench.woken.acquire(timeout=30)
    assert not bench.preflight.is_looked_at(item.job.job_id)


def test_a_pair_is_looked_at_once() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2"), Node("c", "192.0.2.3"))
    assert bench.judge(A, B) == bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    assert bench.looks == 2
    assert bench.judge(B, A) == Meeting(("192.0.2.2", "192.0.2.1"))
    assert bench.looks == 2
    assert bench.judge(A, B, C).failed is None
    assert bench.looks == 5
    assert all(node.open == 0 for node in bench.nodes.values())


def test_it_is_looked_at_again_after_a_day_or_a_reboot() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2"))
    bench.judge(A, B)
    bench.now += GOOD_S - 1
    bench.judge(A, B)
    assert bench.looks == 2
    bench.now += 2
    bench.judge(A, B)
    assert bench.looks == 4
    bench.nodes[B].boot_id = "another"
    bench.judge(A, B)
    assert bench.looks == 6


def test_what_failed_is_looked_at_again_before_long() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2", walls={"192.0.2.1"}))
    meeting = bench.judge(A, B)
    assert meeting.blamed == A
    assert why_not(meeting).startswith("b cannot reach a at 192.0.2.1:20")
    assert "mgpu preflight -w a,b" in why_not(meeting)
    looks = bench.looks
    bench.nodes[B].walls.clear()
    assert bench.judge(A, B).failed is not None
    assert bench.looks == looks
    bench.now += FAILED_S
    assert bench.judge(A, B).failed is None


def test_who_is_next_to_a_new_wall_is_looked_at_again() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2"), Node("c", "192.0.2.3"), Node("d", "192.0.2.4"))
    bench.judge(A, C)
    bench.judge(C, D)
    for node in bench.nodes.values():
        node.walls.add("192.0.2.1")
    assert bench.judge(A, B).blamed == A
    assert bench.judge(A, C).blamed == A  # though it went well less than a day ago
    assert bench.judge(C, D).failed is None


def test_a_look_that_somebody_asks_for_is_remembered_too() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2", walls={"192.0.2.1"}))
    assert bench.judge(A, B).failed
    bench.nodes[B].walls.clear()
    assert not any(call.failed for call in bench.preflight.look([A, B], fresh=True))
    assert bench.judge(A, B).failed is None


def test_another_address_is_found_where_the_masters_is_of_no_use() -> None:
    # one is known as a loopback (a tunnel), the other by an address that only the master's network has
    bench = Bench(
        Node("a", "127.0.0.1", own=("172.17.0.1", "10.0.0.1"), walls={"192.0.2.2", "172.17.0.1"}),
        Node("b", "192.0.2.2", own=("192.0.2.2", "10.0.0.2"), walls={"172.17.0.1"}),
    )
    assert bench.judge(A, B) == Meeting(("10.0.0.1", "10.0.0.2"))
    looks = bench.looks
    bench.now += DOUBT_S + 1  # that other addresses are of no use is no trouble
    bench.judge(A, B)
    assert bench.looks == looks


def test_an_address_for_each_other_is_none_for_all() -> None:
    walls = {A: {"10.0.0.2"}, C: {"10.9.0.2"}}
    bench = Bench(
        Node("a", "192.0.2.1", walls=walls[A]),
        Node("b", "127.0.0.1", own=("10.0.0.2", "10.9.0.2")),
        Node("c", "192.0.2.3", walls=walls[C]),
    )
    assert bench.judge(A, B, C).blamed == B
    looks = bench.looks
    bench.now += FAILED_S
    assert bench.judge(A, B, C).failed
    assert bench.looks > looks


def test_who_was_never_logged_in_to_is_logged_in_to_first() -> None:
    """Else it would be known by another address after the look than before it."""
    bench = Bench(Node("a", "192.0.2.1", own=("10.0.0.1",)), Node("b", "192.0.2.2"))
    bench.nodes[A].link.address = ""
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    assert (bench.nodes[A].logins, bench.nodes[B].logins) == (1, 0)
    looks = bench.looks
    bench.judge(A, B)
    assert bench.looks == looks


def test_what_the_inventory_says_is_not_doubted() -> None:
    bench = Bench(
        Node("a", "192.0.2.1", told="10.0.0.1"), Node("b", "192.0.2.2", walls={"10.0.0.1"}, own=("192.0.2.2",))
    )
    meeting = bench.judge(A, B)
    assert meeting.addresses[0] == "10.0.0.1"
    assert meeting.failed


def test_nodes_that_are_one_machine_meet_on_its_loopback() -> None:
    bench = Bench(Node("a", "127.0.0.1", boot_id="x"), Node("b", "127.0.0.1", boot_id="x"))
    assert bench.judge(A, B) == Meeting((LOOPBACK, LOOPBACK))


def test_containers_of_one_kernel_are_not_one_machine() -> None:
    """They have its boot id, and each a network of its own."""
    bench = Bench(
        Node("a", "192.0.2.1", boot_id="x", walls={LOOPBACK}), Node("b", "192.0.2.2", boot_id="x", walls={LOOPBACK})
    )
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))


def test_a_node_that_does_not_answer_keeps_nobody_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "OPEN_S", 0.05)
    mute = threading.Event()
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2", mute=mute))
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    assert bench.nodes[B].calls == 0
    mute.set()


def test_a_packet_may_get_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Node("a", "192.0.2.1", told="192.0.2.1"), Node("b", "192.0.2.2"))
    usual = bench.nodes[B].reach

    def reach(targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        answer = usual(targets, limit_s)
        assert answer
        return dict.fromkeys(answer, "Connection timed out") if bench.nodes[B].calls == 1 else answer

    monkeypatch.setattr(bench.nodes[B], "reach", reach)
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    assert (bench.nodes[A].calls, bench.nodes[B].calls) == (1, 2)  # who was reached is not called again


def test_a_node_that_falls_silent_meanwhile_has_no_wall_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "FIRST_S", 0)
    monkeypatch.setattr(calling, "AGAIN_S", 0)
    monkeypatch.setattr(calling, "ANSWER_S", 0.3)
    lost = threading.Event()

    def reach(targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        lost.wait(30)
        return None

    bench = Bench(Node("a", "192.0.2.1", walls={"192.0.2.2"}), Node("b", "192.0.2.2"))
    monkeypatch.setattr(bench.nodes[B], "reach", reach)
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    lost.set()


def test_a_node_that_cannot_try_it_keeps_nobody_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        raise RemoteError("connection lost")

    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2"))
    monkeypatch.setattr(bench.nodes[A], "reach", reach)
    monkeypatch.setattr(bench.nodes[B], "reach", lambda targets, limit_s: None)
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))
    looks = bench.looks
    bench.now += FAILED_S
    bench.judge(A, B)  # nobody mends that meanwhile, and each look would hold up a job
    assert bench.looks == looks
    bench.now += DOUBT_S
    bench.judge(A, B)
    assert bench.looks > looks


def test_where_one_at_a_time_may_call_one_does() -> None:
    Node.most = 0
    bench = Bench(*(Node(name, f"192.0.2.{number}", tool="nc") for number, name in enumerate((A, B, C))))
    assert bench.judge(A, B, C).failed is None
    assert Node.most == 1


def test_of_many_none_calls_where_one_at_a_time_may() -> None:
    names = [NodeName(f"n{number}") for number in range(9)]
    bench = Bench(*(Node(name, f"192.0.2.{number}", tool="nc") for number, name in enumerate(names)))
    assert bench.judge(*names).failed is None
    assert not any(node.calls for node in bench.nodes.values())


def test_a_fault_of_ours_keeps_nobody_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(names: Sequence[NodeName], fresh: bool) -> list[Any]:
        return []

    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2"))
    monkeypatch.setattr(bench.preflight, "look", look)
    assert bench.judge(A, B) == Meeting(("192.0.2.1", "192.0.2.2"))


def test_what_is_over_is_forgotten() -> None:
    bench = Bench(Node("a", "192.0.2.1"), Node("b", "192.0.2.2", walls={"192.0.2.1"}))
    item = bench.item(A, B)
    while bench.preflight.judge(item) is None:
        assert bench.woken.acquire(timeout=30)
    board: Any = [item]
    bench.preflight.follow(board)
    assert bench.preflight._settled
    assert bench.preflight._looks
    bench.preflight.follow([])  # type: ignore[arg-type]
    assert not bench.preflight._settled
    assert not bench.preflight._looks
