"""What a run came to, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.chaos.campaign import Result
from tests.chaos.plans import Settings

RECOVERIES = {
    "unreachable": "contact lost and found again",
    "rebooted": "parts lost to a reboot",
    "orphaned": "parts whose supervisor was gone",
    "node UP": "nodes that came (back) up",
}


def table(settings: Settings, result: Result, took_s: float) -> str:
    attempts = [attempt for job in result.jobs for attempt in job["attempts"]]
    begun = {(run.job_id, run.attempt) for run in result.runs}
    states = Counter(job["state"] for job in result.jobs)
    rows = [
        ("seed, nodes x GPUs", f"{settings.seed}, {settings.nodes} x {settings.gpus}"),
        ("trouble, settling, in all", f"{settings.seconds:.0f} s, {result.settled_s:.0f} s, {took_s:.0f} s"),
        ("jobs", f"{len(result.jobs)}: {_counts(states)}"),
        ("attempts, of which began", f"{len(attempts)}, {len(begun)}"),
        ("clients", _counts(result.clients)),
        ("output compared", f"{result.checked_bytes / 1e6:.1f} MB"),
        ("faults", f"{sum(result.faults.values())}: {_counts(result.faults)}"),
        *((text, str(result.audit[what])) for what, text in RECOVERIES.items()),
        ("violations", str(len(result.violations))),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n" + "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _counts(counter: Counter[str]) -> str:
    items: Iterable[tuple[str, int]] = counter.most_common()
    return ", ".join(f"{name} {number}" for name, number in items) or "none"
