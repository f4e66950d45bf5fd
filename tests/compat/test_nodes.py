"""mgpu_node: a machine puts itself into the inventory, and the master says whether it gets in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.compat.rows import row
from tests.compat.site import Site
from tests.end_to_end.cluster import until
from tests.lab import Lab


@pytest.fixture
def fresh(old_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Without any node."""
    name = tmp_path_factory.mktemp("site").name
    with closing(Site(old_lab, name)) as made:
        made.begin()
        yield made


@row(
    "mgpu_node --node-id N --master-host H --master-port P",
    "mgpu_node --gpu-count G",
    "mgpu_node --verbose",
    "Node node001 connected from 192.168.1.101:8081",
    "Registration successful",
    "Connected to master server",
)
def test_a_machine_comes_in_and_is_confirmed(fresh: Site) -> None:
    node = fresh.lab.nodes[0]
    fresh.pass_for(node)
    added = fresh.folder / "inventory/added.yaml"
    done = fresh.register(node, "--verbose")
    assert done.stdout.splitlines() == [
        f"This machine: {node.address} (the way to the master); 2 GPUs",
        *(f"  GPU {index}: NVIDIA A100-SXM4-80GB (81920 MiB)" for index in range(2)),
        f"Registered as node001 in {added}: no agent runs here, the master logs in here by SSH",
        "The master sees node001: 2 GPUs: 2 free",
    ]
    assert f"an address of this machine: {node.address} (the way to the master)" in done.stderr
    assert "its host key, seen by the master, is the one that lies here: trusted from now on" in done.stderr
    assert "node001: node add by root: node001 ip=" in fresh.log()
    assert "node001: node UP: 2 GPUs: 0 NVIDIA A100-SXM4-80GB (81920 MiB), 1 " in fresh.log()
    assert fresh.ok("mgpu_srun", "-Q", "--nodelist=node001", "--", "hostname") == "node001\n"
    again = fresh.register(node)
    assert "The master sees node001: 2 GPUs: 2 free" in again.stdout
    assert fresh.log().count("reload by") == 1  # what stands there already is not written again
    assert fresh.register(node, "--gpu-count", 1).stdout.endswith("The master sees node001: 1 GPU: 1 free\n")
    assert added.read_text().count("node_id") == 1


def test_several_at_once(fresh: Site) -> None:
    """Each has the master's successor take over, and rides out that of the others."""
    for node in fresh.lab.nodes:
        fresh.pass_for(node)
    with ThreadPoolExecutor() as pool:
        said = [done.stdout for done in pool.map(fresh.register, fresh.lab.nodes)]
    assert said[0].endswith("The master sees node001: 2 GPUs: 2 free\n")
    assert said[1].endswith("The master sees node002: 4 GPUs: 4 free\n")


def test_a_node_is_added_from_another_machine(fresh: Site, tmp_path: Path) -> None:
    """By `mgpu node add`, with a token: the master writes it down."""
    url = f"https://127.0.0.1:{fresh.port}"
    away = {"HOME": str(tmp_path), "MGPU_TOKEN": fresh.ok("mgpu", "token", "create").strip()}
    fresh.ok("mgpu", "token", "trust", url, "--fingerprint", fresh.ok("mgpu", "token", "fingerprint").strip(), env=away)
    words = ["--master", url, "node", "add", "node007", "--ip", "10.0.0.7", "--gpu-count", 2]
    added = fresh.folder / "inventory/added.yaml"
    said = f"node007 stands in {added} on 127.0.0.1; next: mgpu node trust node007; mgpu nodes\n"
    assert fresh.ok("mgpu", *words, env=away) == said
    until("it is a node", lambda: "node007" in fresh.run("mgpu", "nodes").out)
    again = fresh.run("mgpu", *words, env=away)
    assert (again.code, "there is already a node node007" in again.err) == (2, True)
    entries = json.loads(fresh.ok("mgpu", "--json", "audit"))["audit"]
    assert [each["origin"] for each in entries if each["action"] == "node add"] == ["tcp 127.0.0.1"]


@row("mgpu_node --port P", "Simple Node Agent node001 started on 0.0.0.0:8081")
def test_nothing_stays_behind(site: Site) -> None:
    node = site.lab.nodes[0]
    done = site.register(node, "--port", 8081, "--host", "0.0.0.0")
    assert "--port was that of the former agent: it means nothing now" in done.stderr
    assert "mgpu_node" not in node.run("ps -eo args", user="root").stdout


def test_who_is_no_admin_registers_nothing(fresh: Site) -> None:
    node = fresh.lab.nodes[1]
    fresh.pass_for(node)
    fresh.token_of(node).write_text("mgpu_00000000_" + "0" * 64 + "\n")
    done = fresh.register(node, check=False)
    assert done.returncode == 77
    assert "node_id" not in (fresh.folder / "inventory/added.yaml").read_text()


@row("Registration failed", "mgpu_node --host ADDR")
def test_why_the_master_cannot_get_in(fresh: Site) -> None:
    node = fresh.lab.nodes[0]
    fresh.pass_for(node)
    keys = node.homes / node.user / ".ssh/authorized_keys"
    text = keys.read_text()
    keys.write_text("")
    done = fresh.register(node, check=False)
    keys.write_text(text)
    assert done.returncode == 1
    assert "mgpu: the master cannot get in: " in done.stderr
    assert "put the master's public key into ~/.ssh/authorized_keys here" in done.stderr
    assert "mgpu doctor node001" in done.stderr
    nowhere = fresh.register(node, "--host", node.address, "--ssh-port", 2222, check=False)
    assert nowhere.returncode == 1
    assert "refused: is sshd running there? start the sshd here, or --ssh-port gives its port" in nowhere.stderr


def test_another_machine_that_answers_is_not_trusted(fresh: Site) -> None:
    node, other = fresh.lab.nodes
    fresh.pass_for(node)
    foreign = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFlQ other"
    node.run(["sh", "-c", 'printf %s "$1" >/etc/ssh/ssh_host_ed25519_key.pub', "sh", foreign], user="root")
    node.run("rm -f /etc/ssh/ssh_host_rsa_key.pub /etc/ssh/ssh_host_ecdsa_key.pub", user="root")
    done = fresh.register(node, "--host", other.address, check=False)
    assert done.returncode == 77
    assert f"another machine answers the master at {other.address}" in done.stderr
    shown = json.loads(fresh.ok("mgpu", "nodes", "--json"))["nodes"]
    assert [each["state"] for each in shown] != ["UP"]


@row("mgpu_node --node-id N", "no configuration file", "single-node commands keep working")
def test_the_masters_own_machine(old_lab: Lab) -> None:
    """Without any configuration: one is begun."""
    with closing(Site(old_lab, "alone", "")) as site:
        site.begin()
        assert "mgpu --master https://" in site.log()
        assert site.ok("mgpu_srun", "-Q", "--gpus", 0, "--", "echo", "alone") == "alone\n"
        said = site.ok("mgpu_node", "--node-id", "node001")
        named = site.ok("mgpu_node", "--node-id", "node001", "--master-host", "127.0.0.1", "--master-port", site.port)
        assert named == said
        assert "This machine: the master's own, without SSH" in said
        assert "the master starts its jobs here itself" in said
        assert site.ok("mgpu_srun", "-Q", "--gpus", 0, "--nodelist", "node001", "--", "echo", "on") == "on\n"
        assert "inventory: inventory/" in (site.folder / "cluster_config.yaml").read_text()
        added = site.folder / "inventory/added.yaml"
        assert 'node001, connection: "local"' in added.read_text()
        assert site.ok("mgpu", "node", "remove", "node001").startswith("node001 is gone")
        assert "node_id" not in added.read_text()
