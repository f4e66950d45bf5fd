"""What the older system's documents promised, tried; and what is said plainly to be not offered."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.compat.rows import PAGE, row
from tests.compat.site import Site
from tests.end_to_end.cluster import until

GPU_OF_TWO = ("--gpus", 1, "--interactive", "-Q")


def nodes(site: Site) -> dict[str, dict[str, Any]]:
    return {each["node_id"]: each for each in json.loads(site.ok("mgpu", "nodes", "--json"))["nodes"]}


def states(site: Site, name: str) -> list[str]:
    return [gpu["state"] for gpu in nodes(site)[name]["gpus"]]


@row("automatic assignment to free GPUs")
def test_only_free_gpus(site: Site) -> None:
    node = site.lab.nodes[0]
    node.fault("outsider", 0)
    try:
        until("it is seen", lambda: states(site, "node001")[0] == "external")
        words = ["--nodelist", "node001", "echo $CUDA_VISIBLE_DEVICES"]
        assert site.ok("mgpu_client", "submit", *GPU_OF_TWO, *words) == "1\n"
    finally:
        node.fault("outsider", "stop")


@row("load balancing over the nodes")
def test_spread(site: Site) -> None:
    assert site.ok("mgpu_client", "submit", *GPU_OF_TWO, "--policy", "spread", "hostname") == "node002\n"


@row("node states online, offline, maintenance", "heartbeat and state watching", "node management commands")
def test_states_of_nodes(site: Site) -> None:
    assert nodes(site)["node001"]["state"] == "UP"
    assert nodes(site)["node001"]["last_seen"]
    site.ok("mgpu", "node", "drain", "node001", "--reason", "new fan")
    assert nodes(site)["node001"]["state"] == "DRAINED"
    site.ok("mgpu", "node", "resume", "node001")
    node = site.lab.nodes[0]
    node.fault("sshd", "stop")
    node.fault("sshd", "kill")
    try:
        until("it is down", lambda: nodes(site)["node001"]["state"] == "DOWN")
    finally:
        node.fault("sshd", "start")
    until("it is back", lambda: nodes(site)["node001"]["state"] == "UP")
    assert site.ok("mgpu", "node", "probe", "node001").startswith("node001")
    helped = site.ok("mgpu", "node", "--help")
    for act in ("add", "remove", "probe", "drain", "resume", "down", "trust", "clean"):
        assert f"\n  {act} " in helped


@row("failure tracking, retry with exponential backoff, another node instead")
def test_a_failed_try_is_followed_by_another(site: Site) -> None:
    text = 'test "$MGPU_ATTEMPT" = 2'
    job = site.await_job(site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "--retries", 2, text)))
    assert (job["state"], job["attempt"]) == ("COMPLETED", 2)
    node = site.lab.nodes[1]
    text = 'test "$MGPU_ATTEMPT" = 2 || sleep 300; hostname'
    said = site.ok("mgpu_client", "submit", "--gpus", 1, "--policy", "spread", text)
    job = site.await_running(site.submitted(said))
    assert job["allocation"][0]["node"] == "node002"
    node.fault("reboot")
    until("the node is back", lambda: nodes(site)["node002"]["state"] == "UP")
    job = site.await_job(job["job_id"])
    assert (job["state"], job["attempt"]) == ("COMPLETED", 2)


@row("the node asked for is not healthy: another one instead")
def test_who_names_a_node_waits_for_it(site: Site) -> None:
    site.ok("mgpu", "node", "drain", "node001", "--reason", "new fan")
    said = site.ok("mgpu_client", "submit", "--gpus", 1, "--node-gpu-ids", "node001:0", "hostname")
    job_id = site.submitted(said)
    why = until("it has been looked at", lambda: "new fan" in (told := site.ok("mgpu", "why", job_id)) and told)
    assert "it would start now with:\n  without --node-gpu-ids\n" in why
    site.ok("mgpu", "node", "resume", "node001")
    job = site.await_job(job_id)
    assert (job["state"], job["allocation"][0]["node"]) == ("COMPLETED", "node001")


@row("service discovery")
def test_hosts_that_ssh_knows_become_nodes(site: Site, tmp_path: Path) -> None:
    """Here they are nodes already, of another configuration."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/config").write_text(site.lab.ssh_config.read_text())
    done = site.run("mgpu", "init", "node001", "node002", "--no-probe", "--yes", env={"HOME": str(tmp_path)})
    assert done.code == 0, done.err
    checked = site.ok("mgpu", "config", "check", tmp_path / ".config/mgpu/cluster_config.yaml")
    assert checked.rstrip().endswith("ok, 2 nodes")


@row("advanced scheduling algorithms")
def test_one_waits_for_another(site: Site) -> None:
    first = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "--array", "1-2", "sleep 1"))
    then = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "--dependency", f"afterok:{first}", "true"))
    ended = site.await_job(then)
    tasks = [site.await_job(f"{first}_{index}") for index in (1, 2)]
    assert ended["state"] == "COMPLETED" and ended["start_time"] >= max(task["end_time"] for task in tasks)


@row("cancelled and ended jobs leave nothing on the GPU")
def test_nothing_is_left(site: Site) -> None:
    text = "setsid sleep 300 & sleep 300"
    job_id = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "--node-gpu-ids", "node001:0", text))
    site.await_running(job_id)
    site.ok("mgpu_cancel", job_id)
    site.await_job(job_id, "CANCELLED")
    until("the GPU is free", lambda: states(site, "node001")[0] == "free")
    assert "sleep 300" not in site.lab.nodes[0].run("ps -eo args", user="root").stdout


@row("logging and audit of every job", "rights by node", "success rate, node metrics", "health checks")
def test_records(site: Site) -> None:
    job_id = site.submitted(site.ok("mgpu_client", "submit", "--gpus", 1, "exit 1"))
    site.await_job(job_id, "FAILED")
    acts = [entry["action"] for entry in json.loads(site.ok("mgpu", "--json", "audit", "--job", job_id))["audit"]]
    assert "submit" in acts and any(act.startswith("ended") for act in acts)
    assert f"job {job_id}: submit by root" in site.log()
    rows = json.loads(site.ok("mgpu", "--json", "report", "--week"))
    assert rows["total"]["failed"] >= 1 and rows["total"]["success"] is not None
    config = site.folder / "cluster_config.yaml"
    before = config.read_text()
    closed = "partitions: {main: {allow_users: [nobody-here]}}\ndefaults:\n  partition: main\n"
    config.write_text(before.replace("defaults:\n", closed + "  health: {check: 'test -d /'}\n"))
    try:
        assert site.ok("mgpu", "config", "check").rstrip().endswith("ok, 2 nodes")
    finally:
        config.write_text(before)


@row("mutual authentication, encryption")
def test_who_is_who(site: Site) -> None:
    node = site.lab.nodes[0]
    home = node.homes / node.user
    pins = {pin: pin.read_text() for pin in (home / ".config/mgpu/pins").iterdir()}
    for pin in pins:
        pin.write_text("SHA256:" + "A" * 43 + "\n")
    away = ("--host", site.head(node), "--port", site.port)
    refused = site.on(node, "mgpu_queue", *away, check=False)
    for pin, right in pins.items():
        pin.write_text(right)
    assert (refused.returncode, "shows another certificate than the one trusted here" in refused.stderr) == (69, True)
    plain = site.on(node, "mgpu_queue", "--master", f"http://{site.head(node)}:{site.port}", check=False)
    assert (plain.returncode, "a token goes over TLS alone" in plain.stderr) == (2, True)
    assert "ssh-ed25519" in "".join(path.read_text() for path in site.state_dir.glob("known_hosts*"))


@row("time limits for every network operation")
def test_a_master_that_says_nothing(site: Site) -> None:
    node = site.lab.nodes[1]
    node.fault("link", "drop")
    env = {"MGPU_TOKEN": "mgpu_00000000_" + "0" * 64, "MGPU_CONNECTION_TIMEOUT": "1"}
    try:
        done = site.run("mgpu_client", "--host", node.address, "--port", 8080, "queue", env=env)
    finally:
        node.fault("link", "ok")
    assert (done.code, "timed out" in done.err) == (69, True)


@row("dashboard, web management")
def test_the_monitor(site: Site) -> None:
    told = site.ok("mgpu", "top", "--help")
    assert "--web" in told
    assert site.run("mgpu", "top").code == 2  # it says that it needs a terminal


@row("JSON messages over a socket")
def test_the_wire(site: Site) -> None:
    assert json.loads(site.ok("mgpu_queue", "--json"))["jobs"] == []
    assert json.loads(site.run("mgpu", "--json", "show", "job", 999_999).told[-1])["error"]["code"] == "not_found"


@row("same rack or switch first", "plug-in schedulers")
def test_configured(tmp_path: Path, mgpu: Any) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "nodes:\n  - {node_id: a, switch: rack1}\n  - {node_id: b, switch: rack1}\n"
        "scheduling: {default_policy: 'tests.compat.test_promises:emptiest'}\n"
    )
    path.chmod(0o644)
    assert mgpu("config", "check", str(path)).status == 0
    path.write_text(path.read_text().replace(":emptiest", ":missing"))
    ran = mgpu("config", "check", str(path))
    assert ran.status == 1 and "missing" in ran.out


def emptiest(*_: Any) -> Any:
    """A policy of somebody's own."""


@row("auto-scaling", "Kubernetes backend", "Slurm backend")
@pytest.mark.parametrize("word", ["auto-scaling", "Kubernetes", "Slurm backend"])
def test_not_offered_is_said_plainly(site: Site, word: str) -> None:
    """And what is named instead is there."""
    [line] = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{word}")]
    assert "**not offered**" in line
    assert site.ok("mgpu", "squeue").startswith("JOBID")
    assert site.ok("mgpu", "node", "add", "--help").startswith("Usage: ")


def test_a_window_of_maintenance_is_read(tmp_path: Path, mgpu: Any) -> None:
    path = tmp_path / "c.yaml"
    soon = datetime.now().astimezone() + timedelta(hours=1)
    path.write_text(f"nodes: [{{node_id: a}}]\nmaintenance: [{{from: {soon:%Y-%m-%d %H:%M}, to: 2099-01-01 00:00}}]\n")
    path.chmod(0o644)
    assert mgpu("config", "check", str(path)).status == 0
