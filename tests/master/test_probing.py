"""Who asks for a probe is told of one that began after they asked, or why there was none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core.errors import MgpuError
from mgpu.core.health import ProbeFailure
from mgpu.core.model import DeviceUuid, NodeName
from mgpu.core.observation import GpuReading, Observation, RawProbe
from mgpu.core.plan import NodeFacts
from mgpu.master.inbox import Inbox, Probed
from mgpu.master.link import NodeLink
from mgpu.master.probing import Probing
from mgpu.remote.errors import RemoteError
from mgpu.remote.runner import ProbeWanted

NODE = NodeName("a")
CONFIG = NodeConfig(NODE, "ssh", SshSettings("a"), NodeFacts(NODE))
LIMIT_S = 2 * Config(None, ()).probe_timeout_s + Config(None, ()).login_timeout_s


@dataclass
class Bench:
    """Clock, threads and node: a probe that has begun looks and answers when the test says so."""

    at: float = 0.0
    inbox: Inbox = field(default_factory=Inbox)
    stopping: threading.Event = field(default_factory=threading.Event)
    begun: list[Callable[[], None]] = field(default_factory=list)
    dead: bool = False
    gpu_status: int = 127
    address: str = "10.0.0.1"

    def __post_init__(self) -> None:
        self.link = NodeLink(CONFIG, "train", self, 45.0, self.inbox, self, self)
        self.probing = Probing({NODE: self.link}, Config(None, ()), self.stopping, self)

    def now(self) -> float:
        return self.at

    monotonic = now

    def line(self, name: str) -> None:
        """No orders here."""

    def spawn(self, name: str, task: Callable[[], None]) -> None:
        self.begun.append(task)

    def probe(self, wanted: ProbeWanted) -> RawProbe:
        if self.dead:
            raise RemoteError("no route to host")
        return RawProbe("boot", "a", None, self.gpu_status, "", 127, "", "")

    def answer(self) -> Probed:
        """The probe that is outstanding comes to its end; the tick has yet to hear of it."""
        self.begun.pop(0)()
        (probed,) = self.inbox.take()
        assert isinstance(probed, Probed)
        return probed

    def hear(self, probed: Probed) -> None:
        self.probing.answered(probed, self.at, 30.0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_probe_that_is_asked_for_begins_at_once(bench: Bench) -> None:
    outcome = bench.probing.ask(NODE)
    bench.hear(bench.answer())
    assert outcome.result(0) == ""  # it has no nvidia-smi, and says so: an answer
    bench.dead = True
    outcome = bench.probing.ask(NODE)
    bench.hear(bench.answer())
    assert outcome.result(0) == "no route to host"
    assert not bench.begun


def test_a_node_that_hangs_still_has_the_gpus_that_an_earlier_master_saw(bench: Bench) -> None:
    gpu = GpuReading(0, DeviceUuid("GPU-1"), "00000000:01:00.0", "A100")
    bench.link.remember(Observation(NODE, 0.0, "boot", "a", (gpu,)))
    bench.gpu_status = 124
    bench.probing.ask(NODE)
    seen = bench.answer().outcome
    assert isinstance(seen, Observation)
    assert ([each.uuid for each in seen.gpus], "hung" in seen.fault) == ([gpu.uuid], True)


def test_many_who_ask_share_a_probe(bench: Bench) -> None:
    first = bench.probing.ask(NODE)
    later = [bench.probing.ask(NODE) for _ in range(5)]
    bench.hear(bench.answer())
    assert first.done()
    assert not any(outcome.done() for outcome in later)  # that one had begun before they asked
    bench.hear(bench.answer())
    assert all(outcome.done() for outcome in later)
    assert not bench.begun


def test_an_answer_that_was_under_way_already_is_no_answer(bench: Bench) -> None:
    bench.probing.begin(0.0, ())
    old = bench.answer()
    outcome = bench.probing.ask(NODE)
    bench.hear(old)
    assert not outcome.done()
    bench.hear(bench.answer())
    assert outcome.done()


def test_an_answer_that_was_lost_is_asked_for_again(bench: Bench) -> None:
    """A pass that fails drops what it heard."""
    outcome = bench.probing.ask(NODE)
    bench.answer()
    bench.probing.begin(1.0, ())
    bench.hear(bench.answer())
    assert outcome.done()


def test_a_node_that_does_not_answer_is_asked_once_and_not_waited_for_for_ever(bench: Bench) -> None:
    outcome = bench.probing.ask(NODE)
    assert bench.probing.begin(0.0, ()) > 1  # no pass after the other for a probe that is outstanding
    bench.at = LIMIT_S - 1
    bench.probing.expire(bench.at)
    assert not outcome.done()
    assert bench.probing.begin(bench.at, ()) <= 1
    bench.at = LIMIT_S
    bench.probing.expire(bench.at)
    with pytest.raises(MgpuError, match="not probed in"):
        outcome.result(0)
    assert len(bench.begun) == 1


def test_who_waits_is_told_that_the_master_stops(bench: Bench) -> None:
    waiting: list[Future[str]] = [bench.probing.ask(NODE)]
    bench.stopping.set()
    bench.probing.stop()
    waiting.append(bench.probing.ask(NODE))
    for outcome in waiting:
        with pytest.raises(MgpuError, match="stopping"):
            outcome.result(0)


def test_who_has_gone_away_is_passed_over(bench: Bench) -> None:
    gone, there = bench.probing.ask(NODE), bench.probing.ask(NODE)
    assert gone.cancel()
    bench.hear(bench.answer())
    bench.hear(bench.answer())
    assert there.done()


def test_probes_that_are_nearly_due_begin_with_one_that_is(bench: Bench) -> None:
    others = {NodeName(name): NodeLink(CONFIG, "train", bench, 45.0, bench.inbox, bench, bench) for name in "abc"}
    probing = Probing(others, Config(None, ()), bench.stopping, bench)
    probing.begin(0.0, ())
    for name, pause_s in (("a", 30.0), ("b", 31.0), ("c", 40.0)):
        probing.answered(Probed(NodeName(name), bench.answer().outcome), 0.0, pause_s)
    probing.begin(29.9, ())
    assert not bench.begun
    assert probing.begin(30.0, ()) == 10.0
    assert len(bench.begun) == 2


def test_what_a_regular_probe_says_waits_for_what_others_say() -> None:
    inbox = Inbox()
    waiting = threading.Thread(target=inbox.wait, args=(1000.0,))
    waiting.start()
    inbox.put(Probed(NODE, ProbeFailure("no route")), within_s=1000.0)
    waiting.join(0.05)
    assert waiting.is_alive()
    inbox.put(Probed(NODE, ProbeFailure("no route")))
    waiting.join(20)
    assert not waiting.is_alive()
    assert len(inbox.take()) == 2
    inbox.put(Probed(NODE, ProbeFailure("no route")), within_s=0.01)
    inbox.wait(1000.0)
    assert len(inbox.take()) == 1
