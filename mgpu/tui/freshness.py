"""Whether what is shown is what there is: how old it is, and why nothing newer came."""

from __future__ import annotations

from statistics import median

from mgpu.tui.cells import shown
from mgpu.wording.figures import duration

PATIENCE = 2.0  # usual pauses
LEAST_S = 10.0
UNKNOWN_PAUSE_S = 30.0
REMEMBERED = 5


class Freshness:
    """Of what is asked again and again, with `pause_s` between."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.good_at: float | None = None  # when the last good answer came
        self.failure = ""  # of the last try; "" = it went well
        self._since: float | None = None  # when the first question was asked, or the first failed

    def asked(self, now: float) -> None:
        if self._since is None:
            self._since = now

    def good(self, now: float) -> None:
        self.good_at, self.failure = now, ""

    def bad(self, why: str) -> None:
        self.failure = why or "no answer"

    def age(self, now: float) -> str:
        """ "" = it is fresh. A master that hangs is told of once it has been silent for some pauses."""
        since = self._since if self.good_at is None else self.good_at
        age_s = 0.0 if since is None else max(now - since, 0.0)
        if not self.failure and age_s <= 3 * self.pause_s:
            return ""
        return "no answer yet" if self.good_at is None else f"stale, {duration(age_s)} old"

    def words(self, now: float) -> str:
        """The same, and why."""
        age = self.age(now)
        return f"{age}: {shown(self.failure) or 'the master is silent'}" if age else ""


class Pauses:
    """How often each node is usually looked at, learnt from when it was."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lengths: dict[str, list[float]] = {}

    def saw(self, node: str, at: float | None) -> None:
        before = self._seen.get(node)
        if at is None or at == before:
            return
        self._seen[node] = at
        if before is not None and at > before:
            self._lengths[node] = [*self._lengths.get(node, ())[-REMEMBERED + 1 :], at - before]

    def old_after_s(self, node: str) -> float:
        lengths = self._lengths.get(node)
        return max(PATIENCE * (median(lengths) if lengths else UNKNOWN_PAUSE_S), LEAST_S)
