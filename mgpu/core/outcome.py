"""What became of the jobs of a log, in figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from mgpu.core.percentile import percentile
from mgpu.core.replay import Ran

SHORTEST_S = 10.0  # a job counts as at least so long in its slowdown


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times in seconds; `bsld`: bounded slowdown, the mean of max(1, (wait + run) / max(run, 10 s)) (Feitelson et al.,
    "Theory and practice in parallel job scheduling", 1997); `utilization` in percent, over the makespan."""

    jobs: int
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    mean_jct_s: float
    bsld: float
    makespan_s: float
    utilization: float


def outcome(ran: Sequence[Ran], gpus: int) -> Outcome:
    """`gpus`: of the cluster. At least one job."""
    waits = [one.wait_s for one in ran]
    makespan = max(one.end for one in ran) - min(one.job.submit for one in ran)
    used = sum(one.gpus * one.job.duration_s for one in ran)
    return Outcome(
        jobs=len(ran),
        mean_wait_s=fmean(waits),
        median_wait_s=median(waits),
        p95_wait_s=percentile(waits, 95),
        max_wait_s=max(waits),
        mean_jct_s=fmean(one.end - one.job.submit for one in ran),
        bsld=fmean(slowdown(one) for one in ran),
        makespan_s=makespan,
        utilization=100 * used / (gpus * makespan) if makespan else 100.0,
    )


def slowdown(one: Ran) -> float:
    return max(1.0, (one.wait_s + one.job.duration_s) / max(one.job.duration_s, SHORTEST_S))


def grouped(ran: Iterable[Ran], key: Callable[[Ran], str], gpus: int) -> dict[str, Outcome]:
    """By what `key` says, in the order of first appearance."""
    groups: dict[str, list[Ran]] = {}
    for one in ran:
        groups.setdefault(key(one), []).append(one)
    return {name: outcome(found, gpus) for name, found in groups.items()}


def width(one: Ran) -> str:
    """1, 2, 3-4, 5-8, 9-16, ... GPUs."""
    least, most = 1, 1
    while one.gpus > most:
        least, most = most + 1, 2 * most
    return str(most) if least == most else f"{least}-{most}"
