"""When each node is probed next, and those who wait for a probe."""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core.errors import MgpuError
from mgpu.core.model import NodeName
from mgpu.master.link import NodeLink

FIRST_LOOK_S = 3.0
SPACING_S = 5.0  # of probes that are not asked for


class Probing:
    """`begin`, `answered` and `soon` belong to the tick's thread, the rest to any."""

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
        self._count: dict[NodeName, int] = {}
        self._news = threading.Condition()

    def begin(self, monotonic: float, up: Container[NodeName]) -> float:
        """Begin the probes that are due; seconds until another is. One that is outstanding is the only one of its
        node. `up`: the nodes whose events can be followed."""
        soonest = self._config.heartbeat_interval_s
        for name, link in self._links.items():
            if name in up:
                link.listen()
            due = self._due[name]
            if monotonic >= due and link.probe():
                # until it answers, nothing is due
                due = self._due[name] = monotonic + 2 * self._config.probe_timeout_s + 30
            soonest = min(soonest, max(0.02, due - monotonic))
        return soonest

    def answered(self, node: NodeName, monotonic: float, pause_s: float) -> None:
        self._due[node] = monotonic + pause_s
        self._answered_at[node] = monotonic
        with self._news:
            self._count[node] = self._count.get(node, 0) + 1
            self._news.notify_all()

    def soon(self, node: NodeName, within_s: float) -> None:
        """Sooner than its regular turn, but not much more often."""
        due = max(self._clock.monotonic() + within_s, self._answered_at.get(node, 0.0) + SPACING_S)
        if node in self._due:
            self._due[node] = min(self._due[node], due)

    def at_once(self, node: NodeName) -> None:
        self._due[node] = 0.0

    def has_answered(self, node: NodeName) -> bool:
        return self._count.get(node, 0) > 0

    @property
    def all_answered(self) -> bool:
        return all(self._count.get(name) for name in self._links)

    def await_first(self) -> None:
        """Just after the start nothing has been seen yet: the first who asks waits a moment for the first probes."""
        with self._news:
            while not self.all_answered and not self._stopping.is_set():
                left = self._began + FIRST_LOOK_S - self._clock.monotonic()
                if left <= 0:
                    break
                self._news.wait(min(left, 0.1))

    def await_next(self, node: NodeName) -> None:
        """Returns once a probe has answered that began after this was asked. Raises MgpuError if none does."""
        link = self._links[node]
        limit = 2 * self._config.probe_timeout_s + self._config.login_timeout_s
        with self._news:
            before = self._count.get(node, 0)
            # one that was under way already may have looked before the caller asked
            wanted = before + (1 if link.probe() else 2)
            deadline = self._clock.monotonic() + limit
            while self._count.get(node, 0) < wanted:
                left = deadline - self._clock.monotonic()
                if left <= 0 or self._stopping.is_set():
                    raise MgpuError(f"{node} was not probed in {limit:.0f} s", "mgpu nodes shows its state")
                self._news.wait(min(left, 0.2))
                if self._count.get(node, 0) < wanted:
                    link.probe()
