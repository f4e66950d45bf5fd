"""What the master counts and times while it works, for `status`, `/metrics` and the health of its passes.

Numbers alone, since this master began: how they are shown is `ops.metrics`' concern. Names that somebody outside could
invent (users, jobs, paths) never become a key here.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from mgpu.core.lifecycle import ENDED, REQUEUED, STARTED, Happening
from mgpu.core.model import FailureClass, NodeName
from mgpu.core.observation import Node
from mgpu.core.percentile import percentile
from mgpu.core.plan import NodeView

PASS_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_BOUNDS_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0)
RECENT = 500  # passes


class Histogram:
    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """How many were at most each bound; the last one: all."""
        return list(accumulate(self._counts))


class Contact(NamedTuple):
    """With a node under one account: connections and shells that are open, and how often was logged in."""

    connections: int = 0
    shells: int = 0
    logins: int = 0


class Probes(NamedTuple):
    """Of one node: how many answered in how many seconds together, the last one of them, and how many did not."""

    answered: int = 0
    total_s: float = 0.0
    last_s: float = 0.0
    failed: int = 0


class Meters:
    """All may be called from any thread. What others know is asked of them when it is wanted: `nodes`, `views`,
    `contacts`, `clients`, `streams`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.passes = Histogram(PASS_BOUNDS_S)
        self.waits = Histogram(WAIT_BOUNDS_S)
        self.submitted = self.started = self.requeued = 0
        self.ended: Counter[str] = Counter()  # by state
        self.failures: Counter[str] = Counter()  # of attempts, by class
        self.requests: Counter[tuple[str, str, int]] = Counter()  # method, route, status
        self.notices: Counter[bool] = Counter()  # told or not
        self.probes: dict[NodeName, Probes] = {}
        self.trouble = ""  # why the last pass failed; "" = it did not
        self.passed_at: float | None = None  # when it was over, on the monotonic clock
        self.looked_at = float("-inf")  # when somebody who watches the queue last looked, on that clock
        self._recent: deque[float] = deque(maxlen=RECENT)
        self.nodes: Callable[[], Mapping[NodeName, Node]] = dict
        self.views: Callable[[], Sequence[NodeView]] = tuple
        self.contacts: Callable[[], Mapping[NodeName, Contact]] = dict
        self.clients: Callable[[], int] = int
        self.streams: Callable[[], int] = int
        self.troubles: Callable[[], Sequence[str]] = tuple  # beside those of the passes, one line each

    def passed(self, began: float, ended: float, trouble: str) -> None:
        with self._lock:
            self.passes.add(ended - began)
            self._recent.append(ended - began)
            self.passed_at, self.trouble = ended, trouble

    def recent(self, *percents: float) -> list[float]:
        """Seconds that so many percent of the latest passes stayed within; [] before the first."""
        with self._lock:
            latest = list(self._recent)
        return [percentile(latest, percent) for percent in percents] if latest else []

    @property
    def last_pass_s(self) -> float | None:
        with self._lock:
            return self._recent[-1] if self._recent else None

    def happened(self, happening: Happening) -> None:
        entry, job = happening.entry, happening.job
        with self._lock:
            if entry.what == "submit":
                self.submitted += 1
            elif entry.what == REQUEUED:
                self.requeued += 1
            elif job is not None and not job.is_array and entry.what == STARTED:
                self.started += 1
                if job.attempt == 1 and job.start_time is not None:
                    self.waits.add(max(0.0, job.start_time - job.submit_time))
            elif job is not None and not job.is_array and entry.what.startswith(ENDED):
                self.ended[str(job.state)] += 1

    def failed(self, classes: Iterable[FailureClass]) -> None:
        """Of attempts that have ended."""
        with self._lock:
            self.failures.update(str(one) for one in classes if one is not FailureClass.NONE)

    def probed(self, node: NodeName, took_s: float | None) -> None:
        """None = it did not answer."""
        with self._lock:
            was = self.probes.get(node, Probes())
            if took_s is None:
                self.probes[node] = was._replace(failed=was.failed + 1)
            else:
                self.probes[node] = Probes(was.answered + 1, was.total_s + took_s, took_s, was.failed)

    def noticed(self, told: bool) -> None:
        """By the command of `notify:`."""
        with self._lock:
            self.notices[told] += 1

    def answered(self, method: str, route: str, status: int) -> None:
        with self._lock:
            self.requests[method, route, status] += 1
