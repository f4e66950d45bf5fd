"""A replay as a picture: GPUs in use and jobs waiting over time, a line for each way of scheduling (SVG 1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import floor, log10

from mgpu.core.replay import Ran

STEPS = 480  # of time: each shows its mean
WIDTH, HEIGHT, LEFT, TOP, GAP = 960, 220, 70, 60, 60
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by the colour-blind too
_DAY_S, _HOUR_S = 86_400.0, 3600.0

Change = tuple[float, float]  # at that time so much more


def plot(results: Mapping[str, Sequence[Ran]], gpus: int) -> str:
    """`results`: by the name of the way, at least one job each; `gpus` of the cluster."""
    everything = [one for ran in results.values() for one in ran]
    begin, end = min(one.job.submit for one in everything), max(one.end for one in everything)
    panels = (
        (f"GPUs in use, of {gpus}", {name: means(_used(ran), begin, end) for name, ran in results.items()}, gpus),
        ("jobs waiting", {name: means(_waiting(ran), begin, end) for name, ran in results.items()}, 0),
    )
    height = TOP + len(panels) * (HEIGHT + GAP)
    box, font = f"0 0 {LEFT + WIDTH + 20} {height}", 'font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>',
        '<rect width="100%" height="100%" fill="white"/>',
        *_legend(list(results)),
    ]
    for number, (title, rows, least) in enumerate(panels):
        lines += _panel(title, rows, least, TOP + number * (HEIGHT + GAP), end - begin)
    return "\n".join([*lines, "</svg>"]) + "\n"


def means(changes: Iterable[Change], begin: float, end: float) -> list[float]:
    """The mean of what the changes make, over each step of the time."""
    step = (end - begin) / STEPS or 1.0
    found = [0.0] * STEPS
    level, since = 0.0, begin
    for at, more in (*sorted(changes), (end, 0.0)):
        first, last = (since - begin) / step, (at - begin) / step
        for number in range(int(first), min(int(last), STEPS - 1) + 1 if level else 0):
            found[number] += level * (min(last, number + 1) - max(first, number))
        level, since = level + more, at
    return found


def ticks(most: float) -> list[float]:
    """Six to thirteen round numbers from 0 on, up to `most` (over 0)."""
    step = 10.0 ** floor(log10(most / 5))
    step *= next(factor for factor in (5, 2, 1) if most / (step * factor) >= 5 or factor == 1)
    return [number * step for number in range(int(most / step + 1e-9) + 1)]


def _used(ran: Sequence[Ran]) -> Iterable[Change]:
    return [change for one in ran for change in ((one.start, float(one.gpus)), (one.end, -float(one.gpus)))]


def _waiting(ran: Sequence[Ran]) -> Iterable[Change]:
    return [change for one in ran for change in ((one.job.submit, 1.0), (one.start, -1.0))]


def _legend(names: Sequence[str]) -> Iterable[str]:
    at = LEFT
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        yield f'<rect x="{at}" y="14" width="18" height="4" fill="{colour}"/>'
        yield f'<text x="{at + 24}" y="20">{escape(name)}</text>'
        at += 44 + 8 * len(name)


def _panel(title: str, rows: Mapping[str, Sequence[float]], least: float, top: float, span_s: float) -> Iterable[str]:
    most = max([least, *(max(row) for row in rows.values())]) or 1.0
    unit_s, unit = (_DAY_S, "days") if span_s > 3 * _DAY_S else (_HOUR_S, "hours")
    yield f'<text x="{LEFT}" y="{top - 8}">{escape(title)}, over {unit}</text>'
    for value in ticks(most):
        y = top + HEIGHT * (1 - value / most)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    for value in ticks(span_s / unit_s or 1.0):
        x = LEFT + WIDTH * value / (span_s / unit_s or 1.0)
        yield f'<text x="{x:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle">{value:g}</text>'
    for number, row in enumerate(rows.values()):
        points = " ".join(
            f"{LEFT + WIDTH * (at + 0.5) / STEPS:.1f},{top + HEIGHT * (1 - value / most):.1f}"
            for at, value in enumerate(row)
        )
        colour = COLOURS[number % len(COLOURS)]
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
