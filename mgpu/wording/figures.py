"""Times, amounts and numbers as people read them."""

from __future__ import annotations

import time

from mgpu.lean.typing import Any, Sequence


def epoch(text: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time."""
    if not text:
        return None
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def duration(seconds: float) -> str:
    """As Slurm writes it: M:SS, H:MM:SS, D-HH:MM:SS."""
    if not seconds:
        return "0:00"
    minutes, second = divmod(max(int(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def roughly(seconds: float) -> str:
    """Where seconds say nothing: 43 min, 5 h, 3 days."""
    minutes = max(int(seconds) // 60, 0)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"


def local_time(text: str | None) -> str:
    """An ISO 8601 time in the reader's own zone, to the second."""
    when = epoch(text)
    return "-" if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def short_time(text: str | None, now: float) -> str:
    """The same, as one says it at `now` (seconds since the epoch): 14:23, of another day `12-01 08:00`; "" = none."""
    if not text:
        return ""
    when, today = local_time(text), time.strftime("%Y-%m-%d", time.localtime(now))
    return when[11:16] if when[:10] == today else when[5:16]


def gib(mib: int | None) -> str:
    return "?" if mib is None else f"{mib / 1024:.1f}"


def count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def gpu_label(index: int | None) -> str:
    """3, or 0.2 for MIG instance 2 of GPU 0, which has the index 1002."""
    return "?" if index is None else str(index) if index < 1000 else f"{(index - 1000) // 100}.{index % 100}"


def ranges(indices: Sequence[int]) -> str:
    """0,1,2,5 -> 0-2,5"""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1 < 1000:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    labels = [(gpu_label(first), gpu_label(last)) for first, last in runs]
    return ",".join(first if first == last else f"{first}-{last}" for first, last in labels)


def in_local_time(text: str) -> str:
    """The master writes `2026-12-01 08:00 UTC` into its reasons; people read one clock alone, their own."""
    if " UTC" not in text:
        return text
    import re

    return re.sub(r"\b(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC\b", _local_minute, text)


def _local_minute(found: Any) -> str:
    try:
        return local_time(f"{found[1]}T{found[2]}:00Z")[:16]
    except (ValueError, OverflowError):
        return str(found[0])
