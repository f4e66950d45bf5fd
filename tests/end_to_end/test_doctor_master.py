"""mgpu doctor and the master: who answers, and what works by hand but fails from there."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.end_to_end.diagnosis import Findings, by_check, encrypted, sole

pytestmark = pytest.mark.usefixtures("separate_nodes")


def to_master(cluster: Cluster, **kwargs: Any) -> Findings:
    return by_check(cluster.json("doctor", check=False, **kwargs)["master"])


def test_the_master(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    lab = make_lab(nodes=1)
    cluster = make_cluster(lab)
    found = to_master(cluster)
    assert list(found) == ["config", "state", "socket"]
    assert found["socket"]["status"] == "skipped"
    assert f"-m mgpu daemon --personal --config {cluster.config_path}" in found["socket"]["text"]

    cluster("nodes")
    answer = cluster.json("doctor")
    assert [finding["check"] for finding in answer["master"]] == ["config", "state", "socket", "same", "environment"]
    assert {finding["status"] for finding in answer["master"]} == {"ok"}
    assert answer["nodes"][0]["findings"][-1] == {
        "status": "ok", "check": "master", "text": "UP for the master, too", "hint": "",
    }  # fmt: skip
    text = cluster("doctor").lines
    assert text[0] == "master"
    assert text[-1] == "1 node: 24 ok"

    other = cluster.home / "other.yaml"
    other.write_text(cluster.config_path.read_text())
    said, hint = sole(to_master(cluster, env={"MGPU_CONFIG": str(other)}), "same")
    assert f"the master runs with the configuration {cluster.config_path}" in said
    assert "mgpu stop" in hint
    said, hint = sole(to_master(cluster, env={"HOME": "/"}), "environment", "warning")
    assert said == f"HOME of the master is {cluster.home}, here /"

    master = cluster.master_pid()
    os.kill(master, signal.SIGSTOP)
    try:
        said, hint = sole(to_master(cluster), "socket")
        assert "it does not answer" in said
        assert f"kill {master} ends it, jobs run on" in hint
    finally:
        os.kill(master, signal.SIGCONT)
    named = {"MGPU_MASTER": str(cluster.home / "nobody.sock")}
    assert "which --master or MGPU_MASTER names" in sole(to_master(cluster, env=named), "socket")[0]


def test_works_by_hand_fails_from_the_master(
    make_lab: LabMaker, make_cluster: ClusterMaker, agent: str, tmp_path: Path
) -> None:
    """Its key is in the agent of this shell; the master was started without one."""
    lab = make_lab(nodes=1)
    cluster = make_cluster(lab)
    key = encrypted(lab, tmp_path)
    text = cluster.config_path.read_text()
    cluster.config_path.write_text(text.replace(str(lab.key), str(key)))
    with_agent = {"SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", str(lab.key)], env={**os.environ, **with_agent}, check=True, capture_output=True)
    cluster("nodes")
    answer = cluster.json("doctor", check=False, env=with_agent)
    environment = answer["master"][-1]
    assert (environment["status"], environment["text"]) == (
        "warning", "this shell has an ssh-agent, the master has none",
    )  # fmt: skip
    found = by_check(answer["nodes"][0]["findings"])
    said, hint = sole(found, "master")
    assert said == f"{key} opened {lab.nodes[0].address} by your ssh-agent, and the master has no agent"
    assert hint.startswith("works by hand, fails from the master: mgpu stop")
    # and that advice is right
    cluster("stop")
    cluster("nodes", env=with_agent)
    assert cluster("doctor", env=with_agent).code == 0
