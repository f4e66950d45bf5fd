"""The user's ssh_config as the real `ssh -G` reads it, under what the inventory says."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.config import SshSettings, SshTarget, resolve
from mgpu.config.sshconfig import parse_jump
from mgpu.core.errors import ConfigError

ACCOUNT = pwd.getpwuid(os.getuid())
HOME = Path(ACCOUNT.pw_dir)

Ask = Callable[..., SshTarget]

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the ssh program")


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """ask(ssh_config, host, **settings) -> SshTarget"""

    def asked(text: str, host: str, **settings: object) -> SshTarget:
        file = tmp_path / "ssh_config"
        file.write_text(text)
        file.chmod(0o600)
        return resolve(replace(SshSettings(host), **settings), file)

    return asked


def way(target: SshTarget) -> list[str]:
    return [f"{hop.user}@{hop.host}:{hop.port}" for hop in (*target.hops, target)]


@needs_ssh
def test_without_any_settings_the_defaults_of_ssh_hold(ask: Ask) -> None:
    target = ask("", "gpu1")
    assert way(target) == [f"{ACCOUNT.pw_name}@gpu1:22"]
    assert HOME / ".ssh/id_ed25519" in target.identity_files
    assert target.known_hosts[0] == HOME / ".ssh/known_hosts"
    assert (target.identities_only, target.host_key_alias, target.proxy_command, target.identity_agent) == (
        False, "", "", "",
    )  # fmt: skip


@needs_ssh
def test_include_and_match_hold(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Match host gpu* exec true\n  Port 2201\nHost gpu1\n  HostName %h.example.org\n")
    target = ask(f'Include "{tmp_path}/more"\nHost gpu1\n  User bob\n', "gpu1")
    assert way(target) == ["bob@gpu1.example.org:2201"]


@needs_ssh
def test_the_inventory_wins(ask: Ask, tmp_path: Path) -> None:
    config = (
        "Host gpu1\n  User bob\n  Port 2201\n  HostName elsewhere\n  IdentityFile /old\n  UserKnownHostsFile /old\n"
        "  ProxyJump away\n"
        "Match user ann\n  IdentitiesOnly yes\n"
    )
    own, known = tmp_path / "a key", tmp_path / "known"
    target = ask(
        config, "10.0.0.1", name="gpu1", user="ann", port=5, identity_file=own, known_hosts=known, proxy_jump="x"
    )
    assert way(target) == [f"{ACCOUNT.pw_name}@x:22", "ann@10.0.0.1:5"]
    assert (target.identity_files, target.known_hosts[0], target.identities_only) == ((own,), known, True)
    assert Path("/old") not in target.known_hosts


@needs_ssh
def test_names_of_files_are_expanded(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGPU_TEST_KEYS", "/keys/100%")
    target = ask(
        "IdentityFile ~/.ssh/%h_%r_%p_%n\nIdentityFile %d/%%h\nIdentityFile ${MGPU_TEST_KEYS}/a\n"
        'IdentityFile "/with blank/%u"\nIdentityFile ${MGPU_TEST_UNSET}/%z\n'
        'UserKnownHostsFile ~/kh "/with blank/kh" /%h\nGlobalKnownHostsFile none\nIdentityAgent ~/agent\n'
        "HostKeyAlias other\nHostName h.org\n",
        "gpu1",
        user="bob",
    )
    assert target.identity_files == (
        HOME / ".ssh/h.org_bob_22_gpu1",
        HOME / "%h",
        Path("/keys/100%/a"),
        Path(f"/with blank/{ACCOUNT.pw_name}"),
        Path("${MGPU_TEST_UNSET}/%z"),
    )
    assert target.known_hosts == (HOME / "kh", Path("/with blank/kh"), Path("/h.org"))
    assert (target.identity_agent, target.host_key_alias) == (str(HOME / "agent"), "other")


@needs_ssh
def test_a_proxy_command_is_filled_in(ask: Ask) -> None:
    config = "ProxyCommand nc -x '%%' %h %p %r\n"
    assert ask(config, "gpu1", user="bob").proxy_command == "nc -x '%' gpu1 22 bob"
    assert ask(config, "gpu1", proxy_jump="none").proxy_command == ""
    assert ask(config + "Host x\n", "gpu1", proxy_jump="x").proxy_command == ""
    with pytest.raises(ConfigError, match="not safe in a shell"):
        ask(config + "HostName a;b\n", "gpu1")


CHAIN = """\
Host gpu1
  ProxyJump inner,ann@mid:2222
Host inner
  HostName 10.0.0.9
  ProxyJump outer
Host mid
  Port 99
  IdentityFile /mid-key
  ProxyJump never-used
Host direct
  ProxyJump none
Host direct gpu2
  ProxyJump outer
Match originalhost *,!outer
  User bob
"""


@needs_ssh
@pytest.mark.parametrize(
    ("host", "jump", "expected"),
    [
        ("gpu1", None, ["me@outer:22", "bob@10.0.0.9:22", "ann@mid:2222", "bob@gpu1:22"]),
        ("gpu1", "none", ["bob@gpu1:22"]),
        ("gpu1", "outer", ["me@outer:22", "bob@gpu1:22"]),
        ("gpu1", "eve@[::1]:3, outer", ["eve@::1:3", "me@outer:22", "bob@gpu1:22"]),
        ("gpu2", None, ["me@outer:22", "bob@gpu2:22"]),
        ("direct", None, ["bob@direct:22"]),
    ],
)
def test_each_hop_has_its_own_settings(ask: Ask, host: str, jump: str | None, expected: list[str]) -> None:
    target = ask(CHAIN, host, proxy_jump=jump)
    assert way(target) == [step.replace("me@", ACCOUNT.pw_name + "@") for step in expected]
    assert all(hop.hops == () for hop in target.hops)
    assert all((hop.identity_files == (Path("/mid-key"),)) == (hop.host == "mid") for hop in target.hops)


@needs_ssh
@pytest.mark.parametrize(
    ("config", "host", "words"),
    [
        ("Host a\n ProxyJump b\nHost b\n ProxyJump a\n", "a", "ssh to a: ProxyJump runs in a circle at a"),
        ("Host *\n ProxyJump z\n", "a", "jumphost loop via z"),
        ("Nonsense 1\n", "a", "Bad configuration option: nonsense"),
        ("", "-oProxyCommand=x", "is no host name"),
        ("", "", "is no host name"),
        ("", "a b", "is no host name"),
        ("", "a;b", "hostname contains invalid characters"),
    ],
)
def test_trouble_is_one_line(ask: Ask, config: str, host: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(config, host)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_without_an_ssh_program_the_inventory_alone_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plain = resolve(SshSettings("gpu1"))
    assert way(plain) == [f"{ACCOUNT.pw_name}@gpu1:22"]
    assert plain.known_hosts[0] == HOME / ".ssh/known_hosts"
    full = resolve(SshSettings("10.0.0.1", 5, "ann", Path("/k"), Path("/kh"), "x,bob@y:3", "gpu1"))
    assert way(full) == [f"{ACCOUNT.pw_name}@x:22", "bob@y:3", "ann@10.0.0.1:5"]
    assert (full.identity_files, full.known_hosts[0]) == ((Path("/k"),), Path("/kh"))


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("none", []),
        ("a", [SshSettings("a")]),
        ("u@a:2", [SshSettings("a", 2, "u")]),
        ("ssh://u@a:2", [SshSettings("a", 2, "u")]),
        ("u@dom@a", [SshSettings("a", None, "u@dom")]),
        ("[fe80::1%eth0]:2,b", [SshSettings("fe80::1%eth0", 2), SshSettings("b")]),
    ],
)
def test_chains(text: str, hops: list[SshSettings]) -> None:
    assert parse_jump(text) == hops


@pytest.mark.parametrize(
    "text", ["", "a,,b", "-a", "u@-a", "-u@a", "a:0", "a:99999", "a:x", "a b", "::1", "a;b", "$(x)"]
)
def test_bad_chains_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no hop"):
        parse_jump(text)
