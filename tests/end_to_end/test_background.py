"""Jobs that are queued and left alone: submit, queue, show, logs, history, why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


@pytest.mark.usefixtures("separate_nodes")
def test_from_submit_to_history(cluster: Cluster) -> None:
    submitted = cluster("submit", "-J", "my job", "-G", 2, "echo out; echo err >&2; sleep 60")
    job_id = int(re.fullmatch(r"Submitted job (\d+)\n", submitted.out)[1])  # type: ignore[index]
    cluster.await_running(job_id)
    [row] = [line for line in cluster("queue").lines if line.split()[0] == str(job_id)]
    assert re.search(rf"^ *{job_id}  my job +root +RUNNING +\d+:\d\d +2  node00\d:\d", row)
    until("its output", lambda: cluster.output(job_id) == "out\n")  # kept up with though nobody follows it
    logs = cluster("logs", job_id)
    assert (logs.out, logs.err) == ("out\n", "err\n")
    assert cluster("logs", job_id, "--stderr").out == "err\n"
    shown = cluster("show", "job", job_id).out
    assert re.search(rf"^job +{job_id} my job$", shown, re.M)
    assert re.search(r"^rank 0 +node00\d \(node00\d, [\d.]+\), GPU \d,\d \[GPU-\S+ GPU-\S+\]", shown, re.M)
    assert "runs on node00" in cluster("why", job_id).out
    assert cluster("cancel", job_id).out == f"Cancelled job {job_id}\n"
    cluster.await_job(job_id, "CANCELLED")
    assert not [line for line in cluster("queue").lines if line.split()[0] == str(job_id)]
    [row] = [line for line in cluster("history").lines if line.split()[0] == str(job_id)]
    assert "CANCELLED" in row
    assert "cancelled by root" in row


@pytest.mark.usefixtures("separate_nodes")
def test_json_as_promised(cluster: Cluster) -> None:
    job_id = cluster.submit("-G", 2, "-J", "shape", "--", "sh", "-c", "exit 3")
    cluster.await_job(job_id, "FAILED")
    [job] = [job for job in cluster.json("history")["jobs"] if job["job_id"] == job_id]
    assert job["name"] == "shape"
    assert job["user"] == "root"
    assert (job["state"], job["reason"], job["exit_code"]) == ("FAILED", "NonZeroExitCode", 3)
    assert (job["gpus"], job["nodes"], job["attempt"]) == (2, 1, 1)
    assert job["command"] == ["sh", "-c", "exit 3"]
    for key in ("submit_time", "start_time", "end_time"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", job[key])
    [part] = job["allocation"]
    assert part.keys() >= {"rank", "node", "hostname", "address", "devices", "uuids", "pid", "state", "exit_code"}
    assert (part["rank"], part["state"], part["exit_code"]) == (0, "ENDED", 3)
    assert part["hostname"] == part["node"]  # the lab's nodes are named so
    assert isinstance(part["pid"], int)
    assert {key: value for key, value in cluster.json("show", "job", job_id).items() if key in job} == job


def test_logs_while_it_runs(cluster: Cluster) -> None:
    job_id = cluster.submit("for i in 1 2 3; do echo line $i; sleep 0.3; done; exit 4")
    viewer = cluster.start("logs", "-f", job_id)
    viewer.read_until("line 1")
    result = viewer.finish()
    assert (result.code, result.out) == (0, "line 1\nline 2\nline 3\n")


def test_end_of_looking_on_is_not_the_end_of_the_job(cluster: Cluster) -> None:
    job_id = cluster.submit("echo begun; sleep 60")
    viewer = cluster.start("logs", "-f", job_id)
    viewer.read_until("begun")
    viewer.send(2)
    assert viewer.finish().code == 130
    assert cluster.job(job_id)["state"] == "RUNNING"


SCRIPTS = {
    "python": ("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n", "['a  b', \"c'd\"]\n", 0),
    "strict": ("#!/bin/bash -e\necho $1\nfalse\necho never\n", "a b\n", 1),
    "plain": ('for word in "$@"; do echo "<$word>"; done\nexit 5\n', "<a  b>\n<c'd>\n", 5),
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_scripts(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    text, output, code = SCRIPTS[kind]
    script = tmp_path / "work.sh"
    script.write_text(text)
    job_id = cluster.submit(script, "a  b", "c'd")
    job = cluster.await_job(job_id)
    assert (job["exit_code"], cluster.output(job_id)) == (code, output)
    assert job["name"] == "work.sh"
    assert job["command"] == ["work.sh", "a  b", "c'd"]


def test_ways_to_say_a_command(cluster: Cluster) -> None:
    ids = {
        cluster.submit("for i in 1 2; do echo $i; done | tac"): "2\n1\n",  # one word: a shell's line
        cluster.submit("echo", "$HOME", "a  b"): "$HOME a  b\n",  # several: an argv
        cluster.submit("--", "echo"): "\n",
        cluster.submit("-G", 0, "echo", "-n", "x"): "x",  # options end at the first other word
    }
    for job_id, output in ids.items():
        cluster.await_job(job_id, "COMPLETED")
        assert cluster.output(job_id) == output


def test_files_on_the_node(cluster: Cluster) -> None:
    job_id = cluster.submit("-w", "node001", "-D", "/tmp", "-o", "%j-%n.out", "-e", "%j.err", "echo one; echo two >&2")
    cluster.await_job(job_id, "COMPLETED")
    node = cluster.lab.node("node001")
    assert node.run(f"cat /tmp/{job_id}-node001.out").stdout == "one\n"
    assert node.run(f"cat /tmp/{job_id}.err").stdout == "two\n"
    assert cluster.output(job_id) == "one\n"  # beside the spool


def test_interactive(cluster: Cluster) -> None:
    result = cluster("submit", "--interactive", "echo here; exit 6", check=False)
    assert (result.code, result.out) == (6, "here\n")
    assert "runs on node00" in result.told[0]


def test_a_repeated_submit_is_the_same_job(cluster: Cluster) -> None:
    """The answer was lost, so the client sends it again."""

    def post(request_id: str) -> tuple[int, int]:
        body = {"request_id": request_id, "kind": "batch", "command": {"form": "shell", "words": ["echo once"]},
                "options": {}, "env": {}, "cwd": "/", "virtual_env": ""}  # fmt: skip
        status, answer = cluster.ask("POST", "/v1/jobs", body)
        return status, int(answer["job_id"])

    assert [post("ab" * 16)[0], post("ab" * 16)[0], post("cd" * 16)[0]] == [201, 200, 201]
    assert post("ab" * 16)[1] + 1 == post("cd" * 16)[1]


def test_a_job_has_itself_queued_again(cluster: Cluster) -> None:
    script = "echo $SLURM_RESTART_COUNT; [ $SLURM_RESTART_COUNT = 2 ] && exit; {0}"
    asks = cluster.submit(
        "-w", "node001", "-o", "/tmp/asks-%j", script.format("scontrol requeue $SLURM_JOB_ID; sleep 600")
    )
    exits = cluster.submit("-o", "/tmp/exits-%j", "--requeue-on-exit", "85,86", script.format("exit 86"))
    for job_id in (asks, exits):
        job = cluster.await_job(job_id)
        assert (job["state"], job["attempt"], job["exit_code"]) == ("COMPLETED", 3, 0), job
        assert [cluster.output(job_id, "--attempt", number) for number in (1, 2, 3)] == ["0\n", "1\n", "2\n"]
    whole = cluster("srun", "-w", "node001", "cat", f"/tmp/asks-{asks}")
    assert whole.out == "0\n1\n2\n"
    shown = cluster.job(asks)["attempts"]
    assert [(one["state"], one["exit_code"]) for one in shown] == [("ENDED", 143), ("ENDED", 143), ("ENDED", 0)]
    refusals = {
        ("submit", "--requeue-on-exit", "0", "true"): "write exit codes from 1 to 255",
        ("submit", "--requeue-on-exit", "85", "--no-requeue", "true"): "does not go with --no-requeue",
    }
    for words, text in refusals.items():
        assert text in cluster.refused(*words)


def test_a_job_that_always_wants_another_try_stops_at_the_limit(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=QUICK.replace("max: 3", "max: 3, requeues: 1"))
    job = cluster.await_job(cluster.submit("--requeue-on-exit", 85, "exit 85"))
    assert (job["state"], job["reason"], job["attempt"], job["exit_code"]) == ("FAILED", "RequeueLimit", 2, 85)


def test_the_command_failed_and_is_tried_again(cluster: Cluster) -> None:
    job_id = cluster.submit("--retries", 2, "echo attempt $MGPU_ATTEMPT; [ $MGPU_ATTEMPT = 3 ]")
    job = cluster.await_job(job_id)
    assert (job["state"], job["attempt"]) == ("COMPLETED", 3)
    assert [attempt["exit_code"] for attempt in job["attempts"]] == [1, 1, 0]
    assert cluster.output(job_id) == "attempt 3\n"
    assert cluster.output(job_id, "--attempt", 1) == "attempt 1\n"
