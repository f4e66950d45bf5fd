"""What a job finds around it: variables, the directory, the virtual environment, set-up lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, Word
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


def shown(cluster: Cluster, *words: Word, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    return cluster("srun", "-Q", "-G", 0, *words, env=env, cwd=cwd).out.strip()


@pytest.mark.parametrize(
    ("export", "printed"),
    [
        ([], "unset unset unset"),
        (["--export", "ONE"], "1 unset unset"),
        (["--export", "ONE,TWO=zwei"], "1 zwei unset"),
        (["--export", "ONE", "--export", "TWO"], "1 two  words unset"),
        (["--export", "ALL"], "1 two  words unset"),
        (["--export", "NONE"], "unset unset unset"),
        (["--export", "PATH_LIKE=/a:/b,ONE"], "1 unset /a:/b"),
    ],
)
def test_export(cluster: Cluster, export: list[str], printed: str) -> None:
    line = 'echo "${ONE-unset} ${TWO-unset} ${PATH_LIKE-unset}"'
    assert shown(cluster, *export, "sh", "-c", line, env={"ONE": "1", "TWO": "two  words"}) == printed


@pytest.mark.usefixtures("separate_nodes")
def test_the_path_of_this_machine_stays_here(cluster: Cluster) -> None:
    path = shown(cluster, "--export", "ALL", "sh", "-c", "echo $PATH")
    assert cluster.environ["PATH"].split(":")[0] not in path
    assert "/usr/bin" in path.split(":")
    line = "echo ${LD_LIBRARY_PATH-unset}"
    assert shown(cluster, "--export", "ALL", "sh", "-c", line, env={"LD_LIBRARY_PATH": "/here"}) == "unset"
    assert shown(cluster, "sh", "-c", "echo $HOME $USER") == "/home/train train"


def test_ours_cannot_be_overridden(cluster: Cluster) -> None:
    words = ["--export", "CUDA_VISIBLE_DEVICES=7", "--setup", "export CUDA_VISIBLE_DEVICES=6 MGPU_RANK=9"]
    result = cluster("srun", *words, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $MGPU_RANK")
    assert result.out == "0 0\n"
    assert "mgpu: not exported, set by mgpu itself: CUDA_VISIBLE_DEVICES" in result.told


def test_unbuffered_unless_told(cluster: Cluster) -> None:
    assert shown(cluster, "sh", "-c", "echo $PYTHONUNBUFFERED") == "1"
    assert shown(cluster, "--export", "PYTHONUNBUFFERED=", "sh", "-c", "echo [$PYTHONUNBUFFERED]") == "[]"


def test_setup_lines(cluster: Cluster) -> None:
    setup = "greet() { echo hello $1; }; export FROM_SETUP='a  b'; PATH=/opt/first:$PATH"
    assert shown(cluster, "--setup", setup, "sh", "-c", 'echo "$FROM_SETUP"; echo "${PATH%%:*}"') == "a  b\n/opt/first"
    job_id = cluster.submit("-G", 0, "--setup", setup, "greet you")  # in the job's own shell
    cluster.await_job(job_id, "COMPLETED")
    assert cluster.output(job_id) == "hello you\n"
    failed = cluster("srun", "-G", 0, "--setup", "source /no/such/file", "echo", "ran", check=False)
    assert "/no/such/file" in failed.err


@pytest.fixture(scope="module")
def furnished(lab: Lab) -> Iterator[Cluster]:
    """Nodes with a working directory, set-up and variables of their own."""
    lines = "".join(
        f"  - {{node_id: {node.name}, ip: {node.address}, ssh: {{port: {node.port}}}, gpu_count: 4,\n"
        f"     env: {{WHERE: {node.name}, BOTH: node}}, setup: 'SET=up; export SET', workdir: {workdir}}}\n"
        for node, workdir in zip(lab.nodes, ("~/work", "/no/such/place"), strict=True)
    )
    with closing(Cluster(lab, "furnished", nodes=f"nodes:\n{lines}")) as made:
        yield made


@pytest.mark.usefixtures("separate_nodes")
def test_what_the_inventory_gives(furnished: Cluster) -> None:
    furnished.lab.node("node001").run("mkdir -p work")
    words = ["-w", "node001", "--export", "BOTH=mine", "sh", "-c", "pwd; echo $WHERE $BOTH $SET"]
    assert shown(furnished, *words).splitlines() == ["/home/train/work", "node001 mine up"]
    assert shown(furnished, "-w", "node001", "-D", "/var", "pwd") == "/var"
    result = furnished("srun", "-w", "node002", "-G", 0, "pwd", check=False)
    assert result.code != 0
    assert "working directory /no/such/place does not exist" in result.told[-1]


@pytest.mark.usefixtures("separate_nodes")
def test_directories(cluster: Cluster) -> None:
    assert shown(cluster, "pwd", cwd=Path("/usr/share")) == "/usr/share"  # the same path there
    assert shown(cluster, "-D", "/var/tmp", "pwd") == "/var/tmp"
    assert shown(cluster, "-D", "~", "pwd") == "/home/train"
    assert shown(cluster, "-D", "share", "pwd", cwd=Path("/usr")) == "/usr/share"
    here = cluster.home / "only here"
    here.mkdir()
    result = cluster("srun", "-G", 0, "pwd", cwd=here)
    assert result.out == "/home/train\n"
    [node] = {part["node"] for part in cluster.json("history")["jobs"][-1]["allocation"]}
    other = "(-D DIR names another, --ship sends it along)"
    notice = f"mgpu: {here} cannot be entered on {node}: running in the home directory there {other}"
    assert result.told[1] == notice
    several = cluster("srun", "-G", 0, "-N", 2, "pwd", cwd=here)
    assert several.out == "/home/train\n" * 2
    [once] = [line for line in several.told if "cannot be entered" in line]
    assert "node002, or on others of its nodes: running in the home" in once.replace("node001", "node002")


@pytest.mark.usefixtures("separate_nodes")
def test_a_directory_that_is_nowhere(cluster: Cluster) -> None:
    result = cluster("srun", "-D", "/no/such/dir", "true", check=False)
    assert result.code == 1
    assert "FAILED" in result.told[-1]
    assert "working directory /no/such/dir does not exist" in result.told[-1]
    cluster.lab.node("node001").run("mkdir -p /tmp/shut && chmod 0 /tmp/shut", "alice")
    result = cluster("srun", "-w", "node001", "-D", "/tmp/shut", "true", check=False)
    assert "working directory /tmp/shut cannot be entered" in result.told[-1]


@pytest.mark.usefixtures("separate_nodes")
def test_a_directory_where_the_user_stands_and_the_node_lets_nobody_in(cluster: Cluster) -> None:
    """As /root, where root of the head node stands and the node's account may not go."""
    here = cluster.home / "shut there"
    here.mkdir()
    for node in cluster.lab.nodes:
        node.run(f"mkdir -p '{here}' && chmod 0 '{here}'", "root")
    result = cluster("srun", "-G", 0, "pwd", cwd=here)
    assert result.out == "/home/train\n"
    assert f"{here} cannot be entered on " in result.told[1]
    assert result.told[1].endswith(
        ": running in the home directory there (-D DIR names another, --ship sends it along)"
    )


@pytest.mark.usefixtures("separate_nodes")
def test_a_directory_that_only_one_node_has(cluster: Cluster) -> None:
    cluster.lab.node("node002").run("mkdir -p /tmp/second")
    assert shown(cluster, "-D", "/tmp/second", "sh", "-c", "hostname; pwd") == "node002\n/tmp/second"


def test_virtual_environments(cluster: Cluster) -> None:
    for node in cluster.lab.nodes:
        node.run("mkdir -p /tmp/venv/bin; printf '#!/bin/sh\\necho of the venv\\n' >/tmp/venv/bin/tool")
        node.run("chmod +x /tmp/venv/bin/tool")
    assert shown(cluster, "tool", env={"VIRTUAL_ENV": "/tmp/venv"}) == "of the venv"
    assert shown(cluster, "tool", env={"CONDA_PREFIX": "/tmp/venv"}) == "of the venv"
    result = cluster("srun", "-G", 0, "echo", "ran", env={"VIRTUAL_ENV": "/tmp/absent"})
    assert result.out == "ran\n"
    assert "mgpu: /tmp/absent is not on this node: its programs are not in PATH" in result.told


CONDA = r"""
mkdir -p ~/conda/envs/x/bin
printf '#!/bin/sh\necho of x\n' >~/conda/envs/x/bin/tool
chmod +x ~/conda/envs/x/bin/tool
echo 'conda() { [ "$1" = activate ] && PATH=~/conda/envs/$2/bin:$PATH; }' >~/conda/init.sh
echo '. ~/conda/init.sh' >~/.bash_profile
"""


@pytest.mark.usefixtures("separate_nodes")
def test_a_conda_that_nobody_initialised(lab: Lab, make_cluster: ClusterMaker) -> None:
    """What the shell says of it reaches the user, and each of the documented ways brings it."""
    for node in lab.nodes:
        node.run(CONDA)
    try:
        one, two = (
            f"  - {{node_id: {node.name}, ip: {node.address}, ssh: {{port: {node.port}}}, gpu_count: 4{more}}}\n"
            for node, more in zip(lab.nodes, ("", ", login_shell: true, setup: conda activate x"), strict=True)
        )
        cluster = make_cluster(lab, nodes=f"nodes:\n{one}{two}")
        for words in (
            ["conda", "activate", "x"],
            ["sh", "-c", "conda activate x && tool"],
            ["--setup", "conda activate x", "tool"],
        ):
            missing = cluster("srun", "-G", 0, "-w", "node001", *words, check=False)
            assert missing.code == 127, missing.err
            assert [line for line in missing.told if "conda" in line and "not found" in line], missing.err
            assert "exit 127 on node001 (no such command there?)" in missing.told[-1]
        assert shown(cluster, "-w", "node001", "--setup", ". ~/conda/init.sh; conda activate x", "tool") == "of x"
        job_id = cluster.submit("-G", 0, "-w", "node001", "--setup", ". ~/conda/init.sh", "conda activate x && tool")
        cluster.await_job(job_id, "COMPLETED")
        assert cluster.output(job_id) == "of x\n"
        assert shown(cluster, "-w", "node002", "tool") == "of x"
    finally:
        for node in lab.nodes:
            node.run("rm -rf ~/conda ~/.bash_profile")


def test_defaults_of_ones_own(cluster: Cluster) -> None:
    folder = cluster.home / ".config/mgpu"
    folder.mkdir(parents=True, mode=0o700)
    own = folder / "config.yaml"
    own.write_text("job-name: mine\ngpus: 2\nenv: {MINE: yes-mine}\n")
    own.chmod(0o600)
    try:
        result = cluster("srun", "-Q", "sh", "-c", "echo $MGPU_GPUS $MINE $SLURM_JOB_NAME")
        assert result.out == "2 yes-mine mine\n"
        by_variable = cluster("srun", "-Q", "sh", "-c", "echo $MGPU_GPUS", env={"MGPU_GPUS": "3"})
        assert by_variable.out == "3\n"
        by_flag = cluster("srun", "-Q", "-G", 1, "sh", "-c", "echo $MGPU_GPUS", env={"MGPU_GPUS": "3"})
        assert by_flag.out == "1\n"
    finally:
        own.unlink()
