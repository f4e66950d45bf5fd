"""What so many percent of some values stay within."""

from __future__ import annotations

from collections.abc import Collection


def percentile(values: Collection[float], percent: float) -> float:
    """The least of the values that so many percent of them do not exceed (nearest rank). At least one value, in any
    order."""
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(0, int(rank) - 1)]
