"""Jobs by the older words: what they were asked for with, and what was shown of them."""

from __future__ import annotations

import json
import re

import pytest

from tests.compat.rows import row
from tests.compat.site import Site
from tests.end_to_end.cluster import until

SHOWN = 'echo "$MGPU_RANK $(hostname) $CUDA_VISIBLE_DEVICES"'


@row(
    'mgpu_client submit --gpus N "command"',
    "Job submission: {'status': 'ok', 'job_id': 'F68FAFEC', 'message': 'Job submitted'}",
)
def test_submit(site: Site) -> None:
    said = site.ok("mgpu_client", "submit", "--gpus", 2, "echo $CUDA_VISIBLE_DEVICES")
    job = site.await_job(site.submitted(said))
    assert (job["state"], job["gpus"]) == ("COMPLETED", 2)
    told = json.loads(site.ok("mgpu_client", "--json", "submit", "--gpus", "1", "true"))
    assert list(told) == ["job_id"] and isinstance(told["job_id"], int)


@row('mgpu_client submit "command"')
def test_submit_without_a_number(site: Site) -> None:
    assert site.await_job(site.submitted(site.ok("mgpu_client", "submit", "echo one && echo two")))["gpus"] == 1


@row('mgpu_client --gpus N "command"')
def test_without_a_verb(site: Site) -> None:
    job = site.await_job(site.submitted(site.ok("mgpu_client", "--gpus", 2, "true")))
    assert (job["state"], job["gpus"]) == ("COMPLETED", 2)
    assert site.await_job(site.submitted(site.ok("mgpu_client", "exit 3")))["exit_code"] == 3
    refused = site.run("mgpu_client", "quue")
    assert (refused.code, "did you mean queue?" in refused.err) == (2, True)


@row("mgpu_client submit --interactive", "Starting interactive session...")
def test_interactive(site: Site) -> None:
    done = site.run("mgpu_client", "submit", "--gpus", 1, "--interactive", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out) == (3, "out\n")
    assert "err" in done.told
    assert re.search(r"^mgpu: job \d+ runs on node00\d \(node00\d, [\d.]+\), GPU \d \[GPU-", done.err, re.M)
    assert done.told[-1].endswith("exit 3 on node001") or done.told[-1].endswith("exit 3 on node002")


@row("--interactive", "mgpu_srun -- COMMAND")
def test_srun(site: Site) -> None:
    words = ["--interactive", "--", "printf", "%s|", "a b", "$HOME", "'"]
    assert site.ok("mgpu_srun", "-Q", *words) == "a b|$HOME|'|"


@row("--gpus N")
def test_gpus_in_all(site: Site) -> None:
    shown = site.ok("mgpu_srun", "-Q", "--gpus", 4, "--", "sh", "-c", SHOWN)
    assert shown == "0 node002 0,1,2,3\n"


@row("--nodes=2 --gpus-per-node=4", "mgpu_srun_multinode.py")
def test_nodes(site: Site) -> None:
    shown = site.ok("mgpu_srun", "-Q", "--nodes=2", "--gpus-per-node=2", "--", "sh", "-c", SHOWN)
    assert sorted(shown.splitlines()) == ["0 node001 0,1", "1 node002 0,1"]
    never = site.run("mgpu_client", "submit", "--nodes=2", "--gpus-per-node=4", "true")
    assert (never.code, "needs 2 nodes with 4 GPUs each" in never.err) == (2, True)


@row("--nodelist=node001,node002", "--exclude=node003")
def test_named_nodes(site: Site) -> None:
    shown = site.ok("mgpu_srun", "-Q", "--nodelist=node001,node002", "--", "sh", "-c", SHOWN)
    assert sorted(line.split()[1] for line in shown.splitlines()) == ["node001", "node002"]
    assert "node002" in site.ok("mgpu_srun", "-Q", "--exclude=node001", "--", "hostname")


@row("--gpu-ids 0,1")
def test_gpu_ids(site: Site) -> None:
    words = ["--nodelist=node001,node002", "--gpu-ids", "0,1", "--", "sh", "-c", SHOWN]
    assert sorted(site.ok("mgpu_srun", "-Q", *words).splitlines()) == ["0 node001 0,1", "1 node002 0,1"]


@row('--node-gpu-ids "node001:0"', '--node-gpu-ids "node001:0,1;node002:0,1"')
def test_gpus_of_nodes(site: Site) -> None:
    one = ["submit", "--gpus", 1, "--interactive", "-Q", "--node-gpu-ids", "node002:3", SHOWN]
    assert site.ok("mgpu_client", *one) == "0 node002 3\n"
    four = ["submit", "--gpus", 4, "--interactive", "-Q", "--node-gpu-ids", "node002:0,1;node001:0,1", SHOWN]
    assert sorted(site.ok("mgpu_client", *four).splitlines()) == ["0 node002 0,1", "1 node001 0,1"]


@row("--mpi -- mpirun -np 8 python train.py")
def test_mpi(site: Site) -> None:
    words = ["--nodes=2", "--gpus-per-node=2", "--mpi", "--test-only", "--", "mpirun", "-np", "4", "python", "train.py"]
    assert "node001" in site.ok("mgpu_srun", *words)
    alone = site.run("mgpu_srun", "--mpi", "--test-only", "--", "python", "train.py")
    assert "mpirun in front of it starts its ranks" in alone.err


@row("--distributed -- torchrun --nnodes=2 --nproc_per_node=4 train.py")
def test_distributed(site: Site) -> None:
    """torchrun is what the node's PATH has; here it says with what it was started."""
    node = site.lab.nodes[1]
    node.run(
        "printf '#!/bin/sh\\necho \"$@\"\\n' >/usr/local/bin/torchrun; chmod 755 /usr/local/bin/torchrun", user="root"
    )
    words = ["--gpus", 2, "--nodelist=node002", "--distributed", "--", "torchrun", "--nnodes=1", "--nproc_per_node=2"]
    said = site.ok("mgpu_srun", "-Q", *words, "train.py")
    assert "--nproc" in said and said.rstrip().endswith("train.py")


@row("--session-timeout SECONDS", "--max-wait-time SECONDS")
@pytest.mark.parametrize("option", ["--session-timeout", "--max-wait-time"])
def test_a_limit_of_following(site: Site, option: str) -> None:
    done = site.run("mgpu_client", "submit", "--interactive", option, "1", "sleep 300")
    assert done.code == 75
    assert option in done.err and "mgpu attach" in done.err
    [job] = json.loads(site.ok("mgpu", "queue", "--json"))["jobs"]
    assert job["state"] == "RUNNING"


@row("--connection-timeout SECONDS", "--max-consecutive-timeouts COUNT")
def test_limits_that_a_master_at_hand_never_meets(site: Site) -> None:
    limits = ["--connection-timeout", 15, "--max-consecutive-timeouts", 120]
    assert site.ok("mgpu_client", "submit", "--interactive", "-Q", *limits, "echo on") == "on\n"
    for option in ("--connection-timeout", "--max-consecutive-timeouts"):
        wrong = site.run("mgpu_client", "submit", "--interactive", option, "soon", "true")
        assert (wrong.code, option in wrong.err) == (2, True)


@row(
    "mgpu_client queue",
    "mgpu_queue",
    "F68FAFEC: running on node002:gpu0",
    "A23B4C5D: queued (waiting for 2 GPUs)",
    "node001: 2 GPUs (1 free, 1 busy)",
)
def test_queue(site: Site) -> None:
    runs = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "--node-gpu-ids", "node002:0", "sleep 300"))
    site.await_running(runs)
    waits = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 2, "--node-gpu-ids", "node002:0,1", "true"))
    until("it waits for a reason", lambda: site.await_job(waits, "PENDING")["reason"])
    for name, *words in (("mgpu_queue",), ("mgpu_client", "queue")):
        jobs, nodes = site.ok(name, *words).split("\n\n")
        rows = {line.split()[0]: line.split() for line in jobs.splitlines()[1:]}
        assert rows[str(runs)][3:][-2:] == ["1", "node002:0"] and "RUNNING" in rows[str(runs)]
        assert "PENDING" in rows[str(waits)] and rows[str(waits)][5] == "2" and len(rows[str(waits)]) > 6
        head, *each = nodes.splitlines()
        assert head.split()[:5] == ["NODE", "STATE", "GPUS", "FREE", "JOBS"]
        assert [line.split()[:5] for line in each[:2]] == [
            ["node001", "UP", "2", "2", "0"],
            ["node002", "UP", "4", "3", "1"],
        ]
    both = json.loads(site.ok("mgpu_queue", "--json"))
    assert [len(both["jobs"]), len(both["nodes"])] == [2, 2]


@row("mgpu_client cancel JOB", "mgpu_cancel JOB")
def test_cancel(site: Site) -> None:
    first, second = (site.submitted(site.ok("mgpu_client", "submit", "sleep 300")) for _ in range(2))
    site.ok("mgpu_client", "cancel", first)
    site.ok("mgpu_cancel", second)
    assert [site.await_job(each)["state"] for each in (first, second)] == ["CANCELLED"] * 2


@row(
    "=== DEBUG: Job ... Target Node, Actual Host, Actual IP",
    "wrong node: node002 was asked for and node001 seemed to run it",
    "debug_job_tracking.py",
)
def test_where_it_really_ran(site: Site) -> None:
    said = site.ok("mgpu_client", "submit", "--gpus", 1, "--node-gpu-ids", "node002:0", "hostname")
    job = site.await_job(site.submitted(said))
    [part] = job["allocation"]
    assert (part["node"], part["hostname"], part["address"]) == ("node002", "node002", site.lab.nodes[1].address)
    assert site.ok("mgpu", "logs", job["job_id"]) == "node002\n"
    assert "node002" in site.ok("mgpu", "show", "job", job["job_id"])


@row("Jobs not running")
def test_why_it_waits(site: Site) -> None:
    job_id = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 2, "--nodes", 2, "--hold", "true"))
    assert "mgpu release" in site.ok("mgpu", "why", job_id) or "held" in site.ok("mgpu", "why", job_id)


@row("environment variables")
def test_options_from_variables(site: Site) -> None:
    shown = site.ok("mgpu_srun", "-Q", "--", "sh", "-c", SHOWN, env={"MGPU_NODE_GPU_IDS": "node001:1"})
    assert shown == "0 node001 1\n"
    socket = str(site.state_dir / "mgpu.sock")
    assert site.ok("mgpu_queue", env={"MGPU_MASTER": socket, "HOME": "/nonexistent"}).startswith("JOBID")
