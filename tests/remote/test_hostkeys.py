"""Lines of known_hosts: every form that OpenSSH takes, and one bad line spoils nothing."""

from __future__ import annotations

import os
from pathlib import Path

import paramiko
import pytest

from mgpu.remote import hostkeys
from mgpu.remote.errors import RemoteError, Trouble


@pytest.fixture(scope="module")
def keys() -> list[paramiko.PKey]:
    return [paramiko.ECDSAKey.generate() for _ in range(2)]


def entry(names: str, key: paramiko.PKey, marker: str = "") -> str:
    return f"{marker} {names} {key.get_name()} {key.get_base64()} comment".strip()


def known(tmp_path: Path, *lines: str, name: str = "gpu1") -> hostkeys.KnownKeys:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"\xff not text\n" + "\n".join(lines).encode() + b"\n")
    return hostkeys.load((tmp_path / "absent", file), name)


@pytest.mark.parametrize(
    ("names", "name", "found"),
    [
        ("gpu1", "gpu1", True),
        ("gpu2,gpu1,10.0.0.1", "gpu1", True),
        ("gpu*", "gpu1", True),
        ("gpu?", "gpu1", True),
        ("gpu1", "gpu10", False),
        ("GPU2", "gpu1", False),
        ("[gpu1]:2222", "[gpu1]:2222", True),
        ("gpu1", "[gpu1]:2222", False),  # a bare name does not serve for another port
        ("[gpu1]:2222", "gpu1", False),
        ("[10.0.0.*]:2222", "[10.0.0.7]:2222", True),
        ("10.0.0.*", "10.0.0.7", True),
        ("!gpu1,gpu*", "gpu1", False),  # an exception of the line
        ("!gpu2,gpu*", "gpu1", True),
        ("gpu1", "GPU1", True),  # names are compared in small letters
        ("hashed gpu1", "gpu1", True),
        ("hashed [gpu1]:2222", "[gpu1]:2222", True),
        ("hashed gpu2", "gpu1", False),
    ],
)
def test_names(tmp_path: Path, keys: list[paramiko.PKey], names: str, name: str, found: bool) -> None:
    if names.startswith("hashed "):
        names = paramiko.HostKeys.hash_host(names.removeprefix("hashed "))
    assert known(tmp_path, entry(names, keys[0]), name=name).keys == ((keys[0],) if found else ())


def test_what_is_no_file_holds_no_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert hostkeys.load([tmp_path / "pipe", tmp_path, tmp_path / "gone"], "gpu1").keys == ()


def test_bad_lines_do_not_spoil_the_file(tmp_path: Path, keys: list[paramiko.PKey]) -> None:
    odd = [
        "",
        "# a comment",
        "gpu1",
        "gpu1 ssh-ed25519",
        "gpu1 ssh-ed25519 notbase64!",
        "gpu1 ssh-made-up AAAA",
        entry("gpu1", keys[1], "@cert-authority"),
        entry("gpu1", keys[1], "@made-up"),
        entry("gpu1", keys[1], "@revoked"),
    ]
    found = known(tmp_path, *odd, entry("gpu1", keys[0]))
    assert (found.keys, found.revoked) == ((keys[0],), (keys[1],))


def test_what_is_said_of_a_key(tmp_path: Path, keys: list[paramiko.PKey]) -> None:
    right, other = keys
    hostkeys.check(known(tmp_path, entry("gpu1", right)), right, "gpu1", "mgpu node trust node001")

    def refused(*lines: str) -> tuple[Trouble, str]:
        with pytest.raises(RemoteError) as caught:
            hostkeys.check(known(tmp_path, *lines), right, "gpu1", "mgpu node trust node001")
        assert not caught.value.transient
        assert "\n" not in caught.value.message
        return caught.value.trouble, caught.value.message

    trouble, said = refused()
    assert trouble is Trouble.HOST_KEY_UNKNOWN
    assert "mgpu node trust node001" in said and hostkeys.fingerprint(right) in said
    trouble, said = refused(entry("gpu1", other))
    assert trouble is Trouble.HOST_KEY_CHANGED
    assert hostkeys.fingerprint(right) in said
    assert f"{hostkeys.fingerprint(other)} ({tmp_path / 'known_hosts'} line 2)" in said
    assert said.endswith(f"ssh-keygen -R gpu1 -f {tmp_path / 'known_hosts'} && mgpu node trust node001")
    trouble, said = refused(entry("gpu1", right), entry("*", right, "@revoked"))
    assert trouble is Trouble.HOST_KEY_CHANGED and "revoked" in said
    trouble, said = refused(entry("gpu1", right, "@cert-authority"))
    assert trouble is Trouble.HOST_KEY_UNKNOWN
    assert f"mgpu checks no certificates, so {tmp_path / 'known_hosts'} line 2 does not help" in said
    assert "certificates" not in refused(entry("gpu2", right, "@cert-authority"))[1]
