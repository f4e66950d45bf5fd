"""Files of the older system load; what has changed is said once, with what stands for it now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mgpu.config.load import load
from tests.compat.rows import row

FILE = """\
cluster:
  name: "gpu-cluster"
  master:
    host: "master.example.com"
    port: 8080

nodes:
  - node_id: "node001"
    hostname: "gpu001.example.com"
    ip: "192.168.1.10"
    port: 8081
    gpu_count: 8
    gpu_type: "A100"
    status: online
    last_heartbeat: 0

  - node_id: "node002"
    hostname: "gpu002.example.com"
    ip: "192.168.1.11"
    port: 8081
    gpu_count: 8
    gpu_type: "A100"

networking:
  heartbeat_interval: 30
  timeout: 60

scheduling:
  default_policy: "fill_first"  # fill_first, spread, custom
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster_config.yaml"
    path.write_text(FILE)
    path.chmod(0o644)
    return path


def checked(mgpu: Any, file: Path, old: str = "", new: str = "") -> Any:
    """What `mgpu config check` says of it."""
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    return mgpu("config", "check", str(file))


@row(
    "cluster.name",
    "cluster.master.host, cluster.master.port",
    "nodes: node_id, hostname, ip, gpu_count, gpu_type",
    "nodes: port: 8081",
    "node.status, node.last_heartbeat",
    "networking.heartbeat_interval: 30",
    "networking.timeout: 60",
)
def test_the_file_of_the_design(file: Path, mgpu: Any) -> None:
    ran = checked(mgpu, file)
    assert (ran.status, ran.out) == (0, f"{file}: ok, 2 nodes\n")
    warned = ran.err.splitlines()
    assert len(warned) == 4
    for key in ("cluster.master", "nodes.0.port 8081 (and 1 more)", "nodes.0.status", "nodes.0.last_heartbeat"):
        assert any(f"{key} " in line and "is ignored: " in line for line in warned), (key, warned)
    config = load(file)
    assert (config.cluster_name, config.heartbeat_interval_s, config.timeout_s) == ("gpu-cluster", 30.0, 60.0)
    node = config.nodes[0]
    assert (node.name, node.ssh.host, node.ssh.name) == ("node001", "192.168.1.10", "gpu001.example.com")
    assert (node.facts.gpu_type, config.nodes[1].name) == ("A100", "node002")


@row("scheduling.default_policy: fill_first, spread", "scheduling.default_policy: custom")
def test_policies(file: Path, mgpu: Any) -> None:
    assert checked(mgpu, file, '"fill_first"', '"spread"').status == 0
    custom = checked(mgpu, file, '"fill_first"', '"custom"')
    assert custom.status == 1
    assert "scheduling.default_policy" in custom.out and "package.module:function" in custom.out


@row("job.retry_count >= 5", "node.failure_count >= 3")
def test_what_was_fixed_in_the_code(file: Path, mgpu: Any) -> None:
    before = load(file)
    assert (before.retries_max, before.unhealthy_after) == (5, 3)
    more = "retries: {max: 7, backoff: 1s, backoff_max: 2m}\nhealth: {unhealthy_after: 4}\nnetworking:"
    assert checked(mgpu, file, "networking:", more).status == 0
    after = load(file)
    assert (after.retries_max, after.backoff_s, after.backoff_max_s, after.unhealthy_after) == (7, 1.0, 120.0, 4)


@row("configuration management")
def test_faults_have_a_place(file: Path, mgpu: Any) -> None:
    ran = checked(mgpu, file, 'gpu_count: 8\n    gpu_type: "A100"\n    status', "gpu_cuont: 8\n    status")
    assert ran.status == 1
    assert ran.out.startswith(f"{file}:12:5: nodes.0.gpu_cuont: unknown key 'gpu_cuont' - did you mean 'gpu_count'?")
    assert json.loads(mgpu("--json", "config", "check", str(file)).out)["ok"] is False
