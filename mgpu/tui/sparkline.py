"""How much GPUs were used in the course of time, in a line of any width and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mgpu.tui.bars import HEIGHTS
from mgpu.wording.figures import duration, gib

PLAIN_BARS = "_.-=+*%#"  # of letters that every terminal has
GAP = " "  # not measured then


def sparkline(values: Sequence[float | None], width: int, plain: bool = False) -> str:
    """`values` 0 to 100, oldest first, None = not measured. A letter each; of more than there is room for, a letter is
    the mean of its share."""
    bars = PLAIN_BARS if plain else HEIGHTS
    return "".join(GAP if value is None else bars[_level(value)] for value in fitted(values, width))


def fitted(values: Sequence[float | None], width: int) -> list[float | None]:
    if width <= 0:
        return []
    if len(values) <= width:
        return list(values)
    edges = [len(values) * column // width for column in range(width + 1)]
    return [_mean(values[first:end]) for first, end in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None


def _level(percent: float) -> int:
    """The lowest bar is for nothing at all, and the highest for nearly all."""
    return max(0, min(int(percent / 12.5) + (0 < percent < 12.5), 7))


def utilization(points: Sequence[dict[str, Any]]) -> list[float | None]:
    """Of points as `use` has them: a number each, whatever else is there."""
    return [_number(point.get("utilization")) for point in points]


def span_words(points: Sequence[dict[str, Any]], step_s: float | None) -> str:
    """How long it is from one end of the line to the other."""
    return duration(len(points) * step_s) if points and step_s else ""


def use_words(use: dict[str, Any]) -> str:
    """Of a job over its life: mean, peak of its memory, GPU-hours."""
    mean, peak, hours = (_number(use.get(key)) for key in ("utilization", "memory_peak_mib", "gpu_hours"))
    idle = _number(use.get("idle_gpu_hours"))
    pieces = [
        "" if mean is None else f"mean {mean:.0f} %",
        "" if peak is None else f"at most {gib(int(peak))} GiB",
        "" if hours is None else f"{hours:.3g} GPU-hours" + (f", {idle:.3g} of them idle" if idle else ""),
    ]
    return "; ".join(filter(None, pieces))


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None
