"""What went wrong lately, for `status`: the same trouble is told once, with how often and when it was seen last."""

from __future__ import annotations

from dataclasses import dataclass

from mgpu.ops.render import moment

MOST = 20


@dataclass(slots=True)
class _Seen:
    times: int
    at: float


class Troubles:
    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}  # the one that was seen last stands last

    def add(self, text: str, now: float) -> bool:
        """Whether it is worth a line in the log: it is new, or has come twice as often as when it was told before."""
        seen = self._seen.pop(text, None) or _Seen(0, now)
        seen.times, seen.at = seen.times + 1, now
        # put together before it is shown: other threads read it meanwhile
        kept = list(self._seen.items())[-(MOST - 1) :]
        self._seen = {**dict(kept), text: seen}
        return seen.times & (seen.times - 1) == 0

    def lines(self) -> tuple[str, ...]:
        return tuple(_line(text, seen) for text, seen in self._seen.items())


def _line(text: str, seen: _Seen) -> str:
    at = moment(seen.at)
    return f"{text} (at {at})" if seen.times == 1 else f"{text} ({seen.times} times, last at {at})"
