"""Real MPI on real nodes: mpirun starts its ranks on all of them, and no node has a key for another one."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, Result, Word, until

PROGRAMS = Path(__file__).parents[1] / "programs"
PLACE = Path(os.environ.get("MGPU_MPI") or "/opt/mgpu-tests/mpi")


@dataclass(frozen=True)
class Mpi:
    """How its programs are called, and what it says first of itself. `daemon`: what it starts on a node."""

    name: str
    mpirun: tuple[Word, ...]
    python: Path
    says: str
    daemon: str

    def words(self, *words: Word) -> tuple[Word, ...]:
        return ("--mpi", "--", *self.mpirun, *words)


def installed() -> list[Mpi]:
    own, mpich = PLACE / "openmpi/bin", PLACE / "mpich/bin"
    found = []
    libraries = sorted(Path("/usr/lib").glob("*/libmpi.so.40"))
    if libraries and (system := shutil.which("mpirun.openmpi")) and own.exists():
        library = f"MPI4PY_LIBMPI={libraries[0]}"
        mpirun = ("env", library, system, "-x", "MPI4PY_LIBMPI")
        found.append(Mpi("openmpi-4", mpirun, own / "python", "Open-MPI-v4", "orted"))
    if (own / "mpirun").exists():
        found.append(Mpi("openmpi-5", (own / "mpirun",), own / "python", "Open-MPI-v5", "prted"))
    if (mpich / "mpirun").exists():
        found.append(Mpi("mpich", (mpich / "mpirun",), mpich / "python", "MPICH-Versi", "hydra_pmi_proxy"))
    return found


KINDS = installed()
pytestmark = [
    pytest.mark.skipif(not KINDS, reason="no MPI here: scripts/test installs it"),
    pytest.mark.usefixtures("separate_nodes"),
]
each_mpi = pytest.mark.parametrize("mpi", KINDS, ids=[mpi.name for mpi in KINDS])
# one whose daemons leave who started them, and one whose stay
two_ways = pytest.mark.parametrize("mpi", KINDS[::2], ids=[mpi.name for mpi in KINDS[::2]])
any_mpi = pytest.mark.parametrize("mpi", KINDS[:1], ids=[mpi.name for mpi in KINDS[:1]])


def shipped(cluster: Cluster, *words: Word, code: int = 0) -> Result:
    """With the programs of the tests, which no node has."""
    result = cluster.start("srun", f"--ship={PROGRAMS}", *words).finish(40)
    assert result.code == code, result.err
    return result


def left(cluster: Cluster) -> str:
    """Whatever of a job's account lives on the nodes."""
    text = "ps -u train -o args= | grep -E 'orted|prted|hydra|mpirun|prterun|spawn|python' | grep -v grep"
    return "".join(node.run(text, check=False).stdout for node in cluster.lab.nodes)


@pytest.fixture
def strangers(cluster: Cluster) -> Iterator[None]:
    """As Debian has it: a node knows its own name, for a loopback, and no other node by name."""
    for node in cluster.lab.nodes:
        text = f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n"
        node.run(f"cp /etc/hosts /etc/hosts.before; printf %s {shlex.quote(text)} >/etc/hosts", user="root")
    yield
    for node in cluster.lab.nodes:
        node.run("cat /etc/hosts.before >/etc/hosts", user="root")


@each_mpi
def test_ranks_run_on_their_nodes_and_reach_each_other(cluster: Cluster, mpi: Mpi, strangers: None) -> None:
    """In the order that was asked for, each with its own node's GPUs, in its own node's copy of the tree."""
    for node in cluster.lab.nodes:
        assert node.run("ls -A ~train/.ssh | grep -v authorized_keys", check=False).stdout == "", "a node has a key"
    pins = "node002:0,3;node001:1"
    lines = shipped(cluster, "--node-gpu-ids", pins, *mpi.words("-np", 3, mpi.python, "ranks.py")).lines
    told = "3 {} 3 " + mpi.says
    assert lines == [f"{rank} {told.format(there)}" for rank, there in enumerate(["node002 0,3"] * 2 + ["node001 1"])]
    assert left(cluster) == ""


@each_mpi
def test_a_script_calls_mpirun_twice_and_what_it_exports_goes_along(cluster: Cluster, mpi: Mpi, tmp_path: Path) -> None:
    script = tmp_path / "twice.sh"
    mpirun = " ".join(map(str, mpi.mpirun))
    script.write_text(f"""#!/bin/sh
export OWN="a'b"
{mpirun} -np 2 {mpi.python} ranks.py OWN MGPU_RANK MGPU_NODE_ID || exit
export OWN=second
{mpirun} -np 4 {mpi.python} ranks.py OWN SLURM_NODEID
""")
    job_id = cluster.submit(f"--ship={PROGRAMS}", "-N", 2, "--gpus-per-node", 2, "--mpi", script)
    ended = cluster.await_job(job_id, patience_s=40)
    assert ended["state"] == "COMPLETED", cluster.output(job_id, "--stderr")
    lines = [line.split() for line in cluster.output(job_id, "--rank", 0).splitlines()]
    assert [line[:3] + line[6:] for line in lines] == [
        ["0", "2", "node001", "a'b", "0", "node001"],
        ["1", "2", "node001", "a'b", "0", "node001"],
        *(["0123"[rank], "4", f"node00{1 + rank // 2}", "second", str(rank // 2)] for rank in range(4)),
    ]


@each_mpi
def test_the_exit_of_a_rank_is_the_jobs_and_nothing_is_left(cluster: Cluster, mpi: Mpi) -> None:
    words = mpi.words("-np", 4, mpi.python, "failing.py", 7)
    shipped(cluster, "-N", 2, "--gpus-per-node", 2, *words, code=7)
    assert left(cluster) == ""


@each_mpi
def test_cancel_leaves_nothing_on_any_node(cluster: Cluster, mpi: Mpi) -> None:
    words = mpi.words("-np", 4, mpi.python, "failing.py")
    job_id = cluster.submit(f"--ship={PROGRAMS}", "-N", 2, "--gpus-per-node", 2, *words)
    cluster.await_output(job_id, "all 4")
    assert mpi.daemon in left(cluster)
    cluster("cancel", job_id)
    assert cluster.await_job(job_id)["state"] == "CANCELLED"
    assert left(cluster) == ""
    cluster.idle()


@each_mpi
def test_a_daemon_that_is_killed_fails_the_job_whatever_mpirun_says(cluster: Cluster, mpi: Mpi) -> None:
    script = "echo up; exec sleep 5"
    follower = cluster.start("srun", "-N", 2, *mpi.words("-np", 2, "sh", "-c", script))
    follower.read_until("up\nup\n")
    for node in cluster.lab.nodes:
        node.run(f"pkill -9 {mpi.daemon[:15]}", check=False)  # of the second node alone: on the first none is needed
    assert follower.finish(40).code != 0
    until("nothing is left", lambda: not left(cluster))


@each_mpi
def test_a_signal_reaches_every_rank_and_no_daemon(cluster: Cluster, mpi: Mpi) -> None:
    words = mpi.words("-np", 4, mpi.python, "signalled.py")
    job_id = cluster.submit(f"--ship={PROGRAMS}", "-N", 2, "--gpus-per-node", 2, *words)
    cluster.await_output(job_id, "all 4")
    cluster("signal", job_id, "USR1")
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    lines = cluster.output(job_id, "--rank", 0).splitlines()
    assert sorted(line for line in lines if "got" in line) == [f"rank {rank} got 10" for rank in range(4)]


@two_ways
def test_a_master_that_is_killed_finds_what_was_asked_for(cluster: Cluster, mpi: Mpi) -> None:
    """While mpirun waits for its daemons, and while its ranks run."""
    # it waits on rank 0 until the master is gone, and then asks
    wait = 'while [ -e "/proc/self/cwd/wait" ]; do sleep 0.1; done; exec "$@"'
    words = ("--mpi", "--", "sh", "-c", f"touch wait; echo waits; {wait}", "sh", *mpi.mpirun)
    job_id = cluster.submit(f"--ship={PROGRAMS}", "-N", 2, "--gpus-per-node", 1, *words, mpi.python, "failing.py", 7)
    cluster.await_output(job_id, "waits")
    os.kill(cluster.master_pid(), signal.SIGKILL)
    first = cluster.lab.node("node001")
    first.run("rm $(find ~train/.mgpu -name wait)")
    until("mpirun asks", lambda: first.run("ls ~train/.mgpu/*/node001/*/spawn/ask.*", check=False).stdout)
    cluster("queue")
    ended = cluster.await_job(job_id, patience_s=40)
    assert (ended["state"], ended["exit_code"]) == ("FAILED", 7)


@two_ways
def test_a_master_that_is_killed_while_ranks_run_brings_their_end(cluster: Cluster, mpi: Mpi) -> None:
    words = mpi.words("-np", 2, mpi.python, "failing.py")
    job_id = cluster.submit(f"--ship={PROGRAMS}", "-N", 2, "--gpus-per-node", 1, *words)
    cluster.await_output(job_id, "all 2")
    os.kill(cluster.master_pid(), signal.SIGKILL)
    cluster.lab.node("node001").run("pkill -KILL -f '^[^ ]*/python failing.py$'")
    cluster("queue")
    ended = cluster.await_job(job_id, patience_s=40)
    # hydra makes 9 or 255 of it, as its proxy there or the one elsewhere is the first to tell
    assert ended["state"] == "FAILED"
    assert ended["exit_code"] in ((9, 255) if mpi.name == "mpich" else (137,))
    assert left(cluster) == ""


@any_mpi
def test_a_host_outside_of_the_job_is_refused(cluster: Cluster, mpi: Mpi) -> None:
    other = cluster.lab.node("node002").address
    words = ("-w", "node001", *mpi.words("-H", f"{other}:2", "-np", 2, "printenv", "MGPU_NODE_ID"))
    result = cluster("srun", *words, check=False)
    assert result.code not in (0, 124)
    assert f"{other} is not a node of job" in result.err
    assert "node002" not in result.out


@any_mpi
def test_stdin_is_mpiruns_and_waits_for_no_other_node(cluster: Cluster, mpi: Mpi, tmp_path: Path) -> None:
    """More than a pipe holds. What it makes of it is its own affair: Open MPI 4 gives all of it to the first rank."""
    (tmp_path / "much").write_bytes(bytes(500_000))
    with (tmp_path / "much").open() as much:
        words = ("srun", "-N", 2, *mpi.words("-np", 2, "wc", "-c"))
        result = cluster(*words, stdin=much.fileno())
    assert sorted(result.lines) == ["0", "500000"]


@each_mpi
def test_a_daemon_that_is_not_there_is_named_with_its_node(cluster: Cluster, mpi: Mpi) -> None:
    node = cluster.lab.node("node002")
    daemon = Path(shutil.which(mpi.daemon) or mpi.python.parent / mpi.daemon)
    node.run(f"mv {daemon} {daemon}.away", user="root")
    try:
        result = cluster("srun", "-N", 2, *mpi.words("-np", 2, "printenv", "MGPU_NODE_ID"), check=False)
    finally:
        node.run(f"mv {daemon}.away {daemon}", user="root")
    assert result.code != 0
    assert "node002: what mpirun starts there was not found (exit code 127)" in result.err


@each_mpi
def test_on_one_node_mpirun_needs_no_launcher(cluster: Cluster, mpi: Mpi) -> None:
    told = ("sh", "-c", "echo $MGPU_NODE_ID $(nproc)")
    cores = len(os.sched_getaffinity(0))  # not one alone, which it would share with the next job
    for words in (("-G", 2), ("-G", 2, "--ntasks-per-node", 1), ("-G", 2, "--mpi")):
        result = cluster("srun", *words, "--", *mpi.mpirun, "-np", 2, *told)
        assert result.lines in ([f"node001 {cores}"] * 2, [f"node002 {cores}"] * 2)
