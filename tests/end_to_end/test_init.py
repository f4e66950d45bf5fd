"""From an account that can merely ssh to a job on its nodes, with nothing but what `mgpu init` wrote."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Command, Result, Terminal
from tests.lab import Lab
from tests.lab.node import Node

pytestmark = pytest.mark.usefixtures("separate_nodes")
WRITTEN = ".config/mgpu/cluster_config.yaml"


class Person:
    """Somebody with a home of their own, also for ssh, which asks the system and not HOME: in a mount namespace, their
    /etc/passwd says so. The home lies where the lab's end finds a master that has files open in it."""

    def __init__(self, lab: Lab, ssh_config: str) -> None:
        self.home = lab.state_dir / "person"
        self.ssh = self.home / ".ssh"
        self.ssh.mkdir(parents=True, mode=0o700)
        self.write(".ssh/config", ssh_config)
        own = pwd.getpwuid(os.getuid())
        name = f"{own.pw_name}:"
        lines = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith(name)]
        lines.append(f"{name}x:{own.pw_uid}:{own.pw_gid}::{self.home}:/bin/sh")
        self.write("passwd", "".join(f"{line}\n" for line in lines))
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        self._begun = ExitStack()

    def write(self, path: str, text: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.home / path).write_text(text)
        (self.home / path).chmod(0o600)

    def _argv(self, words: tuple[str, ...]) -> list[str | bytes]:
        unshare = shutil.which("unshare")
        assert unshare
        enter = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
        inside = ["sh", "-c", enter, "sh", str(self.home / "passwd"), sys.executable, "-m", "mgpu", *words]
        return [unshare, "--mount", "--", *inside]

    def __call__(self, *words: str) -> Result:
        command = Command(self._argv(words), self._environ, Path("/"), subprocess.DEVNULL)
        self._begun.callback(command.abandon)
        return command.finish(90)

    def terminal(self, *words: str) -> Terminal:
        terminal = Terminal(self._argv(words), self._environ)
        self._begun.callback(terminal.abandon)
        return terminal

    def close(self) -> None:
        self("stop")
        self._begun.close()


@pytest.fixture
def people() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def person(people: ExitStack, lab: Lab, ssh_config: str) -> Person:
    made = Person(lab, ssh_config)
    people.callback(made.close)
    return made


def without_known_key(lab: Lab) -> str:
    """Hosts gpu1 and gpu2, and the lab's key as that of the account."""
    hosts = [f"Host gpu{node.plan.number}\n  HostName {node.address}\n" for node in lab.nodes]
    return "".join(hosts) + "Host *\n  User train\n  IdentityFile ~/.ssh/id_lab\n"


def fingerprint_of(node: Node) -> str:
    import base64
    import hashlib

    blob = base64.b64decode((node.folder / "host_key.pub").read_text().split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def test_from_ssh_config_to_a_job(make_lab: LabMaker, people: ExitStack) -> None:
    """Include, Match and a jump host hold; the person sees fingerprints and is asked."""
    lab = make_lab(nodes=3)
    login, one, two = lab.nodes
    ann = person(
        people,
        lab,
        "Include conf.d/*\nMatch originalhost gpu* exec true\n  User train\nHost github.com\n  User git\n"
        "Host *\n  IdentityFile ~/.ssh/id_lab\n",
    )
    ann.write(".ssh/id_lab", lab.key.read_text())
    ann.write(
        ".ssh/conf.d/lab",
        f"Host gpu01\n  HostKeyAlias first\n  HostName {one.address}\nHost gpu02\n  ProxyJump login\n"
        f"  HostName {two.address}\nHost login\n  HostName {login.address}\n  User alice\nHost gpu*\n  Port 22\n",
    )
    shown = ann.terminal("init")
    shown.read_until("> ")
    assert "left out: the way to gpu02" in shown.text
    assert "left out: logs in as git" in shown.text
    assert "Enter = gpu[01-02];" in shown.text
    shown.type("gpu[01-02], login\n")
    for node in (one, login, two):  # first those on the way to others
        shown.read_until(fingerprint_of(node))
        shown.read_until("Trust these keys? [y/N]")
        shown.text = ""
        shown.type("y\n")
    assert shown.finish(60) == 0, shown.text
    for name in ("gpu01", "gpu02", "login"):
        assert f"{name}: 4 x NVIDIA A100-SXM4-80GB 80 GiB, 4 free\r\n" in shown.text
    assert shown.text.endswith("Next: mgpu srun --gpus 1 -- nvidia-smi -L\r\n")
    assert ann("config", "check").lines == [f"{ann.home}/{WRITTEN}: ok, 3 nodes"]
    inventory = (ann.home / ".config/mgpu/inventory/nodes.yaml").read_text()
    assert inventory.count("gpu_count: 4 ") == 3  # they are reached in three ways
    # its master has taken up what was written last
    assert "config" not in " ".join(ann("doctor", "gpu01").lines[-3:])
    assert ann("status").out.count("changed") == 0
    assert ann("srun", "--gpus", "1", "--", "nvidia-smi", "-L").out.startswith("GPU 0: NVIDIA A100")
    assert sorted(ann("srun", "-Q", "-w", "gpu[01-02]", "--gpus-per-node", "4", "hostname").lines) == [
        one.name,
        two.name,
    ]


def test_a_key_of_its_own_by_password(make_lab: LabMaker, people: ExitStack) -> None:
    """OpenSSH asks for the password once a host; then the new key is all that is needed."""
    lab = make_lab()
    for node in lab.nodes:
        node.run(
            "echo 'train:open sesame' | chpasswd -c SHA512 && "
            "sed -i 's/^PasswordAuthentication no/PasswordAuthentication yes/' /etc/ssh/sshd_config && "
            "printf '# no end of line' >/home/train/.ssh/authorized_keys",
            user="root",
        )
        node.fault("sshd", "restart")
    ann = person(people, lab, "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in lab.nodes))
    shown = ann.terminal("init", "--key", "train@node[001-002]", "--yes")
    for node in lab.nodes:
        shown.read_until(f"train@{node.address}'s password: ")
        shown.text = ""
        shown.type("open sesame\n")
    assert shown.finish(60) == 0, shown.text
    assert "password" not in shown.text
    public = (ann.ssh / "mgpu_ed25519.pub").read_text()
    for node in lab.nodes:
        keys = node.run("cat .ssh/authorized_keys").stdout
        assert keys == f"# no end of line\n{public}"
    assert sorted(path.name for path in ann.ssh.iterdir()) == ["config", "mgpu_ed25519", "mgpu_ed25519.pub"]
    ran = ann("srun", "-Q", "-N", "2", "--gpus-per-node", "1", "hostname")
    assert (ran.code, sorted(ran.lines)) == (0, ["node001", "node002"])
    # once more: the key lets itself in, and is not added again
    assert ann("init", "--key", "train@node001", "--yes", "--force").code == 0
    assert lab.nodes[0].run("cat .ssh/authorized_keys").stdout == f"# no end of line\n{public}"


def test_without_a_terminal(make_lab: LabMaker, people: ExitStack) -> None:
    """A node that does not answer is told and keeps none from the others; the second round has it."""
    lab = make_lab()
    ann = person(people, lab, without_known_key(lab))
    ann.write(".ssh/id_lab", lab.key.read_text())
    assert ann("nodes").code == 0  # a master runs that knows this machine alone
    lab.nodes[1].fault("sshd", "stop")
    ran = ann("init", "gpu[1-2]", "--yes", "--json")
    said = json.loads(ran.out)
    refused = f"connection to {lab.nodes[1].address} port 22 refused: is sshd running there?"
    assert (ran.code, said["nodes"]) == (
        1,
        [{"node_id": "gpu1", "gpus": 4, "trouble": ""}, {"node_id": "gpu2", "gpus": None, "trouble": refused}],
    )
    assert "mgpu: the master that runs does not know this configuration, the next one will" in ran.told
    assert said["next"] == "mgpu srun --gpus 1 -- nvidia-smi -L"
    lab.nodes[1].fault("sshd", "start")
    lab.nodes[1].wait_for_sshd()
    again = ann("init", "gpu[1-2]", "--yes", "--force")
    assert (again.code, again.lines[0]) == (0, f"Kept: {ann.home}/.config/mgpu/inventory/nodes.yaml.bak1")
    assert '- node_id: "gpu[1-2]"\n    gpu_count: 4 ' in (ann.home / ".config/mgpu/inventory/nodes.yaml").read_text()
    # what a node had some time ago is not what it has
    lab.nodes[1].run("mv .ssh/authorized_keys .ssh/moved")
    (trouble,) = [
        node["trouble"]
        for node in json.loads(ann("init", "gpu[1-2]", "--yes", "--force", "--json").out)["nodes"]
        if node["gpus"] is None
    ]
    assert "1 key offered, none accepted for train" in trouble


def interrupted(shown: Terminal) -> int:
    """Its exit status after ^C: once more where the first came just before Python began to read, which goes on then."""
    for _ in range(5):
        shown.type("\x03")
        with contextlib.suppress(AssertionError):
            return shown.finish(5)
    raise AssertionError(f"^C does not end it: {shown.text!r}")


def test_ended_at_a_question(make_lab: LabMaker, people: ExitStack) -> None:
    """Before the files: nothing is there. After: all of it, and nothing was trusted."""
    lab = make_lab()
    ann = person(people, lab, without_known_key(lab))
    ann.write(".ssh/id_lab", lab.key.read_text())
    shown = ann.terminal("init")
    shown.read_until("> ")
    assert interrupted(shown) == 130
    assert "mgpu: nothing was written" in shown.text
    assert not (ann.home / ".config").exists()
    shown = ann.terminal("init")
    shown.read_until("> ")
    shown.type("gpu2 gpu1\n")
    shown.read_until("Trust these keys? [y/N]")
    assert interrupted(shown) == 130
    assert f"ended early, but {ann.home}/{WRITTEN} is complete" in shown.text
    assert ann("config", "check").lines == [f"{ann.home}/{WRITTEN}: ok, 2 nodes"]
    assert sorted(path.name for path in (ann.home / ".config/mgpu").rglob("*")) == [
        "cluster_config.yaml", "inventory", "nodes.yaml",
    ]  # fmt: skip
    refused = ann("init", "gpu1", "--yes")
    assert (refused.code, len(refused.told)) == (2, 1)
    assert ann("node", "trust", "gpu[1-2]", "--yes").code == 0
    assert sorted(ann("srun", "-Q", "-N", "2", "hostname").lines) == ["node001", "node002"]
