"""The command: measures what is asked for, prints one table and one of the goals, and takes down all that it made."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any, NoReturn

from mgpu.client.http import MasterError
from scripts.benchmarks import (
    beside,
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
    restart,
    samples,
    soak,
    stages,
    submits,
    throughput,
    wide,
    wishes,
)
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import BenchError, Row
from scripts.benchmarks.slurm import Slurm, install
from tests.lab.lab import sweep
from tests.lab.node import LabError

LIMIT_S = 600.0
LIMIT_OF_ALL_S = 2400.0  # a hundred sshds have to come up first
Measure = Callable[[Any, int], list[Row]]
GPUS, WIDE = 4, 8

# name -> (nodes of its lab, 0 = it needs none; GPUs of each; repeats; what measures it)
MEASURES: dict[str, tuple[int, int, int, Measure]] = {
    "planner": (0, 0, 5, planner.planner),
    "samples": (0, 0, 1, samples.samples),
    "wide": (0, 0, 2, wide.wide),
    "interpreter": (1, GPUS, 10, commands.interpreter),
    "srun": (1, GPUS, 10, commands.srun),
    "pause": (1, GPUS, 4, commands.srun_after_a_pause),
    "stages": (1, GPUS, 15, stages.stages),
    "first-line": (1, GPUS, 12, commands.first_line),
    "submit": (1, GPUS, 10, commands.submit),
    "cancel": (1, GPUS, 10, commands.cancel),
    "output": (1, GPUS, 3, commands.big_output),
    "through": (1, GPUS, 4, foreground.through),
    "lines": (1, GPUS, 10, foreground.lines),
    "keys": (1, GPUS, 4, foreground.keys),
    "crowd": (1, GPUS, 1, foreground.crowd),
    "probe": (1, GPUS, 10, probes.probe),
    "idle": (1, GPUS, 1, lambda cluster, _repeats: probes.idle_master(cluster)),
    "pass": (0, 0, 1, wide.idle_pass),
    "passes": (1, GPUS, 1, lambda cluster, _repeats: probes.idle_passes(cluster)),
    "wishes": (1, GPUS, 7, wishes.wishes),
    "queue": (2, GPUS, 15, queues.long_queue),
    "drain": (2, GPUS, 2, queues.drain),
    "monitor": (2, GPUS, 10, monitor.monitor),
    "refresh": (0, 0, 20, refresh.refresh),
    "polling": (1, GPUS, 10, polling.polling),
    "submits": (1, GPUS, 1, submits.submits),
    "throughput": (8, WIDE, 2, throughput.throughput),
    "restart": (8, WIDE, 2, restart.restart),
    "gang-2": (2, GPUS, 6, gangs.gang(2, 1.0)),
    "gang-8": (8, GPUS, 6, gangs.gang(8, 1.5)),
    "gang-50": (50, GPUS, 6, gangs.gang(50, 5.0)),
    "many": (100, GPUS, 4, probes.many_nodes),
    "soak": (2, GPUS, 1, lambda cluster, _repeats: soak.soak(cluster, 0.01, 6.0)),
}

# what there is a goal for, and what the others of ten minutes are: the rest is measured where it is asked for
USUAL = (
    "interpreter",
    "srun",
    "submit",
    "cancel",
    "output",
    "lines",
    "pass",
    "wishes",
    "throughput",
    "restart",
    "many",
)


class OutOfTime(Exception):
    """Everything together took longer than it may."""


def main() -> None:
    arguments = parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _out_of_time)
    names = list(MEASURES) if arguments.all else arguments.only or list(USUAL)
    limit_s = LIMIT_S if set(names) <= set(USUAL) else LIMIT_OF_ALL_S
    if "soak" in names and not arguments.quick:
        MEASURES["soak"] = (2, GPUS, 1, lambda cluster, _repeats: soak.soak(cluster, arguments.hours))
        limit_s += arguments.hours * 3600
    signal.alarm(int(limit_s))
    status = 1
    with suppress(KeyboardInterrupt):
        status = measure(names, arguments.quick, arguments.slurm, limit_s)
    sys.exit(status)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="scripts/bench",
        description="What mgpu costs on this machine, beside what is there to pick instead, in one table.",
    )
    top.add_argument("--quick", action="store_true", help="few repetitions: to see that all of it works")
    top.add_argument("--all", action="store_true", help="all measures, half an hour of them")
    top.add_argument(
        "--slurm",
        action="store_true",
        help="beside a Slurm too, set up and taken down here (root; on Debian its packages are installed)",
    )
    top.add_argument("--hours", type=float, default=1.0, help="how long `soak` takes (default: 1)")
    top.add_argument(
        "only",
        nargs="*",
        type=known,
        metavar="MEASURE",
        help=f"of: {' '.join(MEASURES)} (default: {' '.join(USUAL)})",
    )
    return top


def known(name: str) -> str:
    if name not in MEASURES:
        raise argparse.ArgumentTypeError(f"no measure {name!r}; there are {', '.join(MEASURES)}")
    return name


def measure(names: list[str], quick: bool, with_slurm: bool, limit_s: float) -> int:
    """Prints the tables; the exit status. What was measured before a failure is shown too."""
    began = monotonic()
    sweep()
    taken, load = machine.wait_for_quiet(3 if quick else 20), machine.load()
    print(machine.describe())
    print(f"Before it began: load {load}, others took {taken:.0%} of the machine.\n", flush=True)
    told: list[Row] = []
    status = 0
    try:
        with slurm_beside(with_slurm) as slurm:
            print_head()
            for row in rows_of(names, quick, slurm):
                print(f"| {' | '.join(row.cells())} |", flush=True)
                told.append(row)
    except (BenchError, LabError, MasterError) as error:
        print(f"bench: {error}", file=sys.stderr)
        status = 1
    except OutOfTime:
        print(f"bench: not done within {limit_s:g} s; the rest is left out", file=sys.stderr)
        status = 1
    signal.alarm(0)
    print("".join(f"{line}\n" for line in beside.table(told)))
    print(f"Took {monotonic() - began:.0f} s. At the end: load {machine.load()}.")
    return status


@contextmanager
def slurm_beside(wanted: bool) -> Iterator[Slurm | None]:
    if not wanted:
        yield None
        return
    install()
    with Slurm(8, WIDE) as slurm:
        print(f"{slurm.describe()}\n", flush=True)
        yield slurm


def rows_of(names: list[str], quick: bool, slurm: Slurm | None) -> Iterator[Row]:
    """Those of one lab together."""
    labs = dict.fromkeys(MEASURES[name][:2] for name in sorted(names, key=lambda name: MEASURES[name][0]))
    for nodes, gpus in labs:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(f"{nodes}x{gpus}", nodes, gpus)) if nodes else None
            if cluster is not None:
                cluster.slurm = slurm
            for name in [name for name in names if MEASURES[name][:2] == (nodes, gpus)]:
                repeats, function = MEASURES[name][2:]
                yield from function(cluster, min(repeats, REPEATS_IF_QUICK.get(name, 2)) if quick else repeats)


# of those that understand it: a tenth of their jobs
REPEATS_IF_QUICK = {"throughput": 1, "restart": 1, "wishes": 1, "many": 1, "wide": 1}


def print_head() -> None:
    print("| measure | median | min - max | n | goal |\n| --- | --- | --- | --- | --- |")


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _out_of_time(_number: int, _frame: object) -> NoReturn:
    raise OutOfTime


if __name__ == "__main__":
    main()
