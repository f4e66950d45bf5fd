"""The command: measures what is asked for, prints one table, and takes down all that it made."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic
from typing import Any, NoReturn

from mgpu.client.http import MasterError
from scripts.benchmarks import (
    commands,
    foreground,
    gangs,
    machine,
    monitor,
    planner,
    polling,
    probes,
    queues,
    refresh,
    samples,
    stages,
    submits,
)
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import BenchError, Row
from tests.lab.lab import sweep
from tests.lab.node import LabError

LIMIT_S = 420.0
LIMIT_OF_MANY_S = 900.0  # a hundred sshds have to come up first
Measure = Callable[[Any, int], list[Row]]

# name -> (nodes of its lab, 0 = it needs none; repeats; what measures it)
MEASURES: dict[str, tuple[int, int, Measure]] = {
    "planner": (0, 5, planner.planner),
    "samples": (0, 1, samples.samples),
    "interpreter": (1, 15, commands.interpreter),
    "srun": (1, 15, commands.srun),
    "pause": (1, 4, commands.srun_after_a_pause),
    "stages": (1, 15, stages.stages),
    "first-line": (1, 12, commands.first_line),
    "submit": (1, 12, commands.submit),
    "cancel": (1, 12, commands.cancel),
    "output": (1, 4, commands.big_output),
    "through": (1, 4, foreground.through),
    "keys": (1, 4, foreground.keys),
    "crowd": (1, 1, foreground.crowd),
    "probe": (1, 10, probes.probe),
    "idle": (1, 1, lambda cluster, _repeats: probes.idle_master(cluster)),
    "queue": (2, 15, queues.long_queue),
    "drain": (2, 2, queues.drain),
    "monitor": (2, 10, monitor.monitor),
    "refresh": (0, 20, refresh.refresh),
    "polling": (1, 10, polling.polling),
    "submits": (1, 1, submits.submits),
    "gang-2": (2, 6, gangs.gang(2, 1.0)),
    "gang-8": (8, 6, gangs.gang(8, 1.5)),
    "gang-50": (50, 6, gangs.gang(50, 5.0)),
    "many": (100, 5, probes.many_nodes),
}


LARGE = {name for name, (nodes, _, _) in MEASURES.items() if nodes > 2} | {
    "monitor",
    "polling",
    "submits",
}  # only where they are asked for


class OutOfTime(Exception):
    """Everything together took longer than it may."""


def main() -> None:
    arguments = parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _out_of_time)
    names = arguments.only or [name for name in MEASURES if name not in LARGE]
    signal.alarm(int(LIMIT_OF_MANY_S if LARGE & set(names) else LIMIT_S))
    status = 1
    with suppress(KeyboardInterrupt):
        status = measure(names, arguments.quick)
    sys.exit(status)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="scripts/bench", description="What mgpu costs on this machine, in one table.")
    top.add_argument("--quick", action="store_true", help="few repetitions: to see that all of it works")
    top.add_argument(
        "only",
        nargs="*",
        type=known,
        metavar="MEASURE",
        help=f"of: {' '.join(MEASURES)} (default: all but {' '.join(sorted(LARGE))})",
    )
    return top


def known(name: str) -> str:
    if name not in MEASURES:
        raise argparse.ArgumentTypeError(f"no measure {name!r}; there are {', '.join(MEASURES)}")
    return name


def measure(names: list[str], quick: bool) -> int:
    """Prints the table; the exit status. What was measured before a failure is shown too."""
    began = monotonic()
    sweep()
    taken, load = machine.wait_for_quiet(3 if quick else 20), machine.load()
    print(machine.describe())
    print(f"Before it began: load {load}, others took {taken:.0%} of the machine.\n", flush=True)
    print_head()
    status = 0
    try:
        for nodes in sorted({MEASURES[name][0] for name in names}):
            chosen = [name for name in names if MEASURES[name][0] == nodes]
            if chosen:
                with Cluster(f"{nodes}", nodes) if nodes else nullcontext() as cluster:
                    for name in chosen:
                        _nodes, repeats, function = MEASURES[name]
                        print_rows(function(cluster, min(repeats, 2) if quick else repeats))
    except (BenchError, LabError, MasterError) as error:
        print(f"bench: {error}", file=sys.stderr)
        status = 1
    except OutOfTime:
        print(f"bench: not done within {LIMIT_S:g} s; the rest is left out", file=sys.stderr)
        status = 1
    signal.alarm(0)
    print(f"\nTook {monotonic() - began:.0f} s. At the end: load {machine.load()}.")
    return status


def print_head() -> None:
    print("| measure | median | min - max | n | goal |\n| --- | --- | --- | --- | --- |")


def print_rows(rows: list[Row]) -> None:
    for row in rows:
        print(f"| {' | '.join(row.cells())} |", flush=True)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _out_of_time(_number: int, _frame: object) -> NoReturn:
    raise OutOfTime


if __name__ == "__main__":
    main()
