"""--launcher, -n and --ntasks-per-node: what they mean for a request, and which of them contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.core.errors import RequestError
from mgpu.core.model import JobSpec, LauncherName
from mgpu.core.request import parse_submission
from mgpu.core.shape import shape_of
from tests.core.test_request import NODES, payload


def parsed(options: dict[str, str], **top: Any) -> tuple[JobSpec, list[str]]:
    return parse_submission(payload(options, **top), NODES, {}, "bob")


TASKS = [
    ({}, None, (1,)),
    ({"ntasks": "1"}, 1, (1,)),
    ({"ntasks": "4"}, 4, (1,)),
    ({"ntasks": "4", "gpus": "4"}, 4, (4,)),
    ({"ntasks": "4", "nodes": "2"}, 2, (1, 1)),
    ({"ntasks": "4", "nodelist": "node[001-002]", "gpus": "4"}, 2, (2, 2)),
    ({"ntasks": "4", "node_gpu_ids": "node002:0,1;node001:0"}, 2, (2, 1)),
    ({"ntasks": "4", "gpus": "4", "gpus_per_node": "2"}, 2, (2, 2)),
    ({"ntasks": "4", "ntasks_per_node": "2", "gpus": "4"}, 2, (2, 2)),
    ({"ntasks": "4", "ntasks_per_node": "2", "nodes": "2"}, 2, (1, 1)),
    ({"ntasks_per_node": "3", "nodes": "2"}, 3, (1, 1)),
    ({"ntasks_per_node": "1", "gpus": "0"}, 1, (0,)),
]


@pytest.mark.parametrize(("options", "each", "sizes"), TASKS)
def test_tasks_on_each_node(options: dict[str, str], each: int | None, sizes: tuple[int, ...]) -> None:
    spec, _ = parsed(options)
    assert spec.tasks_per_node == each
    assert shape_of(spec.request).sizes == sizes


REFUSED = [
    ({"ntasks": "1", "nodes": "2"}, "-n 1 on 2 nodes: each runs equally many: use -n 2"),
    ({"ntasks": "3", "nodes": "2"}, "-n 3 on 2 nodes: each runs equally many: use -n 4"),
    (
        {"ntasks": "4", "ntasks_per_node": "4", "nodes": "2"},
        "-n 4 contradicts --ntasks-per-node 4 on 2 nodes: use -n 8, or leave out one of them",
    ),
    (
        {"ntasks": "3", "ntasks_per_node": "2"},
        "-n 3 contradicts --ntasks-per-node 2 on 1 node: use -n 2, or leave out one of them",
    ),
    (
        {"ntasks": "4", "ntasks_per_node": "2", "gpus": "1"},
        "-G 1 is less than one GPU for each of 2 nodes: use -G 2, or -N 1",
    ),
    ({"ntasks": "x"}, "-n 'x' is not a whole number"),
    ({"ntasks_per_node": "0"}, "--ntasks-per-node 0 is out of range: 1 to 256"),
    ({"ntasks_per_node": "2", "input": "24x80"}, "--pty is a terminal for one task, and 2 are asked for: ask for one"),
    ({"launcher": "torchun"}, "unknown launcher 'torchun': did you mean 'torchrun'?"),
    ({"launcher": "slurm"}, "unknown launcher 'slurm': there are none, torchrun, mpi"),
    ({"launcher": ""}, "--launcher is empty: give it a value or leave it out"),
]


@pytest.mark.parametrize(("options", "line"), REFUSED)
def test_what_contradicts_itself_is_refused_with_what_would_be_right(options: dict[str, str], line: str) -> None:
    with pytest.raises(RequestError) as refusal:
        parsed(options)
    assert str(refusal.value) == line


def test_gpus_of_each_task_alone() -> None:
    four = {"ntasks": "4", "gpus": "4", "gpus_per_task": "1"}
    assert parsed(four)[0].gpus_per_task == 1
    assert parsed(four | {"nodes": "2"})[0].gpus_per_task == 1
    assert parsed({"gpus": "4", "gpus_per_task": "1"})[0].gpus_per_task is None  # no task was asked for
    assert parsed(four | {"gpus": "0", "gpus_per_task": "0"})[0].gpus_per_task is None
    right = "use --gpus-per-node 4, or leave out --gpus-per-task"
    for options, has in (({"gpus": "2"}, "the job has 2"), ({"gpus": "6"}, "how many the job gets differs")):
        with pytest.raises(RequestError) as refusal:
            parsed({"ntasks_per_node": "4", "gpus_per_task": "1"} | options)
        assert str(refusal.value) == f"--gpus-per-task 1 for 4 tasks on each node is 4 GPUs there, {has}: {right}"


def test_a_batch_job_says_how_many_on_each_node() -> None:
    assert parsed({"ntasks_per_node": "2"}, kind="batch")[0].tasks_per_node == 2
    with pytest.raises(RequestError, match="-n is for srun: --ntasks-per-node starts"):
        parsed({"ntasks": "2"}, kind="batch")


def test_a_script_that_runs_more_often_than_in_slurm() -> None:
    command = {"form": "script", "words": [], "script": "true\n", "script_name": "x.sh"}
    told = "x.sh runs 2 times on each node, side by side; in Slurm a script runs once"
    assert parsed({"ntasks_per_node": "2"}, kind="batch", command=command)[1] == [told]
    assert parsed({"ntasks_per_node": "1"}, kind="batch", command=command)[1] == []


def test_a_script_that_starts_its_processes_by_srun() -> None:
    def told(line: str) -> list[str]:
        command = {"form": "script", "words": [], "script": f"#!/bin/sh\n{line}\n", "script_name": "x.sh"}
        return parsed({}, kind="batch", command=command)[1]

    no_srun = "there is no srun within a job, the script itself runs on each of its nodes: leave that word out"
    assert told("  srun --cpu-bind=none python train.py") == told("time srun python x.py") == [f"x.sh:2: {no_srun}"]
    assert told("echo srun is not called") == told("# srun x") == told("srun=1") == told("mgpu srun x") == []


FIRST = "on the first node: mpirun in front of it starts its ranks"
ON_TWO = {"nodes": "2", "gpus": "8"}
MPIRUN = "mpirun on several nodes, each with ranks of its own: --mpi starts it once, for all of them"
NO_TORCHRUN = "a shell's line runs as it stands, this one without torchrun: that comes in front of words behind --"


@pytest.mark.parametrize(
    ("options", "form", "word", "told"),
    [
        (ON_TWO, "argv", "/usr/bin/mpirun", [MPIRUN]),
        (ON_TWO | {"launcher": "mpi"}, "argv", "mpirun", []),
        ({"gpus": "4"}, "argv", "mpirun", []),  # one node: it needs nobody
        (ON_TWO, "argv", "hostname", []),
        (ON_TWO | {"launcher": "torchrun"}, "shell", "python train.py --lr 1", [NO_TORCHRUN]),
        (ON_TWO | {"launcher": "torchrun"}, "shell", "cd x; python train.py", []),  # who knows what it is
        (ON_TWO | {"launcher": "torchrun"}, "shell", "python -m torch.distributed.run train.py", []),
        (ON_TWO | {"launcher": "torchrun"}, "shell", "python prepare.py && torchrun train.py", []),
        (ON_TWO, "shell", "python train.py", []),
        (ON_TWO | {"launcher": "mpi"}, "argv", "train.py", ["--mpi runs train.py once, " + FIRST]),
        (ON_TWO | {"launcher": "mpi"}, "shell", "python -u x.py", ["--mpi runs python once, " + FIRST]),
        (ON_TWO | {"launcher": "mpi"}, "shell", "python -m mpi4py.futures x.py", []),  # which starts others itself
        (ON_TWO | {"launcher": "mpi"}, "argv", "./run", []),
    ],
)
def test_a_command_that_does_not_fit_its_launcher(
    options: dict[str, Any], form: str, word: str, told: list[str]
) -> None:
    assert parsed(options, kind="batch", command={"form": form, "words": [word]})[1] == told


def test_a_launcher_is_named_as_one_likes() -> None:
    assert parsed({"launcher": " None "})[0].launcher is LauncherName.NONE
    assert parsed({})[0].launcher is LauncherName.NONE


UNEVEN: list[tuple[dict[str, Any], str]] = [
    ({"gpus": "3", "nodes": "2"}, "2, 1"),
    ({"node_gpu_ids": "node002:0;node001:0,1"}, "1, 2"),
    ({"gpus": "4", "nodes": "2"}, ""),
    ({"gpus": "3"}, ""),
]


@pytest.mark.parametrize(("options", "counts"), UNEVEN)
def test_uneven_numbers_of_gpus_are_told(options: dict[str, Any], counts: str) -> None:
    notices = [notice for notice in parsed(options)[1] if "uneven" in notice]
    assert len(notices) == bool(counts)
    assert not counts or f"({counts})" in notices[0]
