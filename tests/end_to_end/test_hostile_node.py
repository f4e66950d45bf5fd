"""What a node's own people may write into the files that the master reads there."""

from __future__ import annotations

from tests.end_to_end.cluster import Cluster

FORGED = """
cd ~/.mgpu/*/node001 || exit 1
for line in '{job}.1 started 1.0 - 1:1:x:y' '{job}.1 ended = 0,0, 0:1.0' '{job}.1 ended CANCEL 5,5, 9:1.0' \\
    '{job}.1 leftover 1 2' '{job}.1 ask 9.9' '{job}.2 ended = 0,0, 0:1.0' '{job}.1 requeue' \\
    '{own}.1 started {many} - x' '{own}.1 ended = {many},{many}, {many}:{many}' '{own}.1 ended = - -' \\
    '{own}.7 ended = 0,0, 0:1.0' '\u00b2{own}.1 ended = 0,0, 0:1.0' "$(printf '\\033]0;owned\\007')"; do
    printf '%s\\n' "$line" >>events || exit 1
done
head -c 3000000 /dev/urandom >>events
head -c 3000000 /dev/zero | tr '\\0' 9 >>events
echo >>events
"""


def test_forged_events_move_no_job_of_another_node(cluster: Cluster, separate_nodes: None) -> None:
    own = cluster.submit("-w", "node001", "sleep 3; echo own; exit 4")
    other = cluster.submit("-w", "node002", "sleep 3; echo other; exit 5")
    cluster.await_running(own)
    cluster.await_running(other)
    cluster.lab.node("node001").run(FORGED.format(job=other, own=own, many="9" * 5000))
    later = cluster.submit("-w", "node001", "echo later; exit 6")
    for job_id, said, code in ((own, "own\n", 4), (other, "other\n", 5), (later, "later\n", 6)):
        job = cluster.await_job(job_id)
        assert (job["state"], job["exit_code"], job["attempt"]) == ("FAILED", code, 1), job
        assert cluster.output(job_id) == said
    nodes = {node["node_id"]: node["state"] for node in cluster.ask("GET", "/v1/nodes")[1]["nodes"]}
    assert nodes == {"node001": "UP", "node002": "UP"}


def test_links_in_a_run_directory_are_followed_by_the_jobs_account_alone(
    cluster: Cluster, separate_nodes: None
) -> None:
    """In place of an output file, to a place on the node that is not on the head, or nowhere at all."""
    node = cluster.lab.node("node001")
    words = "cd ~/.mgpu/*/node001/$MGPU_JOB_ID.1 && {0}; echo said; exit 3"
    for what in (
        "ln -sf /dev/zero stdout",
        "ln -sf /nowhere stdout",
        "rm stdout; mkfifo stdout",
        "rm stdout; mkdir stdout",
    ):
        job_id = cluster.submit("-w", "node001", words.format(what))
        job = cluster.await_job(job_id)
        assert (job["state"], job["exit_code"]) == ("FAILED", 3), (what, job)
    assert cluster.ask("GET", "/v1/nodes/node001")[1]["state"] == "UP"
    assert node.run("echo alive").stdout == "alive\n"
