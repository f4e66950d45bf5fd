"""The classes of the older package, in a program of their own as they stood in its README."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mgpu
from tests.api.elsewhere import free_port
from tests.compat.rows import PAGE, row
from tests.compat.site import Site
from tests.end_to_end.cluster import until
from tests.lab import Lab


def program(site: Site, text: str) -> Any:
    """What it prints last, as JSON."""
    lines = ["import json", "from mgpu import SimpleClient, SimpleNode, NodeManager, NodeInfo"]
    argv = [sys.executable, "-c", "\n".join([*lines, text])]
    ran = subprocess.run(argv, env=site.environ, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@row("SimpleClient('localhost', 8080).submit_job(gpus=2, cmd='python train.py')")
def test_client(site: Site) -> None:
    text = (
        f"client = SimpleClient('localhost', {site.port}); print(json.dumps(client.submit_job(gpus=2, cmd='exit 3')))"
    )
    answer = program(site, text)
    assert (answer["status"], site.await_job(answer["job_id"])["exit_code"]) == ("ok", 3)


@row("SimpleNode('node1', 'localhost', 8080, 8081).start_agent()", "NodeManager, NodeInfo")
def test_node(old_lab: Lab, tmp_path: Path) -> None:
    with closing(Site(old_lab, tmp_path.name, "")) as site:
        site.begin()
        text = f"node = SimpleNode('node1', 'localhost', {site.port}, 8081).start_agent()"
        assert program(site, f"{text}; print(json.dumps(node.as_row()))")["node_id"] == "node1"
        lines = [
            f"manager = NodeManager('localhost', {site.port})",
            "manager.add_node('node1', 8081, host='127.0.0.1')",
            "print(json.dumps([node.node_id for node in manager.start_all()] + [manager.test_connection('node1')]))",
        ]
        assert program(site, "\n".join(lines)) == ["node1", True]
        text = f"known = NodeManager('localhost', {site.port}).nodes()"
        assert program(site, f"{text}; print(json.dumps([node.status for node in known.values()]))") == ["online"]


@row("SimpleMaster('0.0.0.0', 8080).start_server()")
def test_master(old_lab: Lab, tmp_path: Path) -> None:
    with closing(Site(old_lab, tmp_path.name, "")) as site:
        text = f"from mgpu import SimpleMaster; SimpleMaster('127.0.0.1', {free_port()}).start_server()"
        master = subprocess.Popen([sys.executable, "-c", text], env=site.environ, cwd="/", stderr=subprocess.DEVNULL)
        try:
            until("it serves", (site.state_dir / "mgpu.sock").exists)
            assert site.ok("mgpu_client", "submit", "--gpus", 0, "--interactive", "-Q", "echo on") == "on\n"
            site.ok("mgpu", "stop")
            assert master.wait(30) == 0
        finally:
            master.kill()
            master.wait()


INSIDE = (
    "SimpleJob, JobProcess, MessageType, NetworkManager, GPUManager, IPManager, TimeoutConfig, JobScheduler, "
    "MasterServer, JobClient, NodeAgent"
)


@row(INSIDE)
@pytest.mark.parametrize("name", INSIDE.split(", "))
def test_what_is_not_there_is_said(name: str) -> None:
    assert not hasattr(mgpu, name)
    assert any(name in line and "**not offered**" in line for line in PAGE.read_text("utf-8").splitlines())
