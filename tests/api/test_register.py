"""POST /v1/nodes: a node stands in the inventory and comes into force, or nothing has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.config.load import load
from mgpu.config.model import Config
from mgpu.core.errors import NotAllowed
from mgpu.ops import register
from mgpu.ops.context import Caller
from mgpu.store.audits import AuditFilter
from tests.api.conftest import Served


@pytest.fixture
def folder(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that is there, in force."""
    place = tmp_path / "c"
    (place / "inventory").mkdir(parents=True, mode=0o755)
    place.chmod(0o755)
    (place / "cluster_config.yaml").write_text("inventory: inventory/\n")
    (place / "inventory/n.yaml").write_text("nodes: [{node_id: gpu01, hostname: gpu01.lab}]\n")
    for path in (place, *place.rglob("*")):
        path.chmod(path.stat().st_mode & 0o755)
    use(served, load(place / "cluster_config.yaml"))
    return place


def use(served: Served, config: Config, own_config: Path | None = None) -> None:
    taken: list[Config] = []
    served.desk.reload = taken.append
    served.desk.taken = taken
    served.config = config
    served.endpoint = served.endpoint._replace(config=str(config.path or ""))
    served.restart(config=config, own_config=own_config)


def test_it_stands_in_the_inventory_and_comes_into_force(served: Served, folder: Path) -> None:
    body = {"node_id": "gpu02", "ip": "10.0.0.2", "gpu_count": 4, "devices": [0, 1], "user": "train", "port": 2222}
    status, answer = served.ask("POST", "/v1/nodes", body)
    added = folder / "inventory/added.yaml"
    assert (status, answer["added"], answer["file"], answer["reloading"]) == (200, ["gpu02"], str(added), True)
    line = '  - {node_id: gpu02, ip: "10.0.0.2", gpu_count: 4, devices: [0, 1], ssh: {user: "train", port: 2222}}\n'
    assert added.read_text().endswith(line)
    [config] = served.desk.taken
    assert [str(node.name) for node in config.nodes] == ["gpu02", "gpu01"]
    with served.store.read() as r:
        told = [(entry.what, entry.node) for entry in r.audited(AuditFilter())][-2:]
    assert told == [("reload", None), ("node add", "gpu02")]


def test_once_more_is_no_change_and_another_address_is_one(served: Served, folder: Path) -> None:
    body: dict[str, Any] = {"node_id": "gpu02", "ip": "10.0.0.2", "instead": True}
    assert served.ask("POST", "/v1/nodes", body)[1]["reloading"]
    assert not served.ask("POST", "/v1/nodes", body)[1]["reloading"]
    assert served.ask("POST", "/v1/nodes", {**body, "ip": "10.0.0.3"})[1]["reloading"]
    text = (folder / "inventory/added.yaml").read_text()
    assert text.count("gpu02") == 1 and "10.0.0.3" in text
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02", "ip": "10.0.0.4"})
    assert (status, answer["error"]["message"]) == (400, "there is already a node gpu02")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "node_id is missing"),
        ({"node_id": "gpu01"}, "there is already a node gpu01"),
        ({"node_id": "gpu01", "instead": True}, "there is already a node gpu01"),  # it stands in another's file
        ({"node_id": "g2", "ip": "gpu.example.org"}, "--ip 'gpu.example.org' is no IP address"),
        ({"node_id": "g2", "setup": "curl evil | sh"}, "the key 'setup' is not known to this master"),
        ({"node_id": "g2", "gpu_count": "4"}, "gpu_count must be a whole number"),
        ({"node_id": "g2", "gpu_count": True}, "gpu_count must be a whole number"),
        ({"node_id": "g2", "port": 70000}, "--port "),
        ({"node_id": "g2", "devices": []}, "devices must be a list of GPU indices"),
        ({"node_id": "g2", "devices": [-1]}, "devices must be a list of GPU indices"),
        ({"node_id": "g2", "hostname": "a\nb"}, "must not hold control characters"),
        ({"node_id": "g2", "hostname": "\udcff"}, "'hostname' is not a valid text"),
        ({"node_id": "g2}, {node_id: g3"}, "NODE "),
        ({"node_id": "g2", "hostname": "x, setup: id"}, "--hostname "),
        ({"node_id": "g2", "connection": "telnet"}, "--connection "),
        ({"node_id": "g2", "user": "-oProxyCommand=id"}, "--user "),
        ({"node_id": "g2", "hostname": "-oProxyCommand=id"}, "--hostname "),
    ],
)
def test_what_is_refused_changes_nothing(served: Served, folder: Path, body: dict[str, Any], why: str) -> None:
    status, answer = served.ask("POST", "/v1/nodes", body)
    assert status == 400, answer
    assert why in answer["error"]["message"]
    assert not (folder / "inventory/added.yaml").exists()
    assert served.desk.taken == []


def test_a_reload_that_is_refused_takes_the_line_back(served: Served, folder: Path) -> None:
    (folder / "cluster_config.yaml").write_text("inventory: inventory/\nmaster: {state_dir: /var/tmp/elsewhere}\n")
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02"})
    assert (status, answer["error"]["message"]) == (409, "master.state_dir has changed")
    assert not (folder / "inventory/added.yaml").exists()


def test_only_operators(served: Served, folder: Path) -> None:
    with pytest.raises(NotAllowed, match="may not register nodes"):
        register.register(served.context, Caller(12345, "eve", "tcp 10.0.0.9"), {"node_id": "gpu02"})
    assert not (folder / "inventory/added.yaml").exists()


def test_an_admin_does_not_come_to_the_masters_own_account_by_a_node(served: Served, folder: Path) -> None:
    admin, body = Caller(12345, "ann", "tcp 10.0.0.9"), {"node_id": "head", "connection": "local"}
    context = replace(served.context, config=replace(served.config, admins=("ann",)))
    with pytest.raises(NotAllowed, match="may not make the master's own machine a node"):
        register.register(context, admin, body)
    key = {"node_id": "gpu02", "identity_file": "~/.ssh/id_ed25519"}
    with pytest.raises(NotAllowed, match="may not say which of the master's key files"):
        register.register(context, admin, key)
    assert not (folder / "inventory/added.yaml").exists()
    to_each_their_own = replace(context, config=replace(context.config, run_as="submitter"))
    assert register.register(to_each_their_own, admin, body)["added"] == ["head"]


def test_where_the_nodes_stand_in_the_file_itself(served: Served, folder: Path) -> None:
    path = folder / "cluster_config.yaml"
    path.write_text("nodes: [{node_id: gpu01}]\n")
    use(served, load(path))
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02"})
    assert (status, answer["error"]["message"]) == (400, f"the nodes stand in {path} itself")


def test_a_first_configuration_is_begun(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "home" / "config" / "cluster_config.yaml"
    use(served, load(None), path)
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02", "ip": "nonsense"})
    assert status == 400
    assert not path.exists()
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02"})
    assert (status, answer["added"]) == (200, ["gpu02"])
    assert load(path) == replace(served.desk.taken[-1])
    use(served, load(None))
    assert "mgpu init" in served.ask("POST", "/v1/nodes", {"node_id": "gpu03"})[1]["error"]["hint"]


def test_where_the_master_may_not_write(served: Served, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    use(served, load(None), tmp_path / "file" / "config" / "cluster_config.yaml")
    status, answer = served.ask("POST", "/v1/nodes", {"node_id": "gpu02"})
    assert (status, answer["error"]["hint"]) == (400, "on its machine, who can: mgpu node add")
    assert answer["error"]["message"].startswith("the master cannot write ")
