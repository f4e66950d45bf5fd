"""mgpu doctor against nodes in real trouble: each fault is found by the check that is meant for it, with what to do."""

from __future__ import annotations

import shutil

import pytest

from tests.end_to_end.cluster import Cluster
from tests.end_to_end.diagnosis import CHECKS, examined, rest, sole, troubles
from tests.lab.node import Node

SSHD = "sed -i 's/^MaxSessions .*/MaxSessions {}/' /etc/ssh/sshd_config"


def logins(node: Node) -> int:
    return node.run("cat /var/log/sshd.log", user="root").stdout.count("Accepted publickey")


def as_root(node: Node, line: str) -> None:
    node.run(line, user="root")


# --- a node that is well ----------------------------------------------------------------------------------------------


def test_a_healthy_node_costs_one_login(sick: Cluster) -> None:
    node = sick.lab.node("node001")
    before = logins(node)
    found = examined(sick)
    assert list(found) == CHECKS
    assert {finding["status"] for finding in found.values()} == {"ok"}, found
    assert logins(node) == before + 1
    assert found["name"]["text"] == f"{node.address} is an address"
    assert found["banner"]["text"].startswith("SSH-2.0-OpenSSH")
    assert found["keys"]["text"] == f"{sick.lab.key}; no agent ($SSH_AUTH_SOCK is not set)"
    assert found["sessions"]["text"] == "one connection takes at least 10"
    assert found["gpus"]["text"] == "4 x NVIDIA A100-SXM4-80GB, as the inventory says"
    assert node.run("ls -A /tmp /home/train").stdout.count("doctor") == 0
    text = sick("doctor", "node001").lines
    assert text[0] == "node001"
    assert text[1] == f"  ok       ssh          train@{node.address} port 22"
    assert text[-1] == "1 node: 18 ok"
    assert "\x1b" not in "".join(text)


def test_names_and_order(sick: Cluster) -> None:
    answer = sick.json("doctor", "node[001-002]")
    assert [node["node_id"] for node in answer["nodes"]] == ["node001", "node002"]
    assert "there is no node 'node9'" in sick.refused("doctor", "node9", code=1)


# --- a fault each, mended afterwards ----------------------------------------------------------------------------------

FAULTS = {
    "sshd is down": (("sshd", "stop"), ("sshd", "start"), "tcp", "refuses: nothing listens there", "start sshd there"),
    "sshd is frozen": (("sshd", "freeze"), ("sshd", "thaw"), "banner", "but sshd says nothing in", "sshd hangs"),
    "a link drops all": (("link", "drop"), ("link", "ok"), "tcp", "does not answer in 5 s", "firewall drops it"),
    "home is full": (("home", "full"), ("home", "ok"), "home", "No space left on device", "run_dir:"),
    "a GPU is lost": (("gpu", "lost", 1), ("gpu", "set", 1, "status=ok"), "gpus", "3 of 4 GPUs seen; GPU", "dmesg"),
    "a GPU is hidden": (("gpu", "hidden", 1), ("gpu", "set", 1, "status=ok"), "gpus", "3 of 4 GPUs seen", "gpu_count"),
    "it is prohibited": (
        ("gpu", "set", 0, "compute_mode=Prohibited"), ("gpu", "set", 0, "compute_mode=Default"),
        "gpus", "compute mode is Prohibited", "dmesg",
    ),
    "nvidia-smi hangs": (("gpu", "hang"), ("gpu", "ok"), "nvidia-smi", "hung and was killed", "reboot"),
    "the driver differs": (
        ("gpu", "fail", 18, "Driver/library version mismatch"), ("gpu", "ok"),
        "nvidia-smi", "library differ", "reboot the node",
    ),
    "no nvidia-smi": (("gpu", "missing"), ("gpu", "ok"), "nvidia-smi", "not found", "set nvidia_smi"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_check(sick: Cluster, fault: str) -> None:
    broken, mended, check, text, hint = FAULTS[fault]
    node = sick.lab.node("node001")
    node.fault(*broken)
    try:
        found = examined(sick)
        said, advice = sole(found, check)
        assert text in said
        assert hint in advice
        if check in ("tcp", "banner"):
            rest(found, check)
        if check == "nvidia-smi":
            assert found["gpus"]["status"] == "skipped"
    finally:
        node.fault(*mended)
        node.wait_for_sshd()


ODDITIES = {
    "tcsh": ("usermod -s /usr/bin/tcsh train", "usermod -s /bin/sh train", "", "", ""),
    "fish": ("usermod -s /usr/bin/fish train", "usermod -s /bin/sh train", "", "", ""),
    "a noisy login": (
        "usermod -s /bin/bash train; echo 'echo hello; echo more >&2' >/home/train/.bashrc",
        "usermod -s /bin/sh train; rm /home/train/.bashrc",
        "warning", "shell", "/bin/bash prints at login: hello",
    ),
    "a forced command": (
        """sed -i 's,^,command="/bin/echo no" ,' /home/train/.ssh/authorized_keys""",
        """sed -i 's,^command="/bin/echo no" ,,' /home/train/.ssh/authorized_keys""",
        "failure", "shell", "the account cannot run commands; it said: no",
    ),
    "no login shell": (
        "usermod -s /usr/sbin/nologin train", "usermod -s /bin/sh train",
        "failure", "shell", "it said: This account is currently not available.",
    ),
    "a key that is not authorized": (
        "cd /home/train/.ssh && mv authorized_keys moved", "cd /home/train/.ssh && mv moved authorized_keys",
        "failure", "login", "1 key offered, none accepted for train",
    ),
    "one session": (SSHD.format(1), SSHD.format(10), "warning", "sessions", "one connection takes 1 at once"),
    "no session": (SSHD.format(0), SSHD.format(10), "failure", "sessions", "opens no session"),
    "a closed /tmp": ("chmod 700 /tmp", "chmod 1777 /tmp", "failure", "locks", "Permission denied"),
    "no flock": (
        "mv /usr/bin/flock /usr/bin/moved", "mv /usr/bin/moved /usr/bin/flock", "failure", "tools", "missing: flock",
    ),
    "no tar": (
        "mv /usr/bin/tar /usr/bin/moved", "mv /usr/bin/moved /usr/bin/tar", "warning", "tools", "tar (for --ship)",
    ),
    "no script": (
        "mv /usr/bin/script /usr/bin/moved", "mv /usr/bin/moved /usr/bin/script",
        "warning", "tools", "util-linux's script (for --pty)",
    ),
    "logind ends what is left": (
        r"""printf '%s\n' '#!/bin/sh' "printf 'b true\nas 0\nas 1 \"root\"\n'" >/usr/local/bin/busctl
        chmod 755 /usr/local/bin/busctl""",
        "rm /usr/local/bin/busctl",
        "failure", "logind", "KillUserProcesses is on",
    ),
}  # fmt: skip


@pytest.mark.parametrize("oddity", ODDITIES)
def test_an_odd_account_or_machine(sick: Cluster, oddity: str) -> None:
    broken, mended, status, check, text = ODDITIES[oddity]
    node = sick.lab.node("node001")
    if oddity in ("tcsh", "fish") and not shutil.which(oddity):
        pytest.skip(f"no {oddity} here")
    as_root(node, broken)
    try:
        if "MaxSessions" in broken:
            node.fault("sshd", "restart")
        found = examined(sick)
        if not check:
            assert troubles(found) == []
            assert found["shell"]["text"].startswith(f"/usr/bin/{oddity} runs commands")
            return
        said, _ = sole(found, check, status)
        assert text in said
        if status == "failure" and check in ("login", "sessions", "shell", "tools"):
            rest(found, check)
    finally:
        as_root(node, mended)
        if "MaxSessions" in broken:
            node.fault("sshd", "restart")
