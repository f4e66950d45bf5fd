"""What scripts and CI lean on: jobs that go with their client, keys, and the file that says how it ended."""

from __future__ import annotations

import json
import signal

from tests.end_to_end.cluster import Cluster


def test_a_job_goes_with_its_last_client(cluster: Cluster) -> None:
    follower = cluster.start("srun", "--kill-on-disconnect=1", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    [job] = cluster.json("queue", "--me")["jobs"]
    other = cluster.start("attach", job["job_id"])
    other.read_until("runs on")
    follower.send(signal.SIGKILL)
    follower.finish()
    cluster.await_output(job["job_id"], "begun")  # a look takes its time, and is no client
    assert cluster.job(job["job_id"])["state"] == "RUNNING"
    other.send(signal.SIGHUP)
    left = other.finish()
    assert left.code == 129
    ended = cluster.await_job(job["job_id"])
    assert (ended["state"], ended["detail"]) == (
        "CANCELLED",
        "cancelled by mgpu: no client was connected for 1 s (--kill-on-disconnect)",
    )


def test_it_survives_a_restart_of_the_master(cluster: Cluster) -> None:
    follower = cluster.start("srun", "--kill-on-disconnect=3", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    [job] = cluster.json("queue", "--me")["jobs"]
    follower.send(signal.SIGKILL)
    follower.finish()
    cluster("stop")
    cluster("nodes")
    assert cluster.await_job(job["job_id"])["state"] == "CANCELLED"


def test_the_same_key_is_the_same_job(cluster: Cluster) -> None:
    words = ("srun", "--request-id", "nightly", "--status-file", "end.json", "sh", "-c", "echo once; exit 4")
    first, again = (cluster(*words, cwd=cluster.home, check=False) for _ in range(2))
    assert [(ran.code, ran.out) for ran in (first, again)] == [(4, "once\n")] * 2
    told = json.loads((cluster.home / "end.json").read_text())
    assert (told["state"], told["exit_code"], told["exit_status"], told["error"]) == ("FAILED", 4, 4, None)
    assert [again.told[0], again.told[-1]] == [
        f"mgpu: job {told['job_id']} was submitted before with --request-id nightly: it is not submitted again",
        f"mgpu: job {told['job_id']} FAILED, exit 4 on {told['nodes'][0]}",
    ]
    other = cluster.refused("srun", "--request-id", "nightly", "true", cwd=cluster.home)
    assert f"belongs to job {told['job_id']}, which was asked for otherwise" in other
    waited = cluster("wait", "--status-file", "end.json", told["job_id"], cwd=cluster.home, check=False)
    assert (waited.code, json.loads((cluster.home / "end.json").read_text())["exit_code"]) == (4, 4)
