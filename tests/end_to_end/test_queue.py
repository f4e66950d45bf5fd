"""What users do with jobs in the queue, from the command line to the node."""

from __future__ import annotations

from tests.end_to_end.cluster import Cluster, until


def reason(cluster: Cluster, job_id: int) -> str:
    return str(cluster.job(job_id)["reason"])


def test_once_more_and_otherwise(cluster: Cluster) -> None:
    script = "echo attempt $MGPU_ATTEMPT in $SLURM_JOB_NAME; [ $MGPU_ATTEMPT = 2 ] && sleep 600; exit 3"
    job_id = cluster.submit("-G", 1, "-J", "first", script)
    assert cluster.await_job(job_id)["state"] == "FAILED"
    assert cluster("requeue", job_id, "--hold").out == f"Requeued job {job_id}\n"
    until("it waits", lambda: reason(cluster, job_id) == "JobHeldUser")
    said = cluster("update", job_id, "-w", "node002", "-J", "second", "--nice", 3).out
    assert said.splitlines() == [f"Updated job {job_id}: {what}" for what in ("nodes node002", "nice 3", "name second")]
    cluster("release", job_id)
    cluster.await_running(job_id)
    cluster("requeue", job_id)
    job = cluster.await_job(job_id)
    assert (job["state"], job["attempt"], job["exit_code"]) == ("FAILED", 3, 3)
    tries = cluster.job(job_id)["attempts"]
    assert [one["allocation"][0]["node"] for one in tries][1:] == ["node002", "node002"]
    assert [one["exit_code"] for one in tries] == [3, 143, 3]
    assert cluster.output(job_id, "--attempt", 1) == "attempt 1 in first\n"
    assert cluster.output(job_id) == "attempt 3 in second\n"


def test_jobs_that_wait_for_a_word_and_for_each_other(cluster: Cluster) -> None:
    first = cluster.submit("-H", "-G", 0, "exit 3")
    well, failed = (cluster.submit("-G", 0, "-d", f"{kind}:{first}", "true") for kind in ("afterok", "afternotok"))
    last = cluster.submit("-G", 0, "-d", f"afterok:{well}?afterany:{failed}", "true")
    follower = cluster.start("srun", "-G", 0, "-d", f"afterany:{last}", "echo", "at last")
    follower.read_until(f"waits: Dependency: job {last} has to end first")
    until("the plan tells", lambda: reason(cluster, first) == "JobHeldUser")
    assert "held by root: mgpu release" in cluster("why", first).out
    assert cluster("hold", failed).out == f"Held job {failed}\n"
    assert cluster("release", first, failed).out == f"Released job {first}\nReleased job {failed}\n"
    assert cluster("wait", failed, last).out == f"job {failed} COMPLETED, exit 0\njob {last} COMPLETED, exit 0\n"
    lost = cluster.await_job(well)
    assert (lost["state"], lost["reason"], lost["attempt"]) == ("CANCELLED", "DependencyNeverSatisfied", 0)
    assert lost["detail"] == f"job {first} had to end well, and is FAILED"
    result = follower.finish()
    assert (result.code, result.out) == (0, "at last\n")
    later = cluster.submit("-G", 0, "--begin", "now+2", "true")
    until("the plan tells", lambda: reason(cluster, later) in ("BeginTime", ""))
    assert cluster.await_job(later)["state"] == "COMPLETED"
