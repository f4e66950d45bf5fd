"""Jobs of several processes on real nodes: real torchrun, PyTorch and Lightning on CPUs, and what each rank is told.

A process that loads PyTorch costs seconds of a core, so each run here is to show much.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, Result, Word

PROGRAMS = Path(__file__).parents[1] / "programs"
TORCH = Path(os.environ.get("MGPU_TORCH") or "/opt/mgpu-tests/torch") / "bin"
needs_torch = pytest.mark.skipif(not (TORCH / "torchrun").exists(), reason="no PyTorch here: scripts/test installs it")


def shipped(cluster: Cluster, *words: Word) -> Result:
    """With the programs of the tests, which no node has."""
    command = cluster.start("srun", f"--ship={PROGRAMS}", "--export", "OMP_NUM_THREADS=1", *words)
    result = command.finish(240)
    assert result.code == 0, result.err
    return result


def lines(result: Result) -> list[list[str]]:
    """The words that each process wrote, by its rank."""
    return sorted((line.split() for line in result.lines), key=lambda words: int(words[0]))


@needs_torch
@pytest.mark.timeout(300)
def test_torchrun_trains_over_two_nodes_of_different_size(cluster: Cluster) -> None:
    """The order of the ranks is that which was asked for; the loss falls, and all have the same weights."""
    pins = "node002:0,3;node001:1"
    result = shipped(
        cluster, "--node-gpu-ids", pins, "--distributed", "--", TORCH / "torchrun", "--nnodes=2", "line.py"
    )
    found = lines(result)
    assert [words[:4] for words in found] == [
        ["0", "3", "node002", "0"],
        ["1", "3", "node002", "1"],
        ["2", "3", "node001", "0"],
    ]
    assert {len(set(column)) for column in list(zip(*found, strict=True))[4:]} == {1}
    first, last = (float(word) for word in found[0][4:6])
    assert last < first / 10


@needs_torch
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--", TORCH / "python"], "LightningEnvironment"),
        (["--ntasks-per-node=2", "--", TORCH / "python"], "SLURMEnvironment"),
        (["--launcher", "torchrun", "--", TORCH / "python"], "TorchElasticEnvironment"),
    ],
)
def test_lightning_finds_itself(cluster: Cluster, words: list[Word], environment: str) -> None:
    """Whether it starts its two processes itself, mgpu does, or torchrun."""
    found = lines(shipped(cluster, "-G", 2, *words, "lit.py"))
    assert [line[:4] for line in found] == [["0", "2", "0", environment], ["1", "2", "1", environment]]
    assert found[0][4] == found[1][4]


def test_what_each_rank_is_told_where_mgpu_starts_none(cluster: Cluster) -> None:
    names = (
        "NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE CUDA_VISIBLE_DEVICES MGPU_GPUS RANK LOCAL_RANK SLURM_NTASKS SLURM_PROCID"
    )
    line = " ".join(f"${{{name}-none}}" for name in names.split())
    result = cluster("srun", "--node-gpu-ids", "node001:0,1;node002:0", "sh", "-c", f'echo "{line}"')
    none = ["none"] * 4
    assert lines(result) == [["0", "3", "2", "0,1", "3", *none], ["1", "3", "1", "0", "3", *none]]


def test_tasks_of_two_nodes_and_the_first_that_fails(cluster: Cluster) -> None:
    names = (
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        "SLURM_NTASKS_PER_NODE",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
    )
    line = " ".join(f"${name}" for name in (*names, "CUDA_VISIBLE_DEVICES", "MGPU_NODE_ID"))
    told = lines(cluster("srun", "-N", 2, "-n", 4, "--gpus-per-task=1", "sh", "-c", f'echo "{line}"'))
    local = [str(rank % 2) for rank in range(4)]
    assert told == [
        [str(rank), "4", local[rank], "2", str(rank), "4", local[rank], local[rank], f"node00{rank // 2 + 1}"]
        for rank in range(4)
    ]
    failing = "[ $SLURM_PROCID = 3 ] || exec sleep 600; sleep 2; exit 3"
    result = cluster("srun", "-N", 2, "--ntasks-per-node", 2, "sh", "-c", failing, check=False)
    assert result.code == 3
    assert "on node002" in result.told[-1]
    assert "mgpu: task 3 on node002 ended with 3: the other tasks there are ended too" in result.told
    assert not [line for line in result.told if "left" in line]
    [job_id] = [line.split()[2] for line in result.told if "FAILED" in line]
    assert "launcher    2 tasks on each node" in cluster("show", job_id).lines
    cluster.idle()


def test_a_contradiction_is_refused_before_anything_is_queued(cluster: Cluster) -> None:
    words = ["-N", 2, "--distributed", "--", "torchrun", "--nnodes=3", "train.py"]
    told = "torchrun's --nnodes is 3, the job has 2 nodes: use -N 3, or leave out --nnodes"
    for command in ("srun", "submit"):
        assert told in cluster.refused(command, *words)
    assert "--mpi contradicts --distributed" in cluster.refused("srun", "--mpi", *words)
    assert cluster.active_jobs() == []
