"""What GPUs did is kept, and a job that holds them without using them is told of."""

from __future__ import annotations

import re
from pathlib import Path

from tests.end_to_end.cluster import QUICK, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

IDLE = "idle: {after: 4s, below: 5}\n"


def test_a_job_that_does_nothing_becomes_idle_and_one_that_works_does_not(
    lab: Lab, make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    notify = f"notify: {{command: [/bin/sh, -c, 'cat >>{told}'], events: [idle]}}\n"
    cluster = make_cluster(lab, config=QUICK + IDLE + notify)
    idle = cluster.submit("-G", "2", "--", "env", "LAB_GPU_PERCENT=0", "sleep", "1000")
    busy = cluster.submit("--", "env", "LAB_GPU_PERCENT=97", "LAB_GPU_MIB=4000", "sleep", "1000")
    for job_id in (idle, busy):
        cluster.await_running(job_id)
    since = until("the one is idle", lambda: cluster.job(idle)["idle_since"])
    (line,) = [line for line in cluster("queue").lines if "(idle 0 min)" in line]
    assert line.split()[0] == str(idle)
    assert re.search(r"^idle +0 min, since", cluster("show", "job", idle).out, re.MULTILINE)
    assert "idle 0 min: its GPUs do nothing since" in cluster("why", idle).out
    until("it is told", lambda: told.exists() and '"event": "idle"' in told.read_text())

    cluster("stop")
    cluster("queue")  # begins another master
    used = cluster.ask("GET", f"/v1/jobs/{busy}/use")[1]
    assert [point["utilization"] for point in used["points"] if point["utilization"] is not None][-1] > 40
    assert (used["memory_peak_mib"], used["idle_since"], used["utilization"] > 40) == (4003, None, True)
    used = cluster.ask("GET", f"/v1/jobs/{idle}/use")[1]
    assert (used["idle_since"], used["points"][-1]["gpus"]) == (since, 2)
    node = cluster.job(busy)["allocation"][0]["node"]
    gpus = cluster.ask("GET", f"/v1/nodes/{node}/use?hours=1")[1]["gpus"]
    assert "allocated" in {point["state"] for gpu in gpus for point in gpu["points"]}

    report = cluster("report", "--day").out
    assert "idle now: 1 job on 2 GPUs" in report
    (line,) = [line for line in report.splitlines() if line.startswith("root")]
    assert " 3.9 " in line  # GiB
    assert {row["node_id"]: row["up"] for row in cluster.json("report")["nodes"]} == {"node001": 1.0, "node002": 1.0}
