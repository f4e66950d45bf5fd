"""What is trusted is written into our own known_hosts, or told why not."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from mgpu.config.model import NodeConfig, SshSettings
from mgpu.core.errors import StoreError
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts
from mgpu.master import trust

NAME = NodeName("gpu1")
NODE = NodeConfig(NAME, "ssh", SshSettings("127.0.0.1", port=2222), NodeFacts(NAME))


@pytest.fixture(scope="module")
def line() -> str:
    key = paramiko.ECDSAKey.generate()
    return f"[127.0.0.1]:2222 {key.get_name()} {key.get_base64()}"


def test_a_key_is_written_once(tmp_path: Path, line: str) -> None:
    own = tmp_path / "known_hosts"
    assert [trust.add(NODE, own, [line]) for _ in range(2)] == [1, 0]
    assert own.read_text() == line + "\n"
    assert own.stat().st_mode & 0o777 == 0o600


def test_what_is_in_the_way_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "pipe").symlink_to("/dev/full")
    for name, why in (("folder", "Is a directory"), ("pipe", "No space left on device"), ("no/file", "No such file")):
        with pytest.raises(StoreError, match=f"cannot be written to {tmp_path / name}: {why}"):
            trust.add(NODE, tmp_path / name, [line])
