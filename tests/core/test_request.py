"""Submissions: what is understood, what is refused and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import A100, down, node

from mgpu.core.devices import parse_indices
from mgpu.core.errors import MgpuError, NotAllowed, RequestError
from mgpu.core.model import Command, CommandForm, JobKind, JobSpec, Request
from mgpu.core.plan import PartitionFacts
from mgpu.core.request import OPTIONS, parse_memory_mib, parse_submission
from mgpu.core.shape import shape_of

NODES = [node("node001", "...."), node("node002", "...."), node("node003", "....", "NVIDIA GeForce RTX 3090", 24576)]


def payload(options: Any = None, **top: Any) -> dict[str, Any]:
    command = {"form": "argv", "words": ["python", "train.py"]}
    return {
        "request_id": "ab",
        "kind": "srun",
        "command": command,
        "options": {} if options is None else options,
        "env": {},
        "cwd": "/w",
        **top,
    }


def parsed(options: Any = None, **top: Any) -> JobSpec:
    return parse_submission(payload(options, **top), NODES, {}, "bob")[0]


def refusal(options: Any = None, **top: Any) -> str:
    with pytest.raises(RequestError) as caught:
        parsed(options, **top)
    assert "\n" not in caught.value.message
    return caught.value.message


# --- resources ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "total", "sizes"),
    [
        ({}, 1, (1,)),
        ({"gpus": "0"}, 0, (0,)),
        ({"gpus": "8"}, 8, ()),
        ({"nodes": "2"}, 2, (1, 1)),
        ({"nodes": "2", "gpus": "8"}, 8, (4, 4)),
        ({"nodes": "2", "gpus": "3"}, 3, (2, 1)),
        ({"nodes": "2", "gpus": "0"}, 0, (0, 0)),
        ({"gpus_per_node": "4"}, 4, (4,)),
        ({"gpus_per_node": "4", "gpus": "8"}, 8, (4, 4)),
        ({"gpus_per_node": "2", "nodes": "2"}, 4, (2, 2)),
        ({"gpus_per_node": "0"}, 0, (0,)),
        ({"nodelist": "node[001-002]"}, 2, (1, 1)),
        ({"nodelist": "node[001-002]", "gpus": "6"}, 6, (3, 3)),
        ({"gpu_ids": "0,2-3"}, 3, (3,)),
        ({"gpu_ids": "0,1", "nodelist": "node002,node001"}, 4, (2, 2)),
        ({"node_gpu_ids": "node001:0,1;node002:0"}, 3, (2, 1)),
        ({"node_gpu_ids": "node[001-002]:0-1;"}, 4, (2, 2)),
    ],
)
def test_shapes(options: dict[str, Any], total: int, sizes: tuple[int, ...]) -> None:
    request = parsed(options).request
    assert (shape_of(request).total, shape_of(request).sizes) == (total, sizes)


def test_an_instance_is_named_as_tables_do() -> None:
    assert parse_indices("0.2, 1.0-1.1,3", "--gpu-ids") == (1002, 1100, 1101, 3)


def test_all_resource_options() -> None:
    options = {"gpus": "2", "exclude": "node003", "gpu_type": "A100|3090", "gpu_mem": "24G", "policy": "spread"}
    expected = Request(2, exclude=("node003",), gpu_types=("A100", "3090"), gpu_memory_mib=24576, policy="spread")
    assert parsed(options).request == expected
    pinned = parsed({"node_gpu_ids": "node002:1,0;node001:3"}).request
    assert pinned == Request(pins=(("node002", (1, 0)), ("node001", (3,))))
    assert parsed({"gpu_type": "any", "gpus": "12"}).request == Request(12, mixed=True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"gpus": "two"}, "-G 'two' is not a whole number"),
        ({"gpus": "-1"}, "-G -1 is out of range: 0 to 65536"),
        ({"gpus": ""}, "-G needs a number"),
        ({"nodes": "0"}, "-N 0 is out of range: 1 to 4096"),
        ({"nodelist": "node01"}, "-w: unknown node 'node01': did you mean 'node001'?"),
        ({"exclude": "zebra"}, "-x: unknown node 'zebra': the nodes are node[001-003]"),
        ({"nodelist": ""}, "-w names no node"),
        ({"gpu_ids": "0,x"}, "--gpu-ids '0,x': 'x' is not a GPU index: write 0,1 or 0-3"),
        ({"gpu_ids": ""}, "--gpu-ids '': '' is not a GPU index: write 0,1 or 0-3"),
        ({"gpu_ids": "3-1"}, "--gpu-ids '3-1': the range '3-1' runs backwards"),
        ({"gpu_ids": "0,3-1"}, "--gpu-ids '0,3-1': the range '3-1' runs backwards"),
        (
            {"gpu_ids": "0.x"},
            "--gpu-ids '0.x': '0.x' is not a GPU index: write 0,1 or 0-3, or 0.2 for instance 2 of GPU 0",
        ),
        (
            {"gpu_ids": "0.0-1.3"},
            "--gpu-ids '0.0-1.3': the range '0.0-1.3' is not of instances of one GPU, as 0.0-0.3 is",
        ),
        ({"gpu_ids": "0-0.3"}, "--gpu-ids '0-0.3': the range '0-0.3' is not of instances of one GPU, as 0.0-0.3 is"),
        ({"gpu_ids": "0.3-0.1"}, "--gpu-ids '0.3-0.1': the range '0.3-0.1' runs backwards"),
        ({"gpu_ids": "0.1,0.1"}, "--gpu-ids '0.1,0.1' names GPU 0.1 twice: each GPU is given once"),
        ({"gpu_ids": "0-999,0-999"}, "--gpu-ids '0-999,0-999' names more than 1000 GPUs of one node"),
        ({"node_gpu_ids": "node001:0,0"}, "--node-gpu-ids 'node001:0,0' names GPU 0 twice: each GPU is given once"),
        (
            {"node_gpu_ids": "node001:0;node001:1"},
            "--node-gpu-ids names node001 twice: write all its GPUs in one place, node001:0,1",
        ),
        ({"node_gpu_ids": "node001:4"}, "--node-gpu-ids: node001 has no GPU 4: its GPUs are 0,1,2,3"),
        ({"node_gpu_ids": "node009:0"}, "--node-gpu-ids: unknown node 'node009': the nodes are node[001-003]"),
        (
            {"node_gpu_ids": "node001"},
            "--node-gpu-ids 'node001' cannot be read: write node:indices, as in node001:0,1;node002:0",
        ),
        ({"node_gpu_ids": "node001:"}, "--node-gpu-ids 'node001:': '' is not a GPU index: write 0,1 or 0-3"),
        (
            {"node_gpu_ids": ""},
            "--node-gpu-ids '' cannot be read: write node:indices, as in node001:0,1;node002:0",
        ),
        ({"gpu_mem": "lots"}, "--gpu-mem 'lots' cannot be read: write 24G, 24576M, or 24 (GiB)"),
        ({"policy": "spraed"}, "unknown policy 'spraed': did you mean 'spread'?"),
        ({"policy": "os:system"}, "unknown policy 'os:system': there are fill_first, spread"),
        ({"gpus": "99"}, "needs 99 GPUs, there are 8 of one kind: use -G 8"),
        ({"gpus_per_node": "8"}, "no node has 8 GPUs; the largest has 4: use -N 2 --gpus-per-node 4"),
        ({"nodes": "4"}, "needs 4 nodes, only 3 may be used: use -N 3"),
    ],
)
def test_bad_resources(options: dict[str, Any], line: str) -> None:
    assert refusal(options) == line


@pytest.mark.parametrize("key", sorted({*OPTIONS} - {"hold", "begin"}))
def test_what_is_given_says_something(key: str) -> None:
    """A variable that is not set would change what the job is; no word at all does not."""
    assert parsed({key: None}) == parsed({})
    if key in ("job_name", "setup"):
        assert parsed({key: ""}).request == parsed({}).request
    elif key in ("no_requeue", "hold", "exclusive"):
        assert refusal({key: ""}).endswith("must be true or false")
    else:
        assert refusal({key: ""})
        assert refusal({key: "  "})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"gpus": "1", "nodes": "2"}, "-G 1 is less than one GPU for each of 2 nodes: use -G 2, or -N 1"),
        (
            {"gpus": "5", "nodes": "2", "gpus_per_node": "2"},
            "-G 5 contradicts 2 nodes with 2 GPUs each: use -G 4, or drop -G",
        ),
        ({"gpus": "5", "gpus_per_node": "2"}, "-G 5 is not a multiple of --gpus-per-node 2: drop one of them"),
        ({"gpus": "2", "gpus_per_node": "0"}, "-G 2 is not a multiple of --gpus-per-node 0: drop one of them"),
        ({"gpus": "3", "gpu_ids": "0,1"}, "--gpu-ids names 2 GPUs, -G 3 differs: drop -G"),
        (
            {"gpus": "3", "gpu_ids": "0,1", "nodes": "2"},
            "-G 3 contradicts 2 nodes with 2 GPUs each: use -G 4, or drop -G",
        ),
        (
            {"gpus_per_node": "1", "gpu_ids": "0,1"},
            "--gpu-ids names 2 GPUs a node, --gpus-per-node 1 differs: drop --gpus-per-node",
        ),
        (
            {"nodelist": "node001", "nodes": "2"},
            "-w names 1 node and means all of them, -N 2 differs: drop -N, or say -N 1",
        ),
        (
            {"nodelist": "node001", "exclude": "node001"},
            "node001 is both asked for by -w and excluded by -x: drop one of them",
        ),
        (
            {"node_gpu_ids": "node001:0", "exclude": "node001"},
            "node001 is both asked for by --node-gpu-ids and excluded by -x: drop one of them",
        ),
        ({"node_gpu_ids": "node001:0", "gpus": "2"}, "--node-gpu-ids names 1 GPU, -G 2 differs: drop -G"),
        ({"node_gpu_ids": "node001:0", "nodes": "2"}, "--node-gpu-ids names 1 node, -N 2 differs: drop -N"),
        ({"node_gpu_ids": "node001:0", "nodelist": "node002"}, "--node-gpu-ids names node001, -w other nodes: drop -w"),
        (
            {"node_gpu_ids": "node001:0", "gpu_ids": "0"},
            "--gpu-ids and --node-gpu-ids exclude each other: drop --gpu-ids",
        ),
        (
            {"node_gpu_ids": "node001:0", "gpus_per_node": "2"},
            "--gpus-per-node 2 differs from what --node-gpu-ids names: drop --gpus-per-node",
        ),
        (
            {"gpu_ids": "0", "exclusive": True},
            "--exclusive gives all GPUs of the node: drop --gpu-ids and --node-gpu-ids, or --exclusive",
        ),
    ],
)
def test_contradictions(options: dict[str, Any], line: str) -> None:
    assert refusal(options) == line


def test_agreeing_options_are_no_contradiction() -> None:
    options = {"node_gpu_ids": "node001:0,1;node002:0,1", "nodelist": "node[001-002]", "nodes": "2", "gpus": "4"}
    assert shape_of(parsed({**options, "gpus_per_node": "2"}).request).total == 4


def test_a_node_that_is_down_or_unseen_is_no_bad_request() -> None:
    nodes = [
        down("node001", "node is down", "...."),
        down("node002", "not seen yet"),
        down("node003", "", expected_gpus=2),
    ]
    for pinned in ("node001:3", "node002:9", "node003:1"):
        parse_submission(payload({"node_gpu_ids": pinned}), nodes, {}, "bob")
    with pytest.raises(RequestError, match="node003 has no GPU 2: its GPUs are 0,1"):
        parse_submission(payload({"node_gpu_ids": "node003:2"}), nodes, {}, "bob")
    limited = [down("node004", "not seen yet", expected_gpus=2, only=(4, 5))]
    parse_submission(payload({"node_gpu_ids": "node004:5"}), limited, {}, "bob")
    with pytest.raises(RequestError, match="node004 has no GPU 0: its GPUs are 4,5"):
        parse_submission(payload({"node_gpu_ids": "node004:0"}), limited, {}, "bob")


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("24G", 24576),
        ("24g", 24576),
        ("24", 24576),
        ("24576M", 24576),
        ("24 GiB", 24576),
        ("0.5T", 524288),
        ("1.5G", 1536),
    ],
)
def test_memory(text: str, mib: int) -> None:
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize("text", ["0", "G", "-1G", "1e3", "24K", "٣G"])
def test_bad_memory(text: str) -> None:
    with pytest.raises(RequestError):
        parse_memory_mib(text)


def test_types_are_checked_against_the_cluster() -> None:
    assert refusal({"gpu_type": "A10"}) == (
        f"no GPU here is of type A10; the types are: {A100}, NVIDIA GeForce RTX 3090"
    )
    _, notices = parse_submission(payload({"gpu_type": "A100|B200"}), NODES, {}, "bob")
    assert notices == ["no GPU here is of type B200"]


# --- partitions -----------------------------------------------------------------------------------------------------

HOUR = 3600
PARTS = {
    "train": PartitionFacts("train", None, 48 * HOUR, 10),
    "debug": PartitionFacts("debug", HOUR // 2, HOUR, 50),
    "vip": PartitionFacts("vip", None, None, 90, ("alice",)),
}
PLACES = [
    node("t", "....", partitions=("train",)),
    node("d", "....", partitions=("debug",)),
    node("v", "....", partitions=("vip",)),
]


def admitted(user: str = "bob", **options: str) -> tuple[str, int | None, int]:
    spec, _ = parse_submission(payload(options), PLACES, PARTS, user)
    return spec.request.partition, spec.time_limit_s, spec.standing


def test_named_partitions_give_limit_and_priority() -> None:
    assert admitted(partition="train") == ("train", 48 * HOUR, 10)
    assert admitted(partition="debug") == ("debug", HOUR // 2, 50)
    assert admitted(partition="debug", time="45", priority="3") == ("debug", 45 * 60, 53)
    assert admitted(partition="debug,train", time="90") == ("train", 90 * 60, 10)
    assert admitted(partition="debug", priority="3", nice="7") == ("debug", HOUR // 2, 46)
    assert admitted("alice", partition="vip") == ("vip", None, 90)


def test_without_a_name_every_partition_that_is_open_and_long_enough() -> None:
    assert admitted(time="30") == ("train,debug", 1800, 0)
    assert admitted(time="2:00:00") == ("train", 2 * HOUR, 0)
    assert admitted() == ("train", 48 * HOUR, 0)
    assert admitted("alice", time="30") == ("", 1800, 0)
    assert admitted(nodelist="d", time="30") == ("", 1800, 0)


@pytest.mark.parametrize(
    ("options", "error", "line"),
    [
        ({"partition": "vip"}, NotAllowed, "partition vip is not open to bob"),
        ({"partition": "trian"}, RequestError, "unknown partition 'trian': did you mean 'train'?"),
        (
            {"partition": "debug", "time": "2:00:00"},
            RequestError,
            "time limit 02:00:00 is over that of partition debug: at most 01:00:00",
        ),
        ({"time": "0"}, RequestError, "time limit UNLIMITED is over that of partition train: at most 2-00:00:00"),
        ({"nodelist": "v"}, NotAllowed, "v: its partition vip is not open to bob"),
        ({"node_gpu_ids": "d:0"}, RequestError, "d: its partition debug has a shorter time limit: give -t"),
        ({"partition": "train", "nodelist": "d"}, RequestError, "no node may be used"),
    ],
)
def test_partitions_refuse(options: dict[str, str], error: type[MgpuError], line: str) -> None:
    with pytest.raises(error) as caught:
        admitted(**options)
    assert caught.value.message.startswith(line)


def test_a_user_whom_no_partition_admits() -> None:
    with pytest.raises(NotAllowed, match="no partition is open to bob: there are vip"):
        parse_submission(payload(), PLACES[2:], {"vip": PARTS["vip"]}, "bob")


# --- command, environment, paths ------------------------------------------------------------------------------------


def test_a_whole_job() -> None:
    command = {"form": "script", "words": ["--lr", "1"], "script": "#!/bin/sh\ntrue\n", "script_name": "run.sh"}
    options = {"time": "1:30:00", "priority": "5", "chdir": "sub", "output": "o-%j", "error": "e", "retries": "2"}
    options |= {"no_requeue": True, "setup": "module load x\n"}
    spec = parsed(options, kind="batch", command=command, env={"A": "1", "B": "\udcff"}, virtual_env="/venv")
    assert spec == JobSpec(
        command=Command(CommandForm.SCRIPT, ("--lr", "1"), "#!/bin/sh\ntrue\n", "run.sh"),
        request=Request(),
        name="run.sh",
        kind=JobKind.BATCH,
        time_limit_s=5400,
        chdir="/w/sub",
        submit_dir="/w",
        env={"A": "1", "B": "\udcff"},
        setup="module load x\n",
        virtual_env="/venv",
        output="o-%j",
        error="e",
        retries=2,
        requeue=False,
        priority=5,
    )


def test_exits_that_mean_again() -> None:
    assert parsed({"requeue_on_exit": "85, 86,85"}, kind="batch").requeue_exits == (85, 86)
    for words in ("", "0", "256", "1-3", "x", "85,"):
        with pytest.raises(RequestError, match="write exit codes from 1 to 255"):
            parsed({"requeue_on_exit": words}, kind="batch")
    for kind, more in (("srun", {}), ("batch", {"no_requeue": True})):
        with pytest.raises(RequestError, match="does not go with"):
            parsed({"requeue_on_exit": "85", **more}, kind=kind)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ({"form": "argv", "words": ["/usr/bin/python3", "-c", "1"]}, "python3"),
        ({"form": "shell", "words": ["  cd /x && ./go now"]}, "cd"),
        ({"form": "argv", "words": ["/"]}, "job"),
        ({"form": "argv", "words": ["x\x1b[31m" + "y" * 99]}, "x?[31m" + "y" * 57 + "…"),
        ({"form": "script", "script": "true", "words": []}, "script"),
    ],
)
def test_default_names(command: dict[str, Any], name: str) -> None:
    assert parsed(command=command).name == name


def test_a_command_that_begins_with_an_option_is_refused() -> None:
    """No program is called so: it is an option behind the wrong `--`."""
    for word in ("-c", "--gpus", "-"):
        told = refusal(command={"form": "argv", "words": [word, "2", "python"]})
        assert told.startswith(f"the command begins with '{word}', which is no program")


@pytest.mark.parametrize("words", [[], [""], ["  "], None])
def test_an_empty_command_is_refused(words: list[str] | None) -> None:
    for form in ("argv", "shell"):
        assert refusal(command={"form": form, "words": words}).startswith("the command is empty")
    assert refusal(command={"form": "script", "script": " \n", "script_name": "a.sh"}) == "the script a.sh is empty"


def test_names_of_ours_and_names_that_are_none_are_left_out_with_a_notice() -> None:
    env = {"PATH_X": "/x", "MGPU_JOB_ID": "1", "SLURM_PROCID": "0", "CUDA_VISIBLE_DEVICES": "7", "BASH_FUNC_f%%": "()"}
    spec, notices = parse_submission(payload(env=env), NODES, {}, "bob")
    assert spec.env == {"PATH_X": "/x"}
    assert notices == [
        "not exported, set by mgpu itself: CUDA_VISIBLE_DEVICES, MGPU_JOB_ID, SLURM_PROCID",
        "not exported, not a variable's name: BASH_FUNC_f%%",
    ]
