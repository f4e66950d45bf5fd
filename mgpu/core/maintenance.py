"""Maintenance windows: no job runs there in that time, so none starts that could run into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mgpu.core.model import NodeName
from mgpu.core.plan import Batch, Closed, NodeView, Shut, Window
from mgpu.core.timelimit import render_time_limit


def words(window: Window) -> str:
    return f"maintenance {window.shown}: {window.reason}" if window.reason else f"maintenance {window.shown}"


def under_way(windows: Iterable[Window], now: float) -> str:
    """Why nothing starts there now; "" = no window is open."""
    return next((words(window) for window in windows if window.start <= now < window.end), "")


def closed_to(span_s: float, nodes: Iterable[NodeView], now: float, unlimited: bool = False) -> Closed:
    """The nodes where a job that may take so long must not start now, each with the reason. `unlimited`: it has no
    limit, and is only thought to take so long."""
    length = render_time_limit(int(span_s))
    job = f"a job of {length}"
    if unlimited:
        job = f"this job has no limit, is counted as {length}, its partition's planning_time, and"
    found: list[tuple[NodeName, Shut]] = []
    for node in nodes:
        ahead = [window for window in node.maintenance if now < window.start < now + span_s]
        if ahead:
            first = min(ahead, key=lambda window: window.start)
            left_s = int(first.start - now) // 60 * 60
            shorter = f"; with -t of at most {render_time_limit(left_s)} it could start now" if left_s else ""
            found.append((node.name, Shut(f"{words(first)}; {job} would run into it{shorter}")))
    return tuple(found)


def closing(batches: Sequence[Batch], nodes: Sequence[NodeView], now: float) -> tuple[Batch, ...]:
    """With the nodes that are closed to each."""
    if not any(node.maintenance for node in nodes):
        return tuple(batches)
    return tuple(batch._replace(closed=closed_to(batch.span_s, nodes, now, batch.unlimited)) for batch in batches)
