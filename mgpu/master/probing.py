"""When each node is probed next, and those who wait for a probe."""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core.errors import MgpuError
from mgpu.core.model import NodeName
from mgpu.master.inbox import Probed
from mgpu.master.link import NodeLink

FIRST_LOOK_S = 3.0
SPACING_S = 5.0  # of probes that are not asked for
SOONER = 0.05  # of the pause between two probes


@dataclass(frozen=True, slots=True)
class _Asked:
    """Somebody waits for the outcome of this probe of a node, or of one after it, so long at most."""

    number: int
    began: float
    outcome: Future[str]


class Probing:
    """`ask`, `await_first` and `stop` may be called from any thread, the rest belongs to the tick's."""

    def __init__(
        self, links: Mapping[NodeName, NodeLink], config: Config, stopping: threading.Event, clock: Clock
    ) -> None:
        self._links = links
        self._config = config
        self._stopping = stopping
        self._clock = clock
        self._began = clock.monotonic()
        self._due: dict[NodeName, float] = dict.fromkeys(links, 0.0)
        self._answered_at: dict[NodeName, float] = {}
        self._asked: dict[NodeName, list[_Asked]] = {}
        self._news = threading.Condition()
        self._limit_s = 2 * config.probe_timeout_s + config.login_timeout_s

    def begin(self, monotonic: float, up: Container[NodeName]) -> float:
        """Begin the probes that are due; seconds until another is. One that is outstanding is the only one of its
        node. `up`: the nodes whose events can be followed."""
        soonest = self._config.heartbeat_interval_s
        together = any(monotonic >= due for due in self._due.values())
        for name, link in self._links.items():
            if name in up:
                link.listen()
            due = self._due[name]
            if monotonic >= (due - self._sooner(name) if together else due):
                link.probe(hurry=False)
                # until it answers, or the one that is outstanding, nothing is due
                due = self._due[name] = monotonic + 2 * self._config.probe_timeout_s + 30
            soonest = min(soonest, due - monotonic)
        return max(0.02, min(soonest, self._begin_asked(monotonic)))

    def _sooner(self, name: NodeName) -> float:
        """So much before its turn a node may be probed, where others are anyway: a pass for several costs hardly more
        than one."""
        pause_s = self._due[name] - self._answered_at.get(name, self._due[name])
        return pause_s * SOONER

    def _begin_asked(self, monotonic: float) -> float:
        """Those that were asked for and could not begin then, or whose answer was lost; seconds until the first of
        those who wait has waited long enough."""
        with self._news:
            asked = [one for waiting in self._asked.values() for one in waiting]
            for name in self._asked:
                self._links[name].probe()
        return min((one.began + self._limit_s - monotonic for one in asked), default=self._limit_s)

    def answered(self, probed: Probed, monotonic: float, pause_s: float) -> None:
        name = probed.node
        self._due[name] = monotonic + pause_s
        with self._news:
            self._answered_at[name] = monotonic
            waiting = self._asked.pop(name, ())
            later = [one for one in waiting if one.number > probed.number]
            if later:
                self._asked[name] = later
                self._links[name].probe()
            self._news.notify_all()
        for one in waiting:
            if one.number <= probed.number and one.outcome.set_running_or_notify_cancel():
                one.outcome.set_result(probed.failure)

    def soon(self, node: NodeName, within_s: float) -> None:
        """Sooner than its regular turn, but not much more often."""
        due = max(self._clock.monotonic() + within_s, self._answered_at.get(node, 0.0) + SPACING_S)
        if node in self._due:
            self._due[node] = min(self._due[node], due)

    def at_once(self, node: NodeName) -> None:
        self._due[node] = 0.0

    def has_answered(self, node: NodeName) -> bool:
        return node in self._answered_at

    @property
    def all_answered(self) -> bool:
        return len(self._answered_at) == len(self._links)

    def await_first(self) -> None:
        """Just after the start nothing has been seen yet: the first who asks waits a moment for the first probes."""
        with self._news:
            while not self.all_answered and not self._stopping.is_set():
                left = self._began + FIRST_LOOK_S - self._clock.monotonic()
                if left <= 0:
                    break
                self._news.wait(min(left, 0.1))

    def ask(self, node: NodeName) -> Future[str]:
        """Over once something came of a probe that began after this was asked: why the node did not answer, "" = it
        did. MgpuError if there is none in time."""
        link = self._links[node]
        outcome: Future[str] = Future()
        with self._news:
            # one that was under way already may have looked before the caller asked
            number = link.begun if link.probe() else link.begun + 1
            self._asked.setdefault(node, []).append(_Asked(number, self._clock.monotonic(), outcome))
        if self._stopping.is_set():
            self.stop()
        return outcome

    def expire(self, monotonic: float) -> None:
        """Who has waited too long is told so."""
        self._refuse(monotonic - self._limit_s, f"was not probed in {self._limit_s:.0f} s")

    def stop(self) -> None:
        self._refuse(self._clock.monotonic(), "was not probed: the master is stopping")

    def _refuse(self, before: float, why: str) -> None:
        """Those who asked by then."""
        refused: list[tuple[NodeName, _Asked]] = []
        with self._news:
            for name, waiting in list(self._asked.items()):
                refused += [(name, one) for one in waiting if one.began <= before]
                self._asked[name] = [one for one in waiting if one.began > before]
                if not self._asked[name]:
                    del self._asked[name]
        for name, one in refused:
            if one.outcome.set_running_or_notify_cancel():
                one.outcome.set_exception(MgpuError(f"{name} {why}", "mgpu nodes shows its state"))
