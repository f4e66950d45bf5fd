"""Nodes in figures."""

from __future__ import annotations

from collections.abc import Callable

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
