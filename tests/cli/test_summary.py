"""Nodes in figures."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.test_tables import NODES
from tests.client.peer import Peer


def test_nodes_in_figures(peer: Peer, mgpu: Callable) -> None:
    drained = {**NODES[0], "node_id": "gpu03", "state": "DRAINED", "barred": "NodeDrained", "reason": "drained by root"}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [*NODES, drained]}
    assert mgpu("nodes", "-s").out == (
        "NODE     STATE    GPUS  FREE  JOBS  OTHERS  NOT USABLE  GPU TYPE  REASON\n"
        "gpu01    UP          4     1     1       1           1  A100\n"
        "gpu02    DOWN        0     0     0       0           0            "
        "node is down: host key unknown: mgpu node trust gpu02\n"
        "gpu03    DRAINED     4     0     1       1           2  A100      drained by root\n"
        "3 nodes              8     1     2       2           3\n"
    )
    peer.answers["GET", "/v1/nodes"] = {"nodes": []}
    assert mgpu("nodes", "-s").out.endswith("0 nodes\n")


def test_nodes_by_name(peer: Peer, mgpu: Callable) -> None:
    nodes = [{"node_id": name, "state": "UP", "gpus": []} for name in ("gpu01", "gpu02")]
    peer.answers["GET", "/v1/nodes"] = {"nodes": nodes}
    ran = mgpu("nodes", "gpu02", "gpu[05-07]")
    assert (ran.status, ran.out) == (1, "gpu02  UP  no GPUs seen  never seen\n")
    assert ran.err == "mgpu: there is no node 'gpu[05-07]': mgpu nodes lists them\n"
    assert json.loads(mgpu("nodes", "--json", "gpu[01-01]").out) == {"nodes": nodes[:1]}
    assert mgpu("nodes", "gpu[").status == 2


def test_who_is_there_fits_a_common_terminal(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "memory_total_mib": 81920, "memory_used_mib": 512}
    gpu |= {"utilization": 90, "state": "external", "reason": "external (alice, pid 4242, python, 4 GiB)"}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{"node_id": "gpu01", "state": "UP", "gpus": [gpu]}]}
    assert "0  NVIDIA A100-SXM4-80GB    0.5/80.0   90%  external  alice, pid 4242, python, 4 GiB" in mgpu("nodes").out
    monkeypatch.setenv("COLUMNS", "80")
    assert "0  A100-SXM4-80GB    0.5/80.0   90%  external  alice, pid 4242, python, 4 G…" in mgpu("nodes").out
