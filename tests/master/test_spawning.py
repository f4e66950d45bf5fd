"""Asks on their way to another node and back, whatever is lost in between."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mgpu.core.model import AttemptState, Job, LauncherName, NodeName, Part
from mgpu.core.reconcile import ANY_RANK
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Asked, Step
from mgpu.master.link import Known
from mgpu.master.links import Links
from mgpu.master.spawning import MOST_ASKS, MOST_STEPS, Spawner
from tests.core.trial import attempt, job, part

MPI = job(spec={"launcher": LauncherName.MPI})
PARTS = tuple(
    part(rank, hostname=f"Host{rank}.example.org", address=f"192.168.0.{rank + 1}", started=1.0) for rank in range(3)
)


class Node:
    """What of a link is used here, over a node that keeps asks, answers and work. `chance`: that a request is lost on
    its way, its answer, or the event."""

    def __init__(self, rank: int, cluster: Cluster) -> None:
        self.config = SimpleNamespace(network_address=f"10.0.0.{rank + 1}", ssh=SimpleNamespace(host=f"gpu{rank}"))
        self.address = f"192.168.0.{rank + 1}"
        self.cluster = cluster
        self.asks: dict[str, bytes] = {}
        self.answers: dict[str, bytes] = {}
        self.work: dict[str, bytes] = {}
        self.worked: dict[str, str] = {}
        self.runs: list[str] = []

    def read_ask(self, of: Part, ask: str) -> None:
        text = self.asks.get(ask, b"")
        self.cluster.reply(lambda: Step(of.key, ask, ("read",), text))

    def hand(self, known: Known, what: str, ask: str, text: bytes) -> None:
        assert known.token == attempt().token_of(known.part)
        self.cluster.reply(lambda: Step(known.part.key, ask, self._take(what, ask, text)))

    def _take(self, what: str, ask: str, text: bytes) -> tuple[str, ...]:
        if what == "answer":
            if ask not in self.asks:
                return ("ended",)
            self.answers[ask] = text
            del self.asks[ask]
            return ("taken",)
        if ask in self.worked:
            return ("worked", self.worked[ask])
        if ask not in self.work:
            if not text:
                return ("absent",)
            self.work[ask] = text
            self.runs.append(ask)
        return ("taken",)


class Cluster:
    """A job on three nodes, and a master that is asked, answered, killed and begun again."""

    def __init__(self, seed: int = 0, loss: float = 0.0) -> None:
        self.chance = random.Random(seed)
        self.loss = loss
        self.now = 0.0
        self.parts = PARTS
        self.job: Job = MPI
        self.messages: deque[Asked | Step] = deque()
        self.nodes = [Node(rank, self) for rank in range(3)]
        self.begin()

    def begin(self) -> None:
        self.messages.clear()
        self.spawner = Spawner(Links({one.node: self.nodes[one.rank] for one in PARTS}))  # type: ignore[misc]

    @property
    def board(self) -> Board:
        return Board([Running(self.job, attempt(), self.parts)])

    def reply(self, carry_out: Callable[[], Step]) -> None:
        unknown = Step(PARTS[0].key, self.ask, None)
        lost = self.chance.random()
        step = unknown if lost < self.loss / 2 else carry_out()
        self.messages.append(unknown if lost < self.loss else step)

    def lay(self, host: str, text: str = "orted", ask: str = "12.34", rank: int = 0) -> None:
        self.ask = ask
        self.nodes[rank].asks[ask] = f"{host}\n{text}\n".encode()
        self.hear(rank)

    def hear(self, rank: int = 0, worked: bool = False) -> None:
        if self.chance.random() >= self.loss:
            key = PARTS[0].key._replace(rank=ANY_RANK)
            self.messages.append(Asked(PARTS[rank].node, key, self.ask, worked))

    def finish(self, rank: int, code: str) -> None:
        for ask in self.nodes[rank].work:
            if ask not in self.nodes[rank].worked:
                self.nodes[rank].worked[ask] = code
                self.hear(rank, worked=True)

    def pass_(self, seconds: float = 0.05) -> float:
        self.now += seconds
        while self.messages:
            self.spawner.heard(self.messages.popleft(), self.board, self.now)
        return self.spawner.tend(self.board, self.now)

    def settle(self) -> None:
        for _ in range(8):
            self.pass_()


@pytest.mark.parametrize("host", ["node002", "host1.example.org", "HOST1", "192.168.0.2", "10.0.0.2", "gpu1", "@1"])
def test_an_ask_goes_to_its_node_and_its_code_comes_back(host: str) -> None:
    cluster = Cluster()
    cluster.lay(host, "export A='b'\norted -x")
    cluster.settle()
    assert cluster.nodes[1].work == {"12.34": b"export A='b'\norted -x\n"}
    cluster.finish(1, "3")
    cluster.settle()
    assert cluster.nodes[0].answers == {"12.34": b"3\n"}
    assert cluster.spawner.tend(cluster.board, cluster.now) > 10.0


@pytest.mark.parametrize(
    "host", ["node004", "10.0.0.9", "", "localhost", "node002 ", "@3", "@-1", "@01", "\x1b[31m", "../node002"]
)
def test_a_host_outside_of_the_allocation_is_refused(host: str) -> None:
    cluster = Cluster()
    cluster.lay(host)
    cluster.settle()
    assert [node.work for node in cluster.nodes] == [{}] * 3
    answer = cluster.nodes[0].answers["12.34"].decode()
    assert answer.startswith("255\nmgpu: ")
    assert "is not a node of job 7 (node001, node002, node003): nothing was started there\n" in answer
    assert "\x1b" not in answer


def test_the_node_that_asks_is_told_to_do_it_itself() -> None:
    cluster = Cluster()
    cluster.lay("gpu0")
    cluster.settle()
    assert cluster.nodes[0].answers == {"12.34": b"here\n"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("127", "node002: what mpirun starts there was not found"),
        ("137", "node002: what mpirun started there was killed"),
        ("-1", "255"),
    ],
)
def test_what_came_of_the_work_is_said_in_a_line(code: str, said: str) -> None:
    cluster = Cluster()
    cluster.lay("node002")
    cluster.settle()
    cluster.finish(1, code)
    cluster.settle()
    assert said in cluster.nodes[0].answers["12.34"].decode()
    assert cluster.nodes[0].answers["12.34"].count(b"\n") <= 2


def test_only_mpirun_on_rank_0_may_ask() -> None:
    for rank, asking in ((1, MPI), (0, job())):
        cluster = Cluster()
        cluster.job = asking
        cluster.lay("node003", rank=rank)
        cluster.settle()
        assert [node.work for node in cluster.nodes] == [{}] * 3


def test_a_node_that_is_lost_gets_its_work_later() -> None:
    cluster = Cluster()
    cluster.parts = (PARTS[0], replace(PARTS[1], state=AttemptState.LOST), PARTS[2])
    cluster.lay("node002")
    cluster.settle()
    assert cluster.nodes[1].work == {}
    cluster.parts = PARTS
    cluster.pass_(6.0)
    cluster.settle()
    assert cluster.nodes[1].runs == ["12.34"]


def test_nothing_is_asked_for_a_job_that_is_over() -> None:
    cluster = Cluster()
    cluster.lay("node002")
    cluster.pass_()
    cluster.parts = (replace(PARTS[0], state=AttemptState.ENDED), *PARTS[1:])
    cluster.settle()
    assert cluster.nodes[1].work == {}
    assert cluster.spawner.tend(cluster.board, cluster.now) > 10.0


def test_of_what_a_job_lays_there_only_so_much_is_under_way() -> None:
    """However many it asks for, or says that it does: other jobs have something to order there too."""
    cluster = Cluster()
    for number in range(3000):
        cluster.lay("node002", ask=f"9.{number}")
    for _ in range(40):
        cluster.spawner.tend(cluster.board, cluster.now)
        assert sum(isinstance(message, Step) for message in cluster.messages) <= MOST_STEPS
        cluster.pass_()
    assert 0 < len(cluster.nodes[1].runs) <= 40 * MOST_STEPS


def test_of_asks_that_are_not_there_none_stays() -> None:
    cluster = Cluster()
    for number in range(3 * MOST_ASKS):
        cluster.ask = f"9.{number}"
        cluster.hear()
    for _ in range(MOST_ASKS):
        cluster.pass_()
    cluster.lay("node002")
    cluster.settle()
    assert cluster.nodes[1].runs == ["12.34"]


def test_a_text_is_not_kept_while_its_node_is_away() -> None:
    """It may be large, and there may be many."""
    cluster = Cluster()
    cluster.parts = (PARTS[0], replace(PARTS[1], state=AttemptState.LOST), PARTS[2])
    cluster.lay("node002", "orted " + "x" * 10_000)
    cluster.settle()
    assert all(not ask.text for ask in cluster.spawner._asks.values())
    cluster.parts = PARTS
    cluster.pass_(6.0)
    cluster.settle()
    assert len(cluster.nodes[1].work["12.34"]) > 10_000


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_lost_it_is_done_once_and_answered(seed: int) -> None:
    """Requests, their answers, events, masters; the look that comes round tells what is still to be answered."""
    cluster = Cluster(seed, 0.4)
    cluster.lay("node003")
    for turn in range(400):
        cluster.pass_(cluster.chance.uniform(0.05, 4.0))
        if cluster.chance.random() < 0.1:
            cluster.begin()
        if turn % 4 == 0:
            cluster.messages += [Asked(NodeName("node001"), PARTS[0].key, ask) for ask in cluster.nodes[0].asks]
        if turn > 40:
            cluster.finish(2, "0")
    assert cluster.nodes[2].runs == ["12.34"]
    assert cluster.nodes[0].answers == {"12.34": b"0\n"}
