"""The older names, and the defaults that went with them."""

from __future__ import annotations

import pytest

from mgpu.cli.older.defaults import with_defaults
from mgpu.cli.older.node import mgpu_node
from mgpu.cli.session import Session
from mgpu.client.http import MasterError
from mgpu.endpoint import boot_id
from tests.client.tcp_peer import TcpPeer

ALL = ["--session-timeout=7200", "--connection-timeout=30", "--max-wait-time=300", "--max-consecutive-timeouts=30"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["srun", "-G", "1", "python"], ["srun", *ALL, "-G", "1", "python"]),
        (["submit", "--interactive", "x"], ["submit", *ALL, "--interactive", "x"]),
        (["--config", "submit", "--json", "sbatch", "x"], ["--config", "submit", "--json", "sbatch", *ALL, "x"]),
        (["--host", "head", "--port", "80", "srun", "x"], ["--host", "head", "--port", "80", "srun", *ALL, "x"]),
        (["queue"], ["queue"]),
        (["cancel", "srun"], ["cancel", "srun"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_where_they_hold(typed: list[str], meant: list[str]) -> None:
    assert with_defaults(typed, {}, {}) == meant


def test_what_the_user_says_elsewhere_counts_more() -> None:
    variables = {"MGPU_SESSION_TIMEOUT": "60"}
    assert with_defaults(["srun", "x"], variables, {"max_wait_time": "1"}) == ["srun", ALL[1], ALL[3], "x"]


@pytest.mark.parametrize(("boot", "registered"), [("another", 0), (boot_id(), 1)])
def test_behind_a_forwarded_port_is_another_machine(
    monkeypatch: pytest.MonkeyPatch, boot: str, registered: int
) -> None:
    """What listens here is an ssh that leads away: the machine there would become the node."""
    monkeypatch.setenv("MGPU_TOKEN", "mgpu_00000000_" + "5" * 64)
    with TcpPeer() as peer:
        peer.answers["GET", "/v1/status"] = {"pid": 1, "instance": "1", "boot_id": boot}
        peer.answers["POST", "/v1/nodes"] = {"warnings": [], "reloading": False, "file": "added.yaml"}
        peer.answers["POST", "/v1/nodes/n1/probe"] = {"node_id": "n1", "gpus": [], "connection": "local"}
        session = Session(master_host="127.0.0.1", master_port=str(peer.port))
        given = dict.fromkeys(option.key for option in mgpu_node.options)
        try:
            mgpu_node.run(session, {**given, "node_id": "n1"})
        except MasterError as error:
            assert "runs on another machine" in error.message
        finally:
            session.location().endpoint.dialer.close()  # type: ignore[union-attr]
        assert len(peer.bodies("POST", "/v1/nodes")) == registered
