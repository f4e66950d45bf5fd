"""mgpu init without a node: which hosts, what is refused, the key."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.cli.setup import key
from mgpu.cli.setup.hosts import Host, Reach, judged, lines_of, looked_up
from mgpu.client.http import MasterError
from mgpu.config import SshSettings, SshTarget
from mgpu.config.sshhosts import look_up, named_hosts
from tests.client.peer import Peer

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the ssh program")

Mgpu = Callable[..., object]


@pytest.fixture
def ssh_config(tmp_path: Path) -> Callable[..., Path]:
    """Writes an ssh_config, and what it includes."""
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)

    def write(text: str, **others: str) -> Path:
        for name, content in {"config": text, **others}.items():
            (folder / name).write_text(content)
            (folder / name).chmod(0o600)
        return folder / "config"

    return write


# --- the hosts of an ssh_config -------------------------------------------------------------------------------------


def test_hosts_are_found_through_include(ssh_config: Callable[..., Path]) -> None:
    file = ssh_config(
        "host=a  # the first\nInclude more_* 'none'\n  HOST \"b\" gpu* !gpu3 c? -x a\n"
        "Match host m exec true\n  Port 1\nHost",
        more_1="Host d\nInclude more_1\nInclude ~/no.such.file\n",
        more_2='Host e f\nHost "broken\n',
    )
    assert named_hosts(file) == ["a", "d", "e", "f", "b"]
    assert named_hosts(file.with_name("nowhere")) == []
    assert named_hosts(file.parent) == []


def candidates(file: Path) -> list[Host]:
    names = named_hosts(file)
    return judged(names, look_up(map(SshSettings, names), file))


def test_what_speaks_against_a_host(ssh_config: Callable[..., Path]) -> None:
    file = ssh_config(
        "Match host by-number exec true\n  Port 2201\n"
        "Host gpu1 gpu2\n  HostName %h.example.org\n  ProxyJump ann@login\n"
        "Host old\n  ProxyCommand ssh -W %h:%p bastion\n"
        "Host login\nHost bastion\nHost by-number\n  HostName 10.0.0.1\n"
        "Host g1\n  HostName gpu1.example.org\n  ProxyJump ann@login\n"
        "Host github.com\n  User git\nHost a+b\nHost *\n  User train\n"
    )
    assert {host.name: host.against for host in candidates(file)} == {
        "gpu1": "",
        "gpu2": "",
        "old": "",
        "login": "the way to gpu[1-2],g1",
        "bastion": "the way to old",
        "by-number": "",
        "g1": "the same machine as gpu1",
        "github.com": "logs in as git: no machine to run jobs on",
        "a+b": "no name for a node: letters, digits and . _ - only",
    }
    reach = {host.name: host.reach for host in candidates(file)}
    assert reach["gpu2"] == Reach("train", "gpu2.example.org", 22, "login")
    assert reach["by-number"] == Reach("train", "10.0.0.1", 2201, "")
    assert reach["old"] == Reach("train", "old", 22, "a ProxyCommand")


def test_a_host_that_ssh_cannot_read_is_told(ssh_config: Callable[..., Path]) -> None:
    (broken,) = candidates(ssh_config("Host a\n  Port x\n"))
    assert "config line 2" in broken.against


def test_hosts_that_are_alike_share_a_line(ssh_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    file = ssh_config(
        "Host gpu*\n  User train\n  HostName %h.example.org\nHost gpu01 gpu02 gpu03 gpu04\nHost gpu05\n  Port 22\n"
        "Host far01\n  User x\n  Port 2222\n  ProxyJump gpu05\n"
    )
    assert [line.split(maxsplit=2) for line in lines_of(candidates(file))] == [
        ["HOST", "WHERE"],
        ["gpu[01-04]", "train@gpu[01-04].example.org"],
        ["gpu05", "train@gpu05.example.org", "left out: the way to far01"],
        ["far01", "x@far01:2222", "through gpu05.example.org"],
    ]


def test_hosts_by_name() -> None:
    found = looked_up(["gpu[1-2]", "ann@login2", "localhost", "gpu1"])
    assert [(host.name, host.user, host.local, host.login) for host in found] == [
        ("gpu1", "", False, "gpu1"),
        ("gpu2", "", False, "gpu2"),
        ("login2", "ann", False, "ann@login2"),
        ("localhost", "", True, "localhost"),
    ]
    assert found[2].reach == Reach("ann", "login2", 22, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-oProxyCommand=x"], "'-oProxyCommand=x' cannot be a node's name"),
        (["x@-oProxyCommand=x"], "'-oProxyCommand=x' cannot be a node's name"),
        (["a b"], "a blank inside a name"),
        (["-l@gpu1"], "'gpu1' cannot be a node's name"),
        (["gpu[1"], "a bracket without its partner"),
        (["gpu[1-1001]"], "1001 hosts are named"),
        (["gpu1", "ann@gpu1"], "gpu1 is named with two logins"),
    ],
)
def test_names_of_no_host(words: list[str], said: str) -> None:
    with pytest.raises(MasterError, match=re.escape(said)):
        looked_up(words)


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


REFUSED = {
    "init": "init asks which hosts to take, and nobody is there to answer: give them, and --yes",
    "init gpu1": "init asks which hosts to take, and nobody is there to answer: give them, and --yes",
    "init --yes": "init asks which hosts to take, and nobody is there to answer: give them, and --yes",
    "init gpu1 --yes --key --no-probe": "--key logs in on the nodes, --no-probe does not: drop one of them",
    "--config x init gpu1 --yes": "init makes a configuration, --config names one: --output DIR says where to write it",
    "--master /x init gpu1 --yes": (
        "init asks the nodes through a master of your own, another one is named: "
        "leave --master and MGPU_MASTER out, or --no-probe writes the files alone"
    ),
}


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("line", REFUSED)
def test_refused(mgpu: Mgpu, clean_home: Path, line: str) -> None:
    assert mgpu(*line.split()) == (2, "", f"mgpu: {REFUSED[line]}\n")
    assert list(clean_home.iterdir()) == []


@pytest.mark.usefixtures("_elsewhere")
def test_the_files_alone(mgpu: Mgpu, clean_home: Path) -> None:
    folder = clean_home / ".config/mgpu"
    told = [f"Written: {folder}/cluster_config.yaml", f"Written: {folder}/inventory/nodes.yaml"]
    told += ["Next: mgpu node trust 'gpu[1-2],big'", ""]
    assert mgpu("init", "gpu[1-2]", "ann@big", "--yes", "--no-probe") == (0, "\n".join(told), "")
    assert mgpu("config", "check") == (0, f"{folder}/cluster_config.yaml: ok, 3 nodes\n", "")
    ran = mgpu("init", "gpu1", "--yes", "--no-probe", "--json")
    assert ran[0] == 2
    assert (
        json.loads(ran[2])["error"]["message"]
        == f"{folder}/cluster_config.yaml is there already: it is not overwritten"
    )


@pytest.mark.usefixtures("_elsewhere")
def test_elsewhere(mgpu: Mgpu, tmp_path: Path) -> None:
    """The next command names what is not found by itself."""
    (tmp_path / "a b/inventory").mkdir(parents=True, mode=0o755)
    (tmp_path / "a b/inventory/more.yml").write_text("nodes: [{node_id: more}]\n")
    ran = mgpu("init", "localhost", "--yes", "--no-probe", "--output", "a b", "--json")
    config = tmp_path / "a b/cluster_config.yaml"
    assert json.loads(ran[1]) == {
        "config": str(config),
        "inventory": str(tmp_path / "a b/inventory/nodes.yaml"),
        "kept": [],
        "identity_file": "",
        "nodes": [{"node_id": "localhost", "gpus": None, "trouble": ""}],
        "next": f"mgpu --config '{config}' nodes",
    }
    assert f"mgpu: {tmp_path}/a b/inventory/more.yml was there: it is read as well\n" in ran[2]
    assert mgpu("init", "more", "--yes", "--no-probe", "--output", "a b", "--force")[0] == 2  # given twice


def test_a_master_of_another_configuration(peer: Peer, mgpu: Mgpu, clean_home: Path) -> None:
    """It is not ours to end: nothing is written."""
    peer.answers["GET", "/v1/status"] = {"config": "/other.yaml"}
    hint = "mgpu stop ends it (jobs run on); or name another --state-dir, or --no-probe"
    assert mgpu("init", "gpu1", "--yes") == (2, "", f"mgpu: a master runs with /other.yaml: {hint}\n")
    assert list(clean_home.iterdir()) == []
    assert mgpu("init", "gpu1", "--yes", "--no-probe")[0] == 0


# --- the key --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_key_is_made_once(clean_home: Path) -> None:
    path, made = key.own_key()
    assert (path, made) == (clean_home / ".ssh/mgpu_ed25519", True)
    assert [entry.stat().st_mode & 0o777 for entry in (path.parent, path)] == [0o700, 0o600]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["mgpu_ed25519", "mgpu_ed25519.pub"]
    content = path.read_bytes()
    public = Path(f"{path}.pub")
    said = public.read_text().split()[:2]
    public.unlink()
    assert key.own_key() == (path, False)
    assert (path.read_bytes(), public.read_text().split()[:2]) == (content, said)


def test_the_way_of_a_key(tmp_path: Path) -> None:
    """Through OpenSSH, with the user's own keys too, to known hosts only."""
    (tmp_path / "id").write_text("")
    target = SshTarget(
        "h",
        22,
        "u",
        (tmp_path / "id", tmp_path / "none"),
        known_hosts=(
            Path("/k n"),
            Path("/%"),
        ),
    )
    words = key.ssh_command(Host("gpu1", "ann"), target, Path("/key"), Path("/own"), terminal=False)
    assert words[:2] == ["ssh", "-T"]
    assert words[-9:] == ["-i", "/key", "-i", str(tmp_path / "id"), "-l", "ann", "--", "gpu1", key.INSTALL]
    assert {"StrictHostKeyChecking=yes", 'UserKnownHostsFile="/own" "/k n" "/%%"', "BatchMode=yes"} <= set(words)
    asked = subprocess.run([*words[:1], "-G", *words[2:-1]], capture_output=True, text=True, check=True).stdout
    assert "userknownhostsfile /own /k n /%\n" in asked
    assert "stricthostkeychecking true\n" in asked


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "csh", "tcsh", "fish", "zsh"])
def test_a_key_is_added_once_and_disturbs_no_other(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    keys = tmp_path / ".ssh/authorized_keys"

    def install(line: str) -> int:
        environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        return subprocess.run([shell, "-c", key.INSTALL], input=line, text=True, env=environ, check=False).returncode

    assert install("ssh-ed25519 AAA mgpu@x\n") == 0
    assert (keys.read_text(), keys.stat().st_mode & 0o777) == ("ssh-ed25519 AAA mgpu@x\n", 0o600)
    assert install("ssh-ed25519 AAA mgpu@x\n") == 0
    keys.write_text("# mine\nssh-rsa BBB no end of line")
    assert install("ssh-ed25519 AAA mgpu@x\n") == 0
    assert install("ssh-ed25519 AAA mgpu@x\n") == 0
    assert keys.read_text() == "# mine\nssh-rsa BBB no end of line\nssh-ed25519 AAA mgpu@x\n"
    assert install("") != 0
