"""--ship: the tree where the user stands goes along, once to each node, and the job runs in a copy of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker

pytestmark = [
    pytest.mark.usefixtures("separate_nodes"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git here"),
]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    told = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return told.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "my repo"
    (folder / "runs").mkdir(parents=True)
    (folder / "value").write_text("one\n")
    (folder / "runs/go.sh").write_text('#!/bin/sh\ncat ../value; echo "$MGPU_SHIP_COMMIT $MGPU_SHIP_DIRTY"\n')
    (folder / "runs/go.sh").chmod(0o755)
    (folder / ".gitignore").write_text("*.bin\n")
    (folder / "large.bin").write_bytes(bytes(1000))
    git(tmp_path, "init", "-q", "my repo")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def trees(cluster: Cluster, node: str = "node001") -> list[dict[str, object]]:
    [found] = cluster.json("doctor", "--residue", node)["nodes"]
    return [tree for tree in found["trees"] if tree["this_database"]]


def test_a_job_runs_where_its_user_stands(cluster: Cluster, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    result = cluster("srun", "--ship", "-w", "node001", "./go.sh", cwd=repository / "runs")
    assert result.out == f"one\n{commit} 0\n"
    (repository / "new").write_text("new")
    words = ["srun", "-Q", "--ship", "-N", 2, "-w", "node001,node002", "--label", "sh", "-c", "ls -A; runs/go.sh"]
    result = cluster(*words, cwd=repository, check=False)
    listed = [".gitignore", "new", "runs", "value"]
    for rank in (0, 1):
        lines = [line.partition(": ")[2] for line in result.lines if line.startswith(f"{rank}: ")]
        assert lines[:4] == listed, result.err
    result = cluster("srun", "-Q", "--ship=runs", "-w", "node001", "sh", "-c", "ls; pwd", cwd=repository)
    assert result.lines[0] == "go.sh"
    assert result.lines[1].endswith("/work")


def test_what_show_tells_of_it(cluster: Cluster, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "value").write_text("two\n")
    job_id = cluster.submit("--ship", "-w", "node001", "cat value; echo x >value", cwd=repository)
    (repository / "value").write_text("three\n")
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    assert cluster.output(job_id) == "two\n"
    ship = cluster.job(job_id)["ship"]
    assert (ship["commit"], ship["dirty"], ship["files"]) == (commit, True, 3)
    assert f"shipped commit {commit[:10]} with changes: 3 files, " in " ".join(cluster("show", job_id).out.split())
    again = cluster("requeue", job_id)
    assert again.code == 0
    until("it ran again", lambda: cluster.job(job_id)["attempt"] == 2 and cluster.job(job_id)["state"] == "COMPLETED")
    assert cluster.output(job_id) == "two\n"  # a copy of its own for each attempt


def test_a_script_may_ask_for_it(cluster: Cluster, repository: Path) -> None:
    (repository / "job.sh").write_text("#!/bin/sh\n#MGPU --ship -w node001\ncat value\n")
    job_id = cluster.submit("job.sh", cwd=repository)
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    assert cluster.output(job_id) == "one\n"


def test_what_is_too_large_or_elsewhere_is_refused_before_anything_is_queued(
    make_cluster: ClusterMaker, cluster: Cluster, repository: Path
) -> None:
    small = make_cluster(cluster.lab, config=f"{QUICK}ship: {{max_size: 100K}}\n")
    (repository / "weights").write_bytes(bytes(200 << 10))
    told = small.refused("srun", "--ship", "true", cwd=repository)
    assert "the largest: weights (0.2 MiB)" in told
    assert "-D /tmp: no folder of the tree" in small.refused("srun", "--ship", "-D", "/tmp", "true", cwd=repository)
    assert small.json("queue")["jobs"] == small.json("history")["jobs"] == []


def test_a_master_that_begins_removes_what_nobody_needs(make_cluster: ClusterMaker, cluster: Cluster) -> None:
    fresh = make_cluster(cluster.lab)
    folder = fresh.state_dir / "trees" / str(os.getuid())
    folder.mkdir(parents=True, mode=0o700)
    fresh.state_dir.chmod(0o700)
    old, new = (folder / f"{digit * 64}.tar.gz" for digit in "ab")
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (1e9, 1e9))
    fresh("queue")
    assert [path for path in (old, new) if path.exists()] == [new]


@pytest.fixture
def own(make_lab: LabMaker, make_cluster: ClusterMaker) -> Cluster:
    """Two nodes that a test may hurt."""
    return make_cluster(make_lab(nodes=2))


def test_a_node_without_tar_is_avoided_for_this_job(own: Cluster, repository: Path) -> None:
    own.lab.node("node001").run("mv /usr/bin/tar /usr/bin/moved", user="root")
    job_id = own.submit("--ship", "-G", 1, "cat value", cwd=repository)
    job = own.await_job(job_id, "COMPLETED")
    assert job["allocation"][0]["node"] == "node002"
    assert "no tar in PATH, which unpacking a shipped tree needs" in job["attempts"][0]["reason"]
    assert own.output(job_id) == "one\n"


def test_a_master_that_dies_while_the_tree_is_on_its_way(own: Cluster, repository: Path) -> None:
    node = own.lab.node("node001")
    own("nodes")
    (repository / "data").write_bytes(os.urandom(6 << 20))
    node.fault("link", "rate", "20")
    job_id = own.submit("--ship", "-w", "node001", "-G", 1, "wc -c <data", cwd=repository)
    until("it is on its way", lambda: node.run("ls ~/.mgpu/*/*/trees/*.* || :").stdout)
    os.kill(own.master_pid(), signal.SIGKILL)
    node.fault("link", "ok")
    own("queue")
    own.await_job(job_id, "COMPLETED")
    assert own.output(job_id).strip() == str(6 << 20)
    assert own.job(job_id)["attempt"] == 1


def test_it_is_sent_once_and_cleaned_away(make_lab: LabMaker, make_cluster: ClusterMaker, repository: Path) -> None:
    lab = make_lab(nodes=1)
    cluster = make_cluster(lab)
    (repository / "data").write_bytes(os.urandom(5 << 20))
    jobs = [cluster.submit("--ship", "-G", 1, "wc -c <data; sleep 1", cwd=repository) for _ in range(4)]
    for job_id in jobs:
        assert cluster.await_job(job_id)["state"] == "COMPLETED"
        assert cluster.output(job_id).strip() == str(5 << 20)
    [tree] = trees(cluster)
    assert tree["digest"] == cluster.job(jobs[0])["ship"]["digest"]
    node = lab.node("node001")
    until("the copies are gone", lambda: node.run("ls -d ~/.mgpu/*/*/*/work || :").stdout == "")
    shown = cluster("doctor", "--residue", "node001").out
    assert f"shipped tree {str(tree['digest'])[:12]}" in shown
    young = cluster.json("node", "clean", "node001")
    assert [left["why"] for left in young["left"] if left["kind"] == "tree"] == [
        "a job wanted it within the last 10 minutes"
    ]
    node.run("touch -d '-1 hour' ~/.mgpu/*/*/trees/*")
    answer = cluster.json("node", "clean", "node001")
    assert [removed["digest"] for removed in answer["removed"] if removed["kind"] == "tree"] == [tree["digest"]]
    assert node.run("ls -d ~/.mgpu/*/*/trees || :").stdout == ""
    again = cluster.submit("--ship", "-G", 1, "wc -c <data", cwd=repository)
    assert cluster.await_job(again)["state"] == "COMPLETED"
