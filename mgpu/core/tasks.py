"""What starts a job's processes, and how many of them on each node, as it was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.launchers import LAUNCHERS, mpi, torchrun
from mgpu.core.model import Command, CommandForm, JobKind, LauncherName, Request
from mgpu.core.shape import MAX_GPUS, check_shape, shape_of

MOST_TASKS = 256  # on one node


def parse_launcher(options: Mapping[str, Any]) -> LauncherName:
    """Raises RequestError."""
    given = read.line(options, "launcher", 64).strip().lower() or LauncherName.NONE.value
    if given not in (known.value for known in LauncherName):
        near = read.did_you_mean(given, [known.value for known in LauncherName])
        there = near or ": there are " + ", ".join(LauncherName)
        raise RequestError(f"unknown launcher '{read.shown(given)}'{there}")
    launcher = LauncherName(given)
    if launcher not in LAUNCHERS:
        raise RequestError(f"--launcher {launcher} is not to be had in this version: leave it out")
    return launcher


def parse_tasks(
    options: Mapping[str, Any], request: Request, launcher: LauncherName, kind: JobKind
) -> tuple[Request, int | None]:
    """The request with what `-n` says about nodes, and the tasks on each of these; None = nothing was said of tasks.
    Raises RequestError."""
    each = read.whole(options, "ntasks_per_node", "--ntasks-per-node", 1, MOST_TASKS)
    tasks = read.whole(options, "ntasks", "-n", 1, MOST_TASKS * 64)
    if launcher is LauncherName.TORCHRUN and (each or tasks):
        said = f"--ntasks-per-node {each}" if each else f"-n {tasks}"
        raise RequestError(
            f"{said}: torchrun starts the processes itself: leave it out, --nproc-per-node says how many"
        )
    if tasks is None:
        return request, each
    if kind is not JobKind.SRUN:
        raise RequestError("-n is for srun: --ntasks-per-node starts several processes on each node of a batch job")
    nodes = len(shape_of(request).sizes) if _says_nodes(request) else 0
    if not nodes:
        nodes = tasks // each if each and tasks % each == 0 else 1
        request = replace(request, nodes=nodes)
        check_shape(request)
    share = tasks // nodes
    if share < 1 or share * nodes != tasks or share > MOST_TASKS:
        right = max(1, min(round(tasks / nodes), MOST_TASKS)) * nodes
        raise RequestError(f"-n {tasks} on {nodes} nodes: each runs equally many: use -n {right}")
    if each not in (None, share):
        both = f"-n {tasks} contradicts --ntasks-per-node {each} on {nodes} node{'s' * (nodes != 1)}"
        raise RequestError(f"{both}: use -n {each * nodes}, or leave out one of them")
    return request, share


def parse_share(
    options: Mapping[str, Any], launcher: LauncherName, tasks: int | None, sizes: Sequence[int]
) -> int | None:
    """The GPUs that each task alone is to see; None = all those of its node. Raises RequestError."""
    share = read.whole(options, "gpus_per_task", "--gpus-per-task", 0, MAX_GPUS)
    if not share or tasks is None or launcher is not LauncherName.NONE:
        return None
    if set(sizes) != {share * tasks}:
        has = f"the job has {sizes[0]}" if len(set(sizes)) == 1 else "how many the job gets differs"
        each = f"--gpus-per-task {share} for {tasks} tasks on each node is {share * tasks} GPUs there"
        raise RequestError(f"{each}, {has}: use --gpus-per-node {share * tasks}, or leave out --gpus-per-task")
    return share


def _says_nodes(request: Request) -> bool:
    """How many they are, not only how many GPUs."""
    named = request.nodes or request.nodelist or request.pins
    return bool(named) or (request.gpus is not None and bool(request.gpus_per_node))


def many_scripts(command: Command, launcher: LauncherName, tasks: int | None) -> str:
    """What is to be said to those who have it otherwise from Slurm; "" = nothing."""
    if launcher is not LauncherName.NONE or command.form is not CommandForm.SCRIPT or (tasks or 1) == 1:
        return ""
    return (
        f"{read.shown(command.script_name)} runs {tasks} times on each node, side by side; in Slurm a script runs once"
    )


_SRUN = re.compile(r"[ \t]*(?:exec[ \t]+|time[ \t]+)?srun[ \t]", re.ASCII)


def srun_within(command: Command) -> str:
    """What is to be said of a script of Slurm's that starts its processes by srun; "" = nothing."""
    if command.form is not CommandForm.SCRIPT:
        return ""
    where = next((number for number, line in enumerate(command.script.split("\n"), 1) if _SRUN.match(line)), 0)
    if not where:
        return ""
    told = "there is no srun within a job, the script itself runs on each of its nodes: leave that word out"
    return f"{read.shown(command.script_name)}:{where}: {told}"


def without_launcher(command: Command, launcher: LauncherName, sizes: Sequence[int]) -> str:
    """What is to be said where a program that could start ranks on all nodes runs on each by itself; "" = nothing."""
    if launcher is not LauncherName.NONE or command.form is not CommandForm.ARGV or len(sizes) == 1:
        return ""
    if program := mpi.is_mpirun(command):
        return f"{program} on several nodes, each with ranks of its own: --mpi starts it once, for all of them"
    told = torchrun.options_of(command.words)
    if not torchrun.behind_torchrun(command.words) or {"rdzv-endpoint", "master-addr"} & told.keys():
        return ""
    return "torchrun on several nodes, none of which is told of the others: --distributed fills that in"


def launcher_not_called(command: Command, launcher: LauncherName) -> str:
    """What is to be said of a Python program that is to be launched, and nothing does; "" = nothing."""
    words = command.words[0].split() if command.form is CommandForm.SHELL else list(command.words)
    if command.form is CommandForm.SCRIPT or not words or not torchrun.is_program(words[0]):
        return ""
    if launcher is LauncherName.MPI and not {"mpirun", "mpiexec", "mpi4py.futures"}.intersection(words):
        return f"--mpi runs {read.shown(words[0])} once, on the first node: mpirun in front of it starts its ranks"
    if launcher is not LauncherName.TORCHRUN or command.form is not CommandForm.SHELL:
        return ""
    if torchrun.is_called_in(command.words[0]):
        return ""
    return "a shell's line runs as it stands, this one without torchrun: that comes in front of words behind --"


def uneven(sizes: Sequence[int]) -> str:
    """What is to be said where a job's nodes have different numbers of GPUs; "" = they have not."""
    if len(set(sizes)) < 2:
        return ""
    counts = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
    return (
        f"uneven numbers of GPUs on its nodes ({counts}): many launchers hang on that; --gpus-per-node makes them even"
    )
