"""mgpu history of what really ran: attempts, moments, columns."""

from __future__ import annotations

import csv
import io

from tests.end_to_end.cluster import Cluster, until


def test_a_job_that_ran_twice(cluster: Cluster) -> None:
    job_id = cluster.submit(
        "-J", "twice", "-w", "node001", "--", "sh", "-c", "[ $MGPU_ATTEMPT = 2 ] || sleep 1000; exit 3"
    )
    cluster.await_running(job_id)
    cluster("requeue", job_id)
    until("it ended", lambda: cluster.json("history", "--name", "twice", "--failed")["jobs"])
    told = cluster("history", job_id, "-D", "--csv", "-o", "JobID,Attempt,State,ExitCode,NodeList,Planned").out
    rows = list(csv.DictReader(io.StringIO(told)))
    assert [row["Attempt"] for row in rows] == ["1", "2"]
    assert [row["State"] for row in rows] == ["REQUEUED", "FAILED"]
    assert rows[1]["ExitCode"] == "3:0" and {row["NodeList"] for row in rows} == {"node001"}
    assert "twice" in cluster("history", "-S", "1h").out
    assert "twice" not in cluster("history", "-E", "1h").out
    assert [job["job_id"] for job in cluster.json("history", job_id, "-S", "now-1hour", "-E", "tomorrow")["jobs"]] == [
        job_id
    ]


def test_what_a_job_made_of_its_gpus(cluster: Cluster) -> None:
    job_id = cluster.submit("-G", "2", "--", "env", "LAB_GPU_PERCENT=80", "LAB_GPU_MIB=4000", "sleep", "1000")
    cluster.await_running(job_id)
    until("it was looked at", lambda: (cluster.json("history", job_id)["jobs"][0]["use"] or {}).get("utilization"))
    cluster("cancel", job_id)
    until("it ended", lambda: [job for job in cluster.json("history")["jobs"] if job["job_id"] == job_id])
    told = cluster("history", job_id, "--csv", "-o", "GPUUtil,GPUMemPeak,IdleGPUHours,GPUHours").out
    (row,) = csv.DictReader(io.StringIO(told))
    assert 0 < float(row["GPUUtil"]) <= 80 and row["GPUMemPeak"] == "4003M"
