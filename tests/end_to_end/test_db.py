"""The database cared for by its command, beside a master that works and without one."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.end_to_end.cluster import Cluster, until


def test_beside_a_master(cluster: Cluster, tmp_path: Path) -> None:
    job_id = cluster.submit("echo", "17")
    cluster.await_job(job_id, "COMPLETED")
    until("it is collected", lambda: cluster.output(job_id) == "17\n")
    copy = tmp_path / "copy.db"
    held = cluster.submit("-H", "--export", "SECRET=never-in-a-copy", "true")
    told = cluster.json("db", "backup", copy)
    assert told == {"file": str(copy), "size_bytes": copy.stat().st_size, "schema": told["schema"]}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert b"never-in-a-copy" not in copy.read_bytes()
    assert f"{copy} is there already" in cluster.refused("db", "backup", copy, code=2)
    cluster("db", "backup", copy, "--force")
    assert cluster("db", "check").told == []
    cluster("db", "vacuum")
    assert "nothing to do" in cluster("db", "migrate").out
    assert cluster("srun", "echo", "again").out == "again\n"
    cluster("cancel", held)


def test_a_backup_in_its_place(cluster: Cluster, tmp_path: Path) -> None:
    """What ran goes on and loses nothing, what waited is held, numbers go on."""
    runs = cluster.submit("trap 'echo ended; exit 0' USR1; echo begun; while :; do sleep 0.1; done")
    waits = cluster.submit("--begin", "now+1hour", "true")
    cluster.await_running(runs)
    copy = Path(cluster.json("db", "backup", tmp_path / "copy")["file"])
    since = cluster.submit("echo", "since")
    cluster.await_job(since, "COMPLETED")
    until("it is collected", lambda: cluster.output(since) == "since\n")
    assert "another master holds" in cluster.refused("db", "restore", copy, code=69)
    cluster("stop")
    done = cluster.json("db", "restore", copy)
    assert (done["held"], done["output_moved"], done["next_job_id"]) == (1, 1, since + 1)
    held = next(job for job in cluster.json("queue")["jobs"] if job["job_id"] == waits)
    assert held["reason"] == "JobHeldAdmin"
    cluster("signal", "--full", runs, "USR1")
    cluster.await_job(runs, "COMPLETED")
    until("it is collected", lambda: cluster.output(runs) == "begun\nended\n")
    assert cluster.submit("true") == since + 1
    assert cluster("db", "check").code == 0


def test_without_one(cluster: Cluster, tmp_path: Path) -> None:
    """With the copy in its place, numbers go on behind all that there is."""
    first = cluster.submit("true")
    cluster.await_job(first, "COMPLETED")
    cluster("stop")
    copy = Path(cluster.json("db", "backup")["file"])
    assert copy.parent == cluster.state_dir
    (cluster.state_dir / "spool" / "4711" / "1").mkdir(parents=True)
    found = cluster("db", "check", check=False)
    assert found.code == 1
    assert "spool/4711/1 is of no attempt that is known" in found.out
    cluster("db", "vacuum")
    cluster("db", "restore", copy)
    assert cluster("db", "check").code == 0
    assert cluster.submit("true") == 4712
