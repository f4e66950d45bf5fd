"""What cannot be is refused at once, in one line that says what would be right."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.cluster import Cluster

A100 = "NVIDIA A100-SXM4-80GB"
REFUSED = {
    "srun -w node009 true": "-w: unknown node 'node009': the nodes are node[001-002]",
    "srun -w gpu[1-2] true": "-w: unknown node 'gpu1': the nodes are node[001-002]",
    "srun -w node001 -x node001 true": "node001 is both asked for by -w and excluded by -x: drop one of them",
    "srun -w node001 -N 2 true": "-w names 1 node and means all of them, -N 2 differs: drop -N, or say -N 1",
    "srun --gpu-ids 9 true": "--gpu-ids: no node has all of these; node001 has no GPU 9: its GPUs are 0,1,2,3",
    "srun --gpu-ids 1,9 -w node002 true": "--gpu-ids: node002 has no GPU 9: its GPUs are 0,1,2,3",
    "srun --gpu-ids x true": "--gpu-ids 'x': 'x' is not a GPU index: write 0,1 or 0-3",
    "srun --node-gpu-ids node001:7 true": "--node-gpu-ids: node001 has no GPU 7: its GPUs are 0,1,2,3",
    "srun --node-gpu-ids node001:0,0 true": "--node-gpu-ids 'node001:0,0' names GPU 0 twice: each GPU is given once",
    "srun --node-gpu-ids node001:0;node001:1 true": (
        "--node-gpu-ids names node001 twice: write all its GPUs in one place, node001:0,1"
    ),
    "srun --node-gpu-ids node001 true": (
        "--node-gpu-ids 'node001' cannot be read: write node:indices, as in node001:0,1;node002:0"
    ),
    "srun": "no command: what should srun run? mgpu srun --help",
    "srun --": "no command: what should srun run? mgpu srun --help",
    "submit -G 2": "no command: what should submit run? mgpu submit --help",
    "srun -G 3 -N 2 --gpus-per-node 2 true": "-G 3 contradicts 2 nodes with 2 GPUs each: use -G 4, or drop -G",
    "srun -G 1 -N 2 true": "-G 1 is less than one GPU for each of 2 nodes: use -G 2, or -N 1",
    "srun -G 2 --gpu-ids 0 true": "--gpu-ids names 1 GPU, -G 2 differs: drop -G",
    "srun -G 2 --node-gpu-ids node001:0 true": "--node-gpu-ids names 1 GPU, -G 2 differs: drop -G",
    "srun -G x true": "-G 'x' is not a whole number",
    "srun -G -1 true": "-G -1 is out of range: 0 to 65536",
    "srun --gpu-type V100 true": f"no GPU here is of type V100; the types are: {A100}",
    "srun --gpu-type A10 true": f"no GPU here is of type A10; the types are: {A100}",
    "srun -G 9 true": "needs 9 GPUs, there are 8: use -G 8",
    "srun -N 1 -G 5 true": "no node has 5 GPUs; the largest has 4: use --gpus-per-node 4",
    "srun -N 1 -G 8 true": "no node has 8 GPUs; the largest has 4: use -N 2 --gpus-per-node 4",
    "srun -N 3 true": "needs 3 nodes, only 2 may be used: use -N 2",
    "srun --gpu-mem 100G true": "no GPU has 100 GiB; the largest has 80 GiB: use --gpu-mem 80G",
    "srun --gpu-mem x true": "--gpu-mem 'x' cannot be read: write 24G, 24576M, or 24 (GiB)",
    "srun -p nope true": "unknown partition 'nope': there are none",
    "srun -t 1:2:3:4 true": (
        "time limit '1:2:3:4' cannot be read: write minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S"
        " (90, 1:30, 1:30:00, 3-0, 3-0:30, 3-0:00:30)"
    ),
    "srun --policy fastest true": "unknown policy 'fastest': there are fill_first, spread",
    "srun --export 1x=2 true": "--export 1x=2: '1x' is no variable's name: write NAME, NAME=VALUE, ALL or NONE",
    "srun --gpu 2 true": "srun: no such option '--gpu' (did you mean one of: '--gpu-ids', '--gpu-mem', '--gpus'?): "
    "mgpu srun --help",
    "--json srun true": "srun has no --json: leave it out",
    "frobnicate": "mgpu has no command 'frobnicate': mgpu --help lists them",
    "cancel": "which jobs? give numbers, or --me, --user, --state, --name, --partition",
    "cancel x": "'x' is not a job's number: mgpu queue shows them",
    "queue --states WAITING": "there is no job state 'WAITING': "
    "one of PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL",
}
NOT_FOUND = {
    "cancel 99999": "there is no job 99999: mgpu queue and mgpu history list them",
    "logs 99999": "there is no job 99999: mgpu queue and mgpu history list them",
    "why 99999": "there is no job 99999: mgpu queue and mgpu history list them",
    "show job 99999": "there is no job 99999: mgpu queue and mgpu history list them",
    "show node node009": "there is no node 'node009': mgpu nodes lists them",
    "node probe ndoe002": "there is no node 'ndoe002' - did you mean 'node002'? mgpu nodes lists them",
}


def test_refused(cluster: Cluster) -> None:
    cluster.idle()  # both nodes were seen
    told = {line: cluster.refused(*line.split()) for line, text in REFUSED.items()}
    assert told == {line: f"mgpu: {text}" for line, text in REFUSED.items()}
    assert cluster.json("queue")["jobs"] == []


def test_not_found(cluster: Cluster) -> None:
    told = {line: cluster.refused(*line.split(), code=1) for line in NOT_FOUND}
    assert told == {line: f"mgpu: {text}" for line, text in NOT_FOUND.items()}


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (
            ["submit", "-G", "99", "true"],
            2,
            {"code": "bad_request", "message": "needs 99 GPUs, there are 8: use -G 8", "hint": ""},
        ),
        (
            ["show", "job", "99999"],
            1,
            {"code": "not_found", "message": "there is no job 99999", "hint": "mgpu queue and mgpu history list them"},
        ),
        (
            ["queue", "--wxyz"],
            2,
            {"code": "bad_request", "message": "queue: no such option '--wxyz'", "hint": "mgpu queue --help"},
        ),
    ],
)
def test_errors_as_json(cluster: Cluster, words: list[str], code: int, error: dict[str, str]) -> None:
    assert json.loads(cluster.refused("--json", *words, code=code)) == {"error": error}
    assert json.loads(cluster.refused(words[0], "--json", *words[1:], code=code)) == {"error": error}


def test_an_empty_command(cluster: Cluster) -> None:
    assert cluster.refused("srun", "") == (
        "mgpu: the command is empty: give a program after the options, as in `mgpu srun -- python train.py`"
    )
    (cluster.home / "empty.sh").write_text("\n")
    assert cluster.refused("submit", cluster.home / "empty.sh") == "mgpu: the script empty.sh is empty"
    (cluster.home / "train.py").write_text("print()\n")
    path = cluster.home / "train.py"
    assert cluster.refused("submit", path) == (
        f"mgpu: {path} has no #! line, so a shell would run it: add one, or: mgpu submit -- python {path}"
    )


def test_a_configuration_that_is_wrong(cluster: Cluster) -> None:
    wrong = cluster.home / "wrong.yaml"
    wrong.write_text("nodez:\n  - {node_id: a}\npartitions: {p: {max_tim: 1}}\n")
    result = cluster("--config", wrong, "config", "check", check=False)
    assert result.code != 0
    lines = (result.out + result.err).splitlines()
    assert any("wrong.yaml:1:1: nodez: unknown key 'nodez' - did you mean 'nodes'?" in line for line in lines)
    assert any("wrong.yaml:3:" in line and "max_time" in line for line in lines)
