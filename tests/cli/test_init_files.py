"""What mgpu init writes, and where."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mgpu.cli.setup import draft, key
from mgpu.cli.setup.draft import Seen, seen_of
from mgpu.cli.setup.files import Files
from mgpu.cli.setup.hosts import Host, Reach
from mgpu.client.http import MasterError
from mgpu.config.load import load


def host(name: str, user: str = "", **reach: object) -> Host:
    return Host(name, user, Reach("train", name, 22, "")._replace(**reach))


A100 = Seen((("NVIDIA A100-SXM4-80GB", 81920, 8),))


def written(tmp_path: Path, text: str) -> Path:
    files = Files(str(tmp_path / "out"), False)
    files.write(draft.CLUSTER, text)
    return files.config


def test_equal_nodes_share_an_entry(tmp_path: Path) -> None:
    nodes = [
        host("gpu01"),
        host("gpu02"),
        host("big", port=2222),
        host("gpu03"),
        host("gpu04", "ann"),
        Host("localhost"),
    ]
    text = draft.inventory(nodes, {"gpu01": A100, "gpu02": A100, "gpu03": A100})
    assert '- node_id: "gpu[01-03]"\n    gpu_count: 8 ' in text
    assert "# 8 x NVIDIA A100-SXM4-80GB 80 GiB; fewer seen = degraded\n    # gpu_type: A100 " in text
    loaded = load(written(tmp_path, text))
    facts = {str(node.name): (node.connection, node.ssh.user, node.facts.gpu_count) for node in loaded.nodes}
    assert facts == {
        "gpu01": ("ssh", None, 8),
        "gpu02": ("ssh", None, 8),
        "gpu03": ("ssh", None, 8),
        "big": ("ssh", None, None),
        "gpu04": ("ssh", "ann", None),
        "localhost": ("local", None, None),
    }


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_what_is_commented_out_is_sound_too(tmp_path: Path, clean_home: Path) -> None:
    """Each comment that looks like a key can be taken by removing its mark."""
    key.own_key()
    text = draft.inventory([host("gpu01"), host("gpu02")], {}, "~/.ssh/mgpu_ed25519")
    text = (
        text.replace("    # gpu", "    gpu").replace("#   partition", "  partition").replace("#   workdir", "  workdir")
    )
    files = Files(str(tmp_path / "out"), False)
    files.write(draft.CLUSTER.replace("# cluster", "cluster").replace("# master", "master"), text)
    node = load(files.config).nodes[1]
    assert (node.facts.gpu_count, node.facts.gpu_type, node.workdir) == (8, "A100", "/scratch")
    assert node.ssh.identity_file == clean_home / ".ssh/mgpu_ed25519"


@pytest.mark.parametrize(
    ("gpu", "word"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA TITAN V", ""),
        ("", ""),
    ],
)
def test_a_short_name_for_the_type(gpu: str, word: str) -> None:
    text = draft.inventory([host("a")], {"a": Seen(((gpu, None, 1),))})
    assert (f"# gpu_type: {word} " in text) if word else ("# gpu_type" not in text)


def gpu(state: str = "free", **more: object) -> dict[str, object]:
    return {"name": "X1", "memory_total_mib": 1024, "uuid": "GPU-1", "state": state, "reason": "why", **more}


def test_a_number_is_written_only_of_gpus_that_are_sound(tmp_path: Path) -> None:
    assert seen_of({"gpus": [gpu(), gpu("external"), gpu("allocated")]}) == Seen((("X1", 1024, 3),))
    lost = seen_of({"gpus": [gpu(), gpu("unhealthy", name="X2", reason="unhealthy: why")]})
    assert (lost.words(), lost.doubt) == ("1 x X1 1 GiB, 1 x X2 1 GiB", "1 GPU unhealthy: why")
    sliced = seen_of({"gpus": [gpu(uuid="MIG-1")]})
    none = seen_of({"gpus": [], "reason": "nvidia-smi not found"})
    for seen in (lost, sliced, none):
        text = draft.inventory([host("a")], {"a": seen})
        assert load(written(tmp_path / seen.doubt.replace(" ", "")[:9], text)).nodes[0].facts.gpu_count is None
    assert "# gpu_count: 8                      # none seen: nvidia-smi not found\n" in text


def test_what_others_said_stays_in_comments(tmp_path: Path) -> None:
    evil = "A100\n  - node_id: evil\r\x85\u2028nodes: []"
    nodes = [Host("a", reach=Reach(evil, evil, 22, evil))]
    text = draft.inventory(nodes, {"a": Seen(((evil, 1, 1),), evil)})
    assert [node.name for node in load(written(tmp_path, text)).nodes] == ["a"]


# --- where it is written --------------------------------------------------------------------------------------------


def test_the_files_as_mgpu_wants_them(tmp_path: Path) -> None:
    old = os.umask(0o002)
    try:
        config = written(tmp_path, draft.inventory([host("a")], {}))
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (config, config.parent / "inventory/nodes.yaml")] == [0o644] * 2
    assert [path.stat().st_mode & 0o777 for path in (config.parent, config.parent / "inventory")] == [0o755] * 2
    assert load(config).nodes[0].name == "a"


def test_nothing_is_overwritten(tmp_path: Path, clean_home: Path) -> None:
    files = Files("", False)
    assert files.config == clean_home / ".config/mgpu/cluster_config.yaml"
    files.write("one", "one")
    with pytest.raises(MasterError, match="is there already"):
        Files("", False)
    for number in (1, 2):
        again = Files("", True)
        again.write(f"more {number}", f"more {number}")
    assert sorted(path.name for path in files.folder.iterdir()) == [
        "cluster_config.yaml", "cluster_config.yaml.bak1", "cluster_config.yaml.bak2", "inventory",
    ]  # fmt: skip
    assert files.config.read_text() == "more 2"
    assert [path.read_text() for path in again.backups] == ["more 1", "more 1"]
    files.config.unlink()
    with pytest.raises(MasterError, match=r"nodes\.yaml is there already"):
        Files("", False)


def test_an_inventory_that_was_edited_is_left(tmp_path: Path) -> None:
    files = Files(str(tmp_path / "out"), False)
    files.write("a", "b")
    assert files.complete("c")
    assert files.inventory.read_text() == "c"
    files.inventory.write_text("mine")
    assert not files.complete("d")
    files.inventory.unlink()
    assert not files.complete("d")


def test_a_folder_that_others_can_write(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(MasterError, match=f"others can write {folder}: chmod go-w"):
        Files(str(folder), False).write("a", "b")
    assert [path.name for path in folder.rglob("*")] == ["inventory"]
    (tmp_path / "file").write_text("")
    with pytest.raises(MasterError, match=f"{tmp_path}/file: File exists"):
        Files(str(tmp_path / "file"), False).write("a", "b")
