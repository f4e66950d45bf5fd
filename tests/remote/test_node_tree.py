"""The node's half: trees that jobs bring along come once, are unpacked for each job, and go with it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from mgpu.core.model import FailureClass
from mgpu.remote.errors import RemoteError
from mgpu.remote.runner import Refusal
from tests.remote.conftest import Workbench, wait_until

DIGEST = "ab" * 32
FILES: Mapping[str, bytes] = {
    "run.sh": b"#!/bin/sh\necho ran in $PWD\n",
    "sub dir/data": b"1\n",
    "sub dir/`x` ' \"": b"",
}


def packed(files: Mapping[str, bytes] = FILES, **links: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted({name.rpartition("/")[0] for name in files} - {""}):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name, data in sorted(files.items()):
            file = tarfile.TarInfo(name)
            file.size, file.mode, file.mtime = len(data), 0o755 if name.endswith(".sh") else 0o644, 946684800
            tar.addfile(file, io.BytesIO(data))
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return gzip.compress(made.getvalue())


class Sent:
    """A tree, and how often it was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.times = 0

    def source(self) -> tuple[BinaryIO, int]:
        self.times += 1
        return io.BytesIO(self.data), len(self.data)


def never() -> tuple[BinaryIO, int]:
    raise AssertionError("it was there already")


def kept(bench: Workbench) -> Path:
    return bench.place("trees")


def test_a_job_runs_in_its_own_copy_of_the_tree(bench: Workbench) -> None:
    sent = Sent(packed(here="run.sh"))
    assert bench.runner.send_tree(DIGEST, sent.source) is None
    assert bench.runner.send_tree(DIGEST, never) is None
    assert sent.times == 1
    script = "pwd; cat data; cd ..; ./here; stat -c %a run.sh 'sub dir/data'; umask; echo more >>'sub dir/data'; ls -a"
    for key in ("1.1", "2.1"):
        assert bench.run(key, script, tree=DIGEST, directory="./sub dir") == "0"
        work = bench.place(key) / "work"
        lines = bench.output(key).decode().splitlines()
        assert lines[:3] == [f"{work}/sub dir", "1", f"ran in {work}"]
        umask = int(lines[5], 8)
        assert [int(mode, 8) for mode in lines[3:5]] == [0o755 & ~umask, 0o644 & ~umask]
        assert lines[6:] == [".", "..", "here", "run.sh", "sub dir"]
    assert (kept(bench) / DIGEST).stat().st_mode & 0o777 == 0o600
    bench.runner.clean(["1.1"])
    assert not (bench.place("1.1") / "work").exists()
    assert (bench.place("2.1") / "work").is_dir()


def test_a_large_tree_comes_whole(bench: Workbench) -> None:
    data = os.urandom(3 << 20)
    assert bench.runner.send_tree(DIGEST, Sent(packed({"data": data})).source) is None
    assert bench.run("1.1", "cat data", tree=DIGEST, directory=".") == "0"
    assert bench.output("1.1") == data


def test_a_place_that_is_not_in_the_tree(bench: Workbench) -> None:
    bench.runner.send_tree(DIGEST, Sent(packed()).source)
    told = bench.run("1.1", "true", tree=DIGEST, directory="./nowhere")
    place = bench.place("1.1") / "work" / "nowhere"
    assert told == f"fail:directory:working directory {place} does not exist"


def test_a_tree_that_is_gone_or_damaged_is_trouble_of_the_node(bench: Workbench) -> None:
    assert bench.run("1.1", "true", tree=DIGEST, directory=".") == (
        "fail:node:the shipped tree is not on the node any more"
    )
    bench.runner.send_tree(DIGEST, Sent(packed({"data": os.urandom(100_000)})[:50_000]).source)
    told = bench.run("2.1", "true", tree=DIGEST, directory=".")
    assert told.startswith(f"fail:node:cannot unpack the shipped tree into {bench.place('2.1')}/work: ")


def test_one_that_is_cut_on_its_way_is_not_there(bench: Workbench) -> None:
    data = packed()

    def cut() -> tuple[BinaryIO, int]:
        return io.BytesIO(data[:-1]), len(data)

    with pytest.raises(RemoteError, match="cut"):
        bench.runner.send_tree(DIGEST, cut)
    wait_until(lambda: not list(kept(bench).iterdir()), "the end of what was cut")
    again = Sent(data)
    assert bench.runner.send_tree(DIGEST, again.source) is None
    assert again.times == 1
    assert bench.run("1.1", "cat 'sub dir/data'", tree=DIGEST, directory=".") == "0"


def test_a_node_that_cannot_keep_it_says_so_and_goes_on(bench: Workbench) -> None:
    kept(bench).parent.mkdir(parents=True, exist_ok=True)
    kept(bench).write_text("in the way")
    refused = bench.runner.send_tree(DIGEST, Sent(packed({"data": os.urandom(300_000)})).source)
    assert refused == Refusal(
        f"cannot write the shipped tree to {kept(bench)} (disk full or quota reached?)", FailureClass.NODE
    )
    assert bench.run("1.1", "true") == "0"


def test_few_trees_are_kept(bench: Workbench) -> None:
    data = packed()
    for number in range(14):
        digest = f"{number:064x}"
        bench.runner.send_tree(digest, Sent(data).source)
        age = {0: 8 * 86400, 1: 2 * 86400, 2: 2 * 86400}.get(number, 7200 + number)
        os.utime(kept(bench) / digest, (0, (kept(bench) / digest).stat().st_mtime - age))
    bench.runner.send_tree(DIGEST, Sent(data).source)
    left = sorted(path.name for path in kept(bench).iterdir())
    assert len(left) == 10
    assert DIGEST in left
    assert not {f"{number:064x}" for number in range(3)} & set(left)
    half = kept(bench) / f"{DIGEST}.4711"
    half.write_bytes(b"")
    os.utime(half, (0, half.stat().st_mtime - 7200))
    bench.runner.send_tree("cd" * 32, Sent(data).source)
    assert not half.exists()


def test_what_a_job_has_locked_goes_too(bench: Workbench) -> None:
    bench.runner.send_tree(DIGEST, Sent(packed()).source)
    bench.run("1.1", "mkdir -p a/b; touch a/b/c; chmod 500 a/b a", tree=DIGEST, directory=".")
    bench.runner.clean(["1.1"])
    assert not (bench.place("1.1") / "work").exists()
