"""mgpu doctor where the inventory, or what we log in with, is wrong."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.config.load import load
from mgpu.config.sshconfig import SshTarget
from mgpu.doctor.case import Case
from mgpu.doctor.walk import WALK, examine
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.diagnosis import Findings, by_check, encrypted, examined, rest, sole, troubles


@pytest.fixture
def configured(sick: Cluster, tmp_path: Path) -> Callable[..., Findings]:
    """What is found with another inventory: node001 alone, with these settings."""

    def look(settings: str, ssh: str = "{}", **kwargs: Any) -> Findings:
        node = sick.lab.node("node001")
        path = tmp_path / "other.yaml"
        address = f"ip: {node.address}, " if "hostname" not in settings and "ip:" not in settings else ""
        text = f"nodes:\n  - {{node_id: node001, {address}{settings}, ssh: {ssh}}}\n"
        head = sick.config_path.read_text().partition("nodes:\n")[0]
        path.write_text(head + text)
        return examined(sick, env={"MGPU_CONFIG": str(path), **kwargs.get("env", {})})

    return look


def test_the_inventory_is_wrong(sick: Cluster, configured: Callable[..., Findings]) -> None:
    found = configured("hostname: no-such-host.invalid, gpu_count: 4")
    said, hint = sole(found, "name")
    assert said.startswith("no-such-host.invalid has no address: ")
    assert "getent hosts no-such-host.invalid" in hint
    rest(found, "name")
    found = configured("gpu_count: 4", ssh="{port: 8081}")
    said, hint = sole(found, "tcp")
    assert said.endswith(" port 8081 refuses: nothing listens there")
    assert "ssh: {port: N}" in hint
    found = configured("gpu_count: 4", ssh="{user: nobody-here}")
    assert "is nobody-here the account there?" in sole(found, "login")[1]
    said, hint = sole(configured("gpu_count: 2"), "gpus", "warning")
    assert (said, hint) == ("4 seen, the inventory says 2: all are used", "gpu_count: 4")
    said, hint = sole(configured("devices: [0, 7]"), "gpus")
    assert said.startswith("the inventory's devices 7 are not there, 4 GPUs are seen")
    assert "`devices:`" in hint
    assert sole(configured("gpu_count: 4, workdir: /no/such"), "workdir")[0].startswith("/no/such: ")
    said, hint = sole(configured("nvidia_smi: /opt/smi"), "nvidia-smi")
    assert said.startswith("/opt/smi is not there") and "nvidia_smi" in hint


def test_perhaps_there_are_no_gpus(sick: Cluster, configured: Callable[..., Findings]) -> None:
    node = sick.lab.node("node001")
    node.fault("gpu", "missing")
    try:
        said, hint = sole(configured("partition: all"), "nvidia-smi", "warning")
        assert said == "nvidia-smi not found"
        assert "(not in PATH=/" in hint and hint.endswith("gpu_count: 0 if it has no GPUs")
        found = configured("gpu_count: 0")
        assert troubles(found) == []
    finally:
        node.fault("gpu", "ok")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "who answers is no sshd, it says: HTTP/1.1 400 Bad Request"),
        (b"Exceeded MaxStartups\r\n", "sshd turns logins away: Exceeded MaxStartups"),
        (b"", "the connection is closed without a word"),
    ],
)
def test_who_answers_is_no_sshd(configured: Callable[..., Findings], said: bytes, text: str) -> None:
    def answer(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                with listener.accept()[0] as connection:
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        found = configured("ip: 127.0.0.1, gpu_count: 4", ssh=f"{{port: {listener.getsockname()[1]}}}")
        listener.shutdown(socket.SHUT_RDWR)
    assert sole(found, "banner")[0] == text
    rest(found, "banner")


def test_host_keys(sick: Cluster, configured: Callable[..., Findings], tmp_path: Path) -> None:
    first, second = (f"{node.address} " for node in sick.lab.nodes)
    none, swapped = tmp_path / "none", tmp_path / "swapped"
    none.write_text("")
    lines = dict(line.split(" ", 1) for line in sick.lab.known_hosts.read_text().splitlines())
    swapped.write_text(f"{first}{lines[second.strip()]}\n")
    said, hint = sole(configured("gpu_count: 4", ssh=f"{{known_hosts: {none}}}"), "host key")
    assert said.startswith(f"host key unknown: {first}shows ssh-ed25519 SHA256:")
    assert hint.startswith("mgpu node trust node001")
    found = configured("gpu_count: 4", ssh=f"{{known_hosts: {swapped}}}")
    said, hint = sole(found, "host key")
    assert said.startswith(f"host key changed: {first}shows ssh-ed25519 SHA256:")
    assert said.count("SHA256:") == 2
    assert f" -f {swapped} && mgpu node trust node001" in hint
    assert "ssh-keygen -R " in hint
    rest(found, "host key")


def test_behind_a_jump_host(sick: Cluster, configured: Callable[..., Findings]) -> None:
    """The walk is about the jump host up to its banner, then about both."""
    one, two = sick.lab.nodes
    # the account's own ssh does not know the lab's hosts
    found = configured("gpu_count: 4", ssh=f"{{proxy_jump: train@{two.address}}}")
    assert found["name"]["text"] == f"{two.address} is an address (jump host)"
    assert found["banner"]["text"].endswith(" (jump host)")
    said, hint = sole(found, "host key")
    assert f"host key unknown: {two.address} shows" in said
    assert hint == f"ssh {two.address}, once, shows it and asks"

    hop = SshTarget(two.address, 22, "train", (sick.lab.key,), True, (sick.lab.known_hosts,))
    node = next(node for node in load(sick.config_path).nodes if node.name == "node001")

    def walked(target: SshTarget) -> Findings:
        case = Case(node, load(sick.config_path), Path("/nonexistent"), target=target)
        return by_check([finding.as_json() for finding in examine(case, WALK[1:])])

    found = walked(replace(hop, host=one.address, hops=(hop,)))
    assert troubles(found) == [], found
    assert found["host key"]["text"].count("SHA256:") == 2
    found = walked(replace(hop, host=one.address, port=8081, hops=(hop,)))
    said, hint = sole(found, "login")
    assert said.startswith(f"the jump host has no way to {one.address} port 8081: ")
    assert "AllowTcpForwarding" in hint


def test_an_encrypted_key(sick: Cluster, configured: Callable[..., Findings], agent: str, tmp_path: Path) -> None:
    key = encrypted(sick.lab, tmp_path)
    ssh = f"{{identity_file: {key}}}"
    found = configured("gpu_count: 4", ssh=ssh)
    said, hint = sole(found, "keys")
    assert f"no agent ($SSH_AUTH_SOCK is not set); {key} is encrypted and no agent holds it" in said
    assert f"ssh-add {key}" in hint
    rest(found, "keys")
    # an agent that does not hold it, one that is gone
    assert "agent with 0 keys" in sole(configured("gpu_count: 4", ssh=ssh, env={"SSH_AUTH_SOCK": agent}), "keys")[0]
    gone = {"SSH_AUTH_SOCK": str(tmp_path / "gone")}
    assert "gone does not answer" in sole(configured("gpu_count: 4", ssh=ssh, env=gone), "keys")[0]


def test_no_key_at_all(configured: Callable[..., Findings], tmp_path: Path) -> None:
    key = tmp_path / "id_torn"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    said, hint = sole(configured("gpu_count: 4", ssh=f"{{identity_file: {key}}}"), "keys")
    assert said.startswith(f"none; no agent ($SSH_AUTH_SOCK is not set); cannot be read: {key}: ")
    assert f"looked for: {key}" in hint


def test_a_broken_configuration(sick: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("nodes:\n  - {node_id: a, gpu_cuont: 4}\n  - {node_id: b, sshh: {}}\n")
    env = {"MGPU_CONFIG": str(path)}
    result = sick("doctor", env=env, check=False)
    assert result.code == 1
    assert [line for line in result.lines if "failure  config" in line and "gpu_cuont" in line]
    assert result.lines[-1] == "0 nodes: 0 ok, 2 failures"
    assert sick.json("doctor", env=env, check=False)["nodes"] == []
    assert sick("doctor", "a", env=env, check=False).code == 2
