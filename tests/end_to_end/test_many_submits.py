"""Many who submit at once, with the master killed in the middle: each command's job is there, once."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

from tests.end_to_end.cluster import Cluster, until

PROCESSES, EACH = 6, 4


def test_none_is_lost_or_doubled_when_the_master_is_killed(cluster: Cluster) -> None:
    cluster("nodes")

    def submit(number: int) -> list[int]:
        return [cluster.submit("--hold", "-J", f"many-{number}-{turn}", "true") for turn in range(EACH)]

    def listed() -> list[dict[str, object]]:
        found = cluster.ask("GET", "/v1/jobs")[1]["jobs"]
        return [job for job in found if str(job["name"]).startswith("many-")]

    with ThreadPoolExecutor(PROCESSES) as pool:
        running = [pool.submit(submit, number) for number in range(PROCESSES)]
        until("some are there", lambda: len(listed()) >= PROCESSES)
        os.kill(cluster.master_pid(), signal.SIGKILL)
        told = [job_id for each in running for job_id in each.result()]
    jobs = listed()
    assert sorted(job["job_id"] for job in jobs) == sorted(told)
    assert len({job["name"] for job in jobs}) == len(told) == PROCESSES * EACH
    cluster("cancel", *told)
