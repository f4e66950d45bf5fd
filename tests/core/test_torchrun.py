"""--launcher torchrun: the line that is built, contradictions, and what torchrun reads from its environment."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.core.errors import RequestError
from mgpu.core.gang import Gang
from mgpu.core.launch import NodeWorld, render
from mgpu.core.launchers.torchrun import options_of, settle, variables
from mgpu.core.model import Command, CommandForm, DeviceUuid, LauncherName
from tests.core.test_tasks import parsed
from tests.core.trial import attempt, job, part

RUN = "torch.distributed.run"


def argv(line: str) -> Command:
    return Command(CommandForm.ARGV, tuple(line.split()))


BUILT = [
    ("train.py --lr 1", "torchrun train.py --lr 1"),
    ("./a/train.py", "torchrun ./a/train.py"),
    ("python train.py -m x", f"python -m {RUN} train.py -m x"),
    (
        "/opt/x/bin/python3.11 -u -X dev -W error train.py",
        f"/opt/x/bin/python3.11 -u -X dev -W error -m {RUN} train.py",
    ),
    ("python3 -m pkg.train 1", f"python3 -m {RUN} -m pkg.train 1"),
]
AS_IT_IS = [
    *("torchrun train.py", "/opt/bin/torchrun --tee 3 train.py", f"python -m {RUN} train.py", "./run.sh a"),
    *("env X=1 torchrun train.py", "uv run torchrun -m pkg", "bash -c torchrun", "accelerate launch train.py"),
    "python -m torch.distributed.launch --use-env train.py",
]


@pytest.mark.parametrize(("line", "built"), [*BUILT, *((line, line) for line in AS_IT_IS)])
def test_what_runs(line: str, built: str) -> None:
    assert " ".join(settle(argv(line), (4, 4)).words) == built


def test_scripts_call_it_themselves() -> None:
    for form in (CommandForm.SCRIPT, CommandForm.SHELL, CommandForm.LINES):
        command = Command(form, ("torchrun --nnodes=9 x.py",), "torchrun --nnodes=9 x.py\n")
        assert settle(command, (1,)) is command
    program = Command(CommandForm.SCRIPT, (), "#!/usr/bin/python3\n", "train.py")
    with pytest.raises(RequestError, match=r"^train.py goes along as a script, .* write -- train.py$"):
        settle(program, (1,))


AGREE = [
    ("torchrun --nnodes=2 --nproc_per_node=4 train.py", (4, 4)),
    ("torchrun --nnodes 1:4 --nproc-per-node gpu train.py", (2, 1)),
    ("torchrun --nnodes=2 --nproc-per-node=8 train.py", (0, 0)),
    ("torchrun --standalone --nproc_per 4 train.py", (4,)),
    ("torchrun train.py --nnodes=9 --node-rank 3 --master-port=1", (1,)),
    ("torchrun --rdzv-backend c10d --max-restarts=3 --tee 3 -r3 train.py --nnodes=9", ()),
    ("torchrun --unheard-of train.py --nnodes=9", (1,)),
]
N, P = "torchrun's --nnodes is", "torchrun's --nproc-per-node is"
CONTRADICT: list[tuple[str, tuple[int, ...], str]] = [
    ("torchrun --nnodes=3 train.py", (4, 4), f"{N} 3, the job has 2 nodes: use -N 3, or leave out --nnodes"),
    ("torchrun --nnodes=2 train.py", (4,), f"{N} 2, the job has 1 node: use -N 2, or leave out --nnodes"),
    ("torchrun --nnode 3:4 train.py", (4, 4), f"{N} 3:4, the job has 2 nodes: use -N 3, or leave out --nnodes"),
    ("torchrun --nnodes=2 x.py", (), f"{N} 2, and how many nodes the job gets is open: add -N 2"),
    (
        "torchrun --nnodes=2 --nproc_per_node=4 train.py",
        (1,),
        f"{N} 2, the job has 1 node: use -N 2 --gpus-per-node 4, or leave out --nnodes",
    ),
    (
        "torchrun --nnodes=2 --nproc_per_node=4 train.py",
        (),
        f"{N} 2, and how many nodes the job gets is open: add -N 2 --gpus-per-node 4",
    ),
    ("torchrun --nproc-per-node=0 x.py", (0,), f"{P} 0: leave it out, each node starts one process for each GPU"),
    (
        "torchrun --nnodes two x.py",
        (1,),
        "torchrun's --nnodes 'two' is not a number: leave it out, it is filled in",
    ),
    (
        f"python -m {RUN} --nproc_per_node=8 train.py",
        (4, 4),
        f"{P} 8, the job has 4 GPUs on each of its nodes: use --gpus-per-node 8, or leave out --nproc-per-node",
    ),
    (
        "torchrun --nproc-per-node 2 train.py",
        (1,),
        f"{P} 2, the job has 1 GPU on its node: use --gpus-per-node 2, or leave out --nproc-per-node",
    ),
    (
        "torchrun --nproc-per-node=2 train.py",
        (2, 1),
        f"{P} 2, the job's nodes have 2 and 1 GPUs: leave it out, each is told its own",
    ),
    (
        "torchrun --nproc-per-node=8 train.py",
        (),
        f"{P} 8, and how many GPUs a node gives is open: add --gpus-per-node 8, or leave out --nproc-per-node",
    ),
    ("torchrun --node_rank=0 x.py", (1,), "torchrun's --node-rank is filled in for each node: leave it out"),
    ("torchrun --master-addr a x.py", (1,), "torchrun's --master-addr is filled in for each node: leave it out"),
    ("torchrun --master_port 1 x.py", (1,), "torchrun's --master-port is filled in for each node: leave it out"),
    (
        "torchrun --standalone x.py",
        (1, 1),
        "torchrun's --standalone is for one node, and the job may get several: leave it out",
    ),
    (
        "python -c pass",
        (1,),
        "torchrun starts a file or a module: give it as in --distributed -- python train.py",
    ),
    ("python", (1,), "torchrun starts a file or a module: give it as in --distributed -- python train.py"),
]


@pytest.mark.parametrize(("line", "sizes"), AGREE)
def test_numbers_that_agree(line: str, sizes: tuple[int, ...]) -> None:
    assert settle(argv(line), sizes) == argv(line)


@pytest.mark.parametrize(("line", "sizes", "told"), CONTRADICT)
def test_numbers_that_contradict_the_job_are_refused(line: str, sizes: tuple[int, ...], told: str) -> None:
    with pytest.raises(RequestError) as refusal:
        settle(argv(line), sizes)
    assert str(refusal.value) == told


def test_options_are_read_as_torchrun_reads_them() -> None:
    found = options_of(
        ("torchrun", "--nnodes=2", "--nproc_per", "4", "-t", "3", "-r1:3", "--no_python", "-m", "x", "--tee")
    )
    assert found == {
        "nnodes": "2",
        "nproc-per-node": "4",
        "tee": "3",
        "redirects": "1:3",
        "no-python": "",
        "module": "",
    }
    assert options_of(("python", "train.py", "--launcher", "torchrun", "--nnodes=9")) == {}


def gang(line: str, rank: int = 0, addresses: tuple[str, ...] = ("10.0.0.1", "10.0.0.2")) -> Gang:
    parts = (replace(part(0), uuids=(DeviceUuid("a"), DeviceUuid("b"))), part(1))[: len(addresses)]
    spec = {"launcher": LauncherName.TORCHRUN}
    made = job(command=argv(line), spec=spec)
    return Gang(made, attempt(port=23456), parts[rank], parts, addresses)


def test_what_it_is_told_on_each_node() -> None:
    first, second = (variables(gang("torchrun train.py", rank)) for rank in (0, 1))
    ranks = {"NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
    assert [first.pop(name) + second.pop(name) for name in sorted(ranks)] == ["21", "01", "33"]
    both = {"PET_NNODES": "2", "PET_MASTER_ADDR": "10.0.0.1", "PET_MASTER_PORT": "23456", "PET_RDZV_ID": "7.1"}
    assert first == both | {
        "PET_NODE_RANK": "0",
        "PET_NPROC_PER_NODE": "2",
        "PET_LOCAL_ADDR": "10.0.0.1",
        "PET_RDZV_CONF": "is_host=1",
    }
    assert second == both | {
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_LOCAL_ADDR": "10.0.0.2",
        "PET_RDZV_CONF": "is_host=0",
    }
    assert "export PET_NODE_RANK='1'" in render(gang("torchrun train.py", 1), NodeWorld()).script


def test_a_torchrun_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(render(gang("torchrun-of-ours train.py"), NodeWorld()).script)
    ended = subprocess.run(["sh", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert ended.returncode == 127
    assert ended.stderr.startswith("mgpu: there is no torchrun-of-ours in PATH on node001: install it there, or have ")


def test_one_node_has_a_port_of_its_own_too() -> None:
    alone = variables(gang("torchrun train.py", addresses=("10.0.0.1",)))
    assert (alone["PET_MASTER_ADDR"], alone["PET_MASTER_PORT"], alone["PET_NNODES"]) == ("127.0.0.1", "23456", "1")


def test_a_rendezvous_of_the_users_own() -> None:
    c10d = variables(gang("torchrun --rdzv-backend=c10d train.py", 1, ("fd00::1", "fd00::2")))
    assert (c10d["PET_RDZV_ENDPOINT"], c10d["PET_RDZV_CONF"]) == ("[fd00::1]:23456", "is_host=0")
    assert (c10d["PET_MASTER_ADDR"], c10d["PET_LOCAL_ADDR"]) == ("[fd00::1]", "fd00::2")
    own = variables(gang("torchrun --rdzv_backend=etcd --rdzv_endpoint=keeper:2379 train.py"))
    assert not {"PET_RDZV_ENDPOINT", "PET_RDZV_CONF"} & own.keys()
    # a script may name a port of its own, which an endpoint would override
    assert "PET_RDZV_ENDPOINT" not in variables(gang("./run.sh"))
    unknown = variables(gang("torchrun train.py", addresses=("", "")))
    assert not [name for name in unknown if "MASTER" in name or "RDZV" in name]


SUBMITTED: list[tuple[dict[str, str], str, str]] = [
    ({"nodes": "2", "gpus_per_node": "4"}, "torchrun --nnodes=2 --nproc_per_node=4 train.py", ""),
    ({"gpus": "4"}, "torchrun --nnodes=1 --nproc_per_node=4 train.py", ""),  # one node has so many
    ({"gpus": "6"}, "torchrun --nnodes=2 train.py", "how many nodes the job gets is open: add -N 2"),
    ({"gpus": "2", "ntasks": "2"}, "torchrun train.py", "-n 2: torchrun starts the processes itself"),
    ({"ntasks_per_node": "2"}, "torchrun train.py", "--ntasks-per-node 2: torchrun starts the processes itself"),
]


@pytest.mark.parametrize(("options", "line", "told"), SUBMITTED)
def test_a_submission(options: dict[str, str], line: str, told: str) -> None:
    command: dict[str, Any] = {"form": "argv", "words": line.split()}
    if not told:
        assert parsed(options | {"launcher": "torchrun"}, command=command)[0].command.words == tuple(line.split())
        return
    with pytest.raises(RequestError) as refusal:
        parsed(options | {"launcher": "torchrun"}, command=command)
    assert told in str(refusal.value)


def test_torchrun_without_its_launcher_on_several_nodes_is_told() -> None:
    def told(line: str, **options: str) -> list[str]:
        command = {"form": "argv", "words": line.split()}
        return [notice for notice in parsed(options, command=command)[1] if "--distributed fills that in" in notice]

    assert len(told("torchrun --nnodes=2 train.py", nodes="2")) == 1
    assert len(told(f"python -m {RUN} train.py", gpus="8")) == 1  # no node has so many
    assert told("torchrun --rdzv-endpoint=a:1 train.py", nodes="2") == []
    assert told("torchrun --nnodes=2 train.py", nodes="2", launcher="torchrun") == []
    assert told("torchrun train.py", gpus="4") == told("python train.py", nodes="2") == []


def test_a_job_has_the_name_of_what_was_typed() -> None:
    command = {"form": "argv", "words": ["train.py"]}
    spec = parsed({"launcher": "torchrun"}, command=command)[0]
    assert (spec.name, spec.command.words) == ("train.py", ("torchrun", "train.py"))
