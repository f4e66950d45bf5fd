"""A maintenance window keeps away what would run into it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from tests.end_to_end.cluster import QUICK, Cluster
from tests.lab import Lab

ClusterMaker = Callable[..., Cluster]


def window(begins: float, ends: float) -> str:
    """In hours from now."""
    first, last = (datetime.now().astimezone() + timedelta(hours=hours) for hours in (begins, ends))
    return f"maintenance: [{{from: {first:%Y-%m-%d %H:%M}, to: {last:%Y-%m-%d %H:%M}, reason: new fans}}]\n"


def test_only_what_ends_before_starts_and_nothing_while_it_lasts(lab: Lab, make_cluster: ClusterMaker) -> None:
    later = window(2, 3)
    cluster = make_cluster(lab, config=QUICK + later)
    plain = cluster.config_path.read_text().replace(later, "")
    cluster("nodes")
    cluster("srun", "-Q", "-t", "60", "true")
    long = cluster.submit("-t", "3:00:00", "--", "true")
    unlimited = cluster.submit("-w", "node001", "--", "true")
    waits = cluster.await_job(long, "PENDING", reason="Maintenance")
    assert "new fans; a job of 03:00:00 would run into it" in waits["detail"]
    waits = cluster.await_job(unlimited, "PENDING", reason="ReqNodeNotAvail")
    assert "is counted as 1-00:00:00, its partition's planning_time, and would run" in waits["detail"]
    assert "  planned: maintenance 20" in cluster("nodes").out
    assert "new fans" in cluster("show", "node", "node001").out
    assert cluster.node("node001")["maintenance"][0]["reason"] == "new fans"
    cluster.config_path.write_text(plain + window(-1, 1))
    cluster("config", "reload")
    short = cluster.submit("-t", "1", "--", "true")
    assert "new fans" in cluster.await_job(short, "PENDING", reason="Maintenance")["detail"]
    assert "  maintenance 20" in cluster("nodes").out
    assert "4 GPUs, none for jobs: maintenance" in cluster("nodes").out
    cluster.config_path.write_text(plain)
    cluster("config", "reload")
    cluster("nodes")
    for job_id in (long, unlimited, short):
        cluster.await_job(job_id, "COMPLETED")
