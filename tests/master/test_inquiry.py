"""What is asked of nodes for somebody who waits, and what is made of those that do not answer: nodes that say what they
are told to, real threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mgpu.core.errors import MgpuError
from mgpu.core.meeting import Call, Side
from mgpu.core.model import NodeName
from mgpu.core.nodefacts import CLOCK
from mgpu.core.preflight import Together
from mgpu.master import inquiry
from mgpu.master.calling import SILENT
from mgpu.master.inquiry import Inquiry
from mgpu.master.worker import SystemThreads
from mgpu.remote.errors import RemoteError

A, B = NodeName("a"), NodeName("b")


class Node:
    def __init__(self, name: NodeName, workdir: str = "") -> None:
        self.name = name
        self.clock = "1000.25"
        self.asked: list[tuple[str, str]] = []  # texts, and for which shell
        self.marks: list[str] = []
        self.marked_now = False
        self.trouble: Callable[[], None] = lambda: None
        self.config = SimpleNamespace(
            workdir=workdir,
            setup="module load python" if workdir else "",
            env={},
            login_shell=False,
            network_interface="",
            network_address="",
        )

    def run(self, text: str, limit_s: int, shell: str = "sh") -> tuple[int, str]:
        self.trouble()
        if text == CLOCK:
            return 0, self.clock
        self.asked.append((text, shell))
        return 0, f"hostname {self.name}\npython 3.11.7\ndirectory 0 seen\n"

    @contextlib.contextmanager
    def marked(self, nonce: str, directories: Sequence[str]) -> Iterator[tuple[bool, ...]]:
        self.trouble()
        self.marks = list(directories)
        self.marked_now = True
        yield tuple(directory != "/here" for directory in directories)
        self.marked_now = False


class Bench:
    def __init__(self, *nodes: Node) -> None:
        self.nodes = {node.name: node for node in nodes}
        links: Any = {
            node.name: SimpleNamespace(runner=SimpleNamespace(peers=node), config=node.config) for node in nodes
        }
        ways: Any = SimpleNamespace(look=self.look, side=Side, ports=(20000, 20100))
        times: Any = SimpleNamespace(now=lambda: 1000.0)
        self.heard: list[Call] = []
        self.inquiry = Inquiry(links, ways, SystemThreads(), times, lambda name: None)

    def look(self, names: Sequence[NodeName], fresh: bool) -> list[Call]:
        assert fresh
        return self.heard or [Call(a, b, f"10.0.0.{ord(b)}", 20007, "ok") for a in names for b in names if a != b]

    def ask(self, directory: str = "/here", virtual_env: str = "") -> Together:
        return self.inquiry.ask(list(self.nodes), directory, virtual_env)


def test_what_is_asked() -> None:
    bench = Bench(Node(A, "/scratch"), Node(B))
    told = bench.ask(virtual_env="/venv")
    assert [node.facts.python for node in told.nodes if node.facts] == ["3.11.7"] * 2
    assert [node.clock_s for node in told.nodes] == [(0.25, 0.0)] * 2
    assert told.directories == [("home", "~", True), ("this directory", "/here", False), ("workdir", "/scratch", True)]
    assert bench.nodes[A].marks == ["~", "/here", "/scratch"]
    assert bench.nodes[B].marks == []
    (text, shell), (other, plain) = bench.nodes[A].asked[0], bench.nodes[B].asked[0]
    assert (shell, plain) == ("bash", "sh")
    assert "module load python" in text
    assert "10.0.0.98" in text  # the way to the other is asked for
    assert "10.0.0.97" in other
    assert "/venv" in other
    assert not bench.nodes[A].marked_now


def test_a_node_that_does_not_answer_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "ANSWERS_S", 0.5)
    bench, over = Bench(Node(A), Node(B)), threading.Event()

    def silent() -> None:
        over.wait(30)

    bench.nodes[B].trouble = silent
    told = bench.ask()
    over.set()
    assert told.nodes[0].facts
    assert (told.nodes[1].facts, told.nodes[1].trouble) == (None, "it did not answer in time")


def test_a_node_that_nobody_heard_of_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "ANSWERS_S", 3600.0)
    monkeypatch.setattr(inquiry, "MUTE_S", 0.1)
    bench, over = Bench(Node(A), Node(B)), threading.Event()
    doubts = [
        Call(A, B, "10.0.0.98", doubt="a: it did not answer in time"),
        Call(B, A, "10.0.0.97", doubt="b: no perl"),
    ]
    monkeypatch.setattr(bench, "heard", doubts)

    def silent() -> None:
        over.wait(600)

    bench.nodes[A].trouble = silent  # where a file would be made for the others to see
    told = bench.ask()
    over.set()
    assert [(node.facts is None, node.trouble) for node in told.nodes] == [(True, SILENT), (False, "")]
    assert not any(made for _, _, made in told.directories)


def test_a_node_that_is_lost_is_told_of() -> None:
    def lost() -> None:
        raise RemoteError("connection lost")

    bench = Bench(Node(A), Node(B))
    bench.nodes[A].trouble = lost
    told = bench.ask()
    assert (told.nodes[0].facts, told.nodes[0].trouble) == (None, "connection lost")
    assert [made for _, _, made in told.directories] == [False, False]
    assert told.nodes[1].facts


@pytest.mark.parametrize(
    ("said", "offset"),
    [("1040.5", (40.5, 0.0)), ("1000", (0.5, 0.5)), ("1000.%N", (0.5, 0.5)), ("x", None), ("", None)],
)
def test_clocks(said: str, offset: tuple[float, float] | None) -> None:
    bench = Bench(Node(A), Node(B))
    bench.nodes[A].clock = said
    assert bench.ask().nodes[0].clock_s == offset


def test_one_at_a_time() -> None:
    bench, begun, over = Bench(Node(A), Node(B)), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        over.wait(30)

    bench.nodes[A].trouble = slow
    first = threading.Thread(target=bench.ask)
    first.start()
    assert begun.wait(30)
    with pytest.raises(MgpuError, match="another preflight is under way"):
        bench.ask()
    over.set()
    first.join()
    assert bench.ask().nodes[0].facts
