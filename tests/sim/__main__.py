"""Many seeds: `python -m tests.sim --seeds 10000`; or one, with what happened in it: `python -m tests.sim --seed 17`.

Ends with 1 if a seed failed. A failing scenario is made smaller before it is shown: fewer kinds of trouble, fewer jobs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace

from tests.sim.scenario import Scenario
from tests.sim.simulate import simulate
from tests.sim.simulation import Figures
from tests.sim.weather import CALM, KINDS
from tests.sim.world import Violation


def attempt(seed: int) -> tuple[int, Figures | None, str]:
    try:
        return seed, simulate(Scenario.of_seed(seed))[0], ""
    except Violation as violation:
        return seed, None, str(violation.args[0])


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    for kind in KINDS:
        if getattr(scenario.weather, kind):
            yield replace(scenario, weather=replace(scenario.weather, **{kind: getattr(CALM, kind)}))
    if scenario.jobs > 1:
        yield replace(scenario, jobs=scenario.jobs - 1)
    if scenario.storm_s > 30:
        yield replace(scenario, storm_s=scenario.storm_s / 2)


def shrunk(scenario: Scenario) -> tuple[Scenario, Violation | None]:
    """The smallest scenario found that still fails, by one change after the other."""
    found: Violation | None = None
    candidates = iter([scenario, *smaller(scenario)])
    while (candidate := next(candidates, None)) is not None:
        try:
            simulate(candidate)
        except Violation as violation:
            if found is None or candidate != scenario:
                scenario, found = candidate, violation
                candidates = smaller(scenario)
    return scenario, found


def show(seed: int) -> int:
    scenario, violation = shrunk(Scenario.of_seed(seed))
    if violation is None:
        figures, trace = simulate(scenario)
        print("\n".join(trace), scenario, figures, sep="\n")
        return 0
    print("\n".join(violation.args[1]), scenario, violation.args[0], sep="\n")
    return 1


class Progress:
    """How far it is, on stderr: one line that is written over on a terminal, elsewhere a line now and then."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._over = sys.stderr.isatty()
        self._every = 20 if self._over else 1000

    def tell(self, clean: int, failed: int) -> None:
        if (clean + failed) % self._every == 0:
            start, end = ("\r", "") if self._over else ("", "\n")
            text = f"{start}{clean} clean, {failed} failed, {self.passed_s:.0f} s{end}"
            print(text, end="", file=sys.stderr, flush=True)

    def make_room(self) -> None:
        """For a line that stays."""
        if self._over:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._began


def many(first: int, count: int, processes: int) -> int:
    progress, total, clean, failed = Progress(), Counter(), 0, []
    with multiprocessing.Pool(processes) as pool:
        for seed, figures, text in pool.imap_unordered(attempt, range(first, first + count), chunksize=4):
            if figures is None:
                failed.append(seed)
                progress.make_room()
                print(f"seed {seed}: {text[:500]}", flush=True)
            else:
                clean += 1
                total.add(figures)
            progress.tell(clean, len(failed))
    progress.make_room()
    print(f"{clean} seeds clean, {len(failed)} failed in {progress.passed_s:.0f} s: {total}")
    if failed:
        print(f"failed: {sorted(failed)}; python -m tests.sim --seed {min(failed)} shows one")
    return 1 if failed else 0


class Counter:
    """Sums of figures."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}

    def add(self, figures: Figures) -> None:
        for name, value in asdict(figures).items():
            self._sums[name] = self._sums.get(name, 0) + value

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.0f}" for name, value in self._sums.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, with what happened")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.seed is not None:
        return show(given.seed)
    return many(given.first, given.seeds, given.processes)


if __name__ == "__main__":
    sys.exit(main())
