"""run_as: submitter, via sudo: the master becomes the users of a group on the nodes, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.end_to_end.cluster import until
from tests.end_to_end.office import Office, opened
from tests.end_to_end.test_shared import ANN, BOB
from tests.lab import Lab
from tests.lab.node import Node

RULES = "/etc/sudoers.d/mgpu"
# as docs/accounts.md has it, with what some sites set beside it
LINES = """\
Defaults:train !requiretty
train ALL=(%gpuusers, !root) NOPASSWD: /bin/sh
"""


def allow(node: Node, lines: str = LINES) -> None:
    node.run(f"umask 337; rm -f {RULES}; cat >{RULES} <<'EOF'\n{lines}EOF", user="root")


def prepare(lab: Lab) -> None:
    for node in lab.nodes:
        if node.run("command -v sudo", check=False).returncode:
            pytest.skip("no sudo here")
        node.run("groupadd gpuusers; usermod -aG gpuusers alice; usermod -aG gpuusers bob", user="root")


@pytest.fixture(scope="module")
def house(swept: None, lab_prefix: Callable[[], str]) -> Iterator[Office]:
    with opened(lab_prefix, ", via: sudo", prepare) as made:
        yield made


@pytest.fixture
def office(house: Office) -> Iterator[Office]:
    for node in house.lab.nodes:
        allow(node)
    for name in (ANN, BOB):
        house.ok(name, "enroll")
    yield house
    house.clear()


@pytest.mark.parametrize(
    "more", ["", "Defaults use_pty\n", "Defaults !env_reset, lecture=always\n", "Defaults log_output\n"]
)
def test_two_users_at_once(office: Office, more: str) -> None:
    for node in office.lab.nodes:
        allow(node, more + LINES)
    jobs = {name: office.submit(name, "-G", "1", "-w", "node001", "id -un; pwd; sleep 60") for name in (ANN, BOB)}
    for name, there in ((ANN, "alice"), (BOB, "bob")):
        office.await_running(name, jobs[name])
        until("output", lambda name=name: office(name, "logs", str(jobs[name])).stdout.count("\n") == 2)
        assert office.ok(name, "logs", str(jobs[name])).startswith(f"{there}\n")
        office.ok(name, "cancel", str(jobs[name]))
        assert office.await_job(name, jobs[name])["state"] == "CANCELLED"
    assert office.ok(BOB, "srun", "-G", "1", "sh", "-c", "id -un; cat", given="typed\n") == "bob\ntyped\n"
    shown = office.on_terminal(ANN, "srun", "-G", "1", "--pty", "--", "sh", "-c", "tty; id -un")
    assert ("/dev/pts/" in shown, "alice" in shown) == (True, True), shown


def test_a_job_outlives_the_master(office: Office) -> None:
    job = office.submit(ANN, "-G", "1", "-w", "node002", "until [ -e ~/go ]; do sleep 0.2; done; echo after; rm ~/go")
    office.await_running(ANN, job)
    office.kill()
    office.start()
    office.lab.node("node002").run("touch go", user="alice")
    assert office.await_job(ANN, job)["state"] == "COMPLETED"
    until("its output", lambda: office(ANN, "logs", str(job)).stdout == "after\n")


@pytest.mark.parametrize("shell", ["/usr/bin/csh", "/usr/bin/fish", "/bin/bash"])
def test_whatever_shell_mgpu_has_there(office: Office, shell: str) -> None:
    node = office.lab.nodes[0]
    if node.run(f"test -x {shell}", check=False).returncode:
        pytest.skip(f"no {shell} here")
    before = node.run("getent passwd train", user="root").stdout.strip().rpartition(":")[2]
    node.run(f"usermod -s {shell} train", user="root")
    node.run("echo 'echo noise' >~/.bashrc")
    node.fault("sshd", "kill")
    node.fault("sshd", "start")
    try:
        assert office.ok(BOB, "srun", "-G", "1", "-w", "node001", "id", "-un") == "bob\n"
        allow(node, "")
        assert "sudoers does not let mgpu become bob there" in office(BOB, "enroll", "node001").stdout
    finally:
        node.run(f"usermod -s {before} train", user="root")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", "sudoers does not let mgpu become alice there"),
        ("train ALL=(bob) NOPASSWD: /bin/sh\n", "sudoers does not let mgpu become alice there"),
        ("Defaults:train requiretty\n" + LINES.partition("\n")[2], "sudo wants a terminal there"),
    ],
)
def test_why_it_does_not_become_somebody(office: Office, lines: str, why: str) -> None:
    for node in office.lab.nodes:
        allow(node, lines)
    tried = office(ANN, "enroll")
    assert (tried.returncode, tried.stdout.count(why)) == (1, 2), tried
    job = office.submit(ANN, "-G", "1", "true")
    office.await_job(ANN, job, "PENDING", reason="LoginRefused")
    for node in office.lab.nodes:
        allow(node)
    office.ok(ANN, "enroll")
    assert office.await_job(ANN, job)["state"] == "COMPLETED"
    nodes = json.loads(office.ok(ANN, "--json", "nodes"))["nodes"]
    assert [node["state"] for node in nodes] == ["UP", "UP"]


def test_without_sudo_and_without_the_account(office: Office) -> None:
    one, two = office.lab.nodes
    one.run("mv /usr/bin/sudo /usr/bin/sudo.away", user="root")
    two.run("cp /etc/passwd /etc/passwd.all; sed -i /^alice:/d /etc/passwd", user="root")
    try:
        tried = office(ANN, "enroll").stdout
        assert "sudo is not installed there" in tried
        assert "there is no account alice there" in tried
    finally:
        one.run("mv /usr/bin/sudo.away /usr/bin/sudo", user="root")
        two.run("cat /etc/passwd.all >/etc/passwd", user="root")
