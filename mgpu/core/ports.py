"""Ports where the ranks of an attempt meet."""

from __future__ import annotations

from collections.abc import Container

from mgpu.core.model import JobId

PORTS = (20_000, 29_999)  # first and last; below those that a kernel hands out by itself


def meeting_port(job_id: JobId, attempt: int, taken: Container[int | None], ports: tuple[int, int] = PORTS) -> int:
    """None of `taken`; where all are, one of them. Neighbours differ, and so do attempts: what keeps one from a
    port may last longer than it does."""
    low, high = ports
    size = high - low + 1
    first = (job_id * 7 + (attempt - 1) * 101) % size
    around = (low + (first + step) % size for step in range(size))
    return next((port for port in around if port not in taken), low + first)
