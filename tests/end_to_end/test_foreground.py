"""srun as its users see it: where it ran, what it printed byte for byte, and how it ended."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster


def test_two_gpus_and_where_they_are(cluster: Cluster) -> None:
    result = cluster("srun", "--gpus", 2, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; hostname; echo on stderr >&2")
    devices, hostname = result.lines
    place, *_ = result.told
    found = re.fullmatch(r"mgpu: job (\d+) runs on (\S+) \((.+)\), GPU (\d,\d) \[(GPU-\S+) (GPU-\S+)\]", place)
    assert found, place
    assert found[4] == devices
    assert result.told[1:] == ["on stderr", f"mgpu: job {found[1]} COMPLETED, exit 0"]
    job = cluster.job(int(found[1]))
    [part] = job["allocation"]
    node = cluster.node(part["node"])
    assert part["uuids"] == [found[5], found[6]]
    assert [node["gpus"][index]["uuid"] for index in part["devices"]] == part["uuids"]
    assert part["hostname"] == hostname  # as the node itself says
    assert part["address"] == cluster.lab.node(part["node"]).address
    assert set(found[3].split(", ")) == {hostname, part["address"]}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("exit 0", 0, "COMPLETED, exit 0"),
        ("exit 3", 3, "FAILED, exit 3"),
        ("exit 255", 255, "FAILED, exit 255"),
        ("kill -9 $$", 137, "SIGKILL"),
        ("kill -TERM $$", 143, "SIGTERM"),
    ],
)
def test_exit_status(cluster: Cluster, line: str, code: int, words: str) -> None:
    result = cluster("srun", "sh", "-c", line, check=False)
    assert (result.code, result.out) == (code, "")
    assert words in result.told[-1]


@pytest.mark.usefixtures("separate_nodes")
def test_a_program_that_is_not_there(cluster: Cluster) -> None:
    result = cluster("srun", "no-such-program", check=False)
    assert result.code == 127
    assert "no-such-program" in result.told[1]
    assert cluster("srun", "/etc/hostname", check=False).code == 126


def test_arguments_byte_for_byte(cluster: Cluster) -> None:
    words: list[bytes] = [
        b"a  b", b"", b"'", b'"', b"$HOME", b"*", b"a\nb", b"\n", b"\\n", b"\\0101", b"`id`", b";", b"--", b"-x", b"%s",
        b"caf\xc3\xa9", b"\xff\xfe raw", b"\t", b"!", b"~", b"{a,b}", b"\x01\x7f",
    ]  # fmt: skip
    show = "import os,sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    assert cluster("srun", "python3", "-c", show, *words).raw.split(b"\0") == words
    assert cluster("srun", "--", "printf", "%s", *words).raw == b"".join(words)


def test_streams_stay_apart_and_whole(cluster: Cluster) -> None:
    """Bytes that no text is made of, on both, more than any buffer holds."""
    program = """
import random, sys, threading
def put(file, seed):
    file.write(random.Random(seed).randbytes(2 << 20))
    file.flush()
other = threading.Thread(target=put, args=(sys.stderr.buffer, 2))
other.start()
put(sys.stdout.buffer, 1)
other.join()
"""
    result = cluster("srun", "-Q", "python3", "-c", program)
    assert result.raw == random.Random(1).randbytes(2 << 20)
    assert result.raw_errors == random.Random(2).randbytes(2 << 20)


def test_much_on_stderr_alone(cluster: Cluster) -> None:
    result = cluster("srun", "-Q", "sh", "-c", "head -c 5000000 /dev/zero >&2; echo done")
    assert result.out == "done\n"
    assert result.raw_errors == bytes(5_000_000)


def test_output_comes_while_it_runs(cluster: Cluster) -> None:
    follower = cluster.start("srun", "python3", "-c", "import time; print('first'); time.sleep(60)")
    follower.read_until("first")
    assert follower.running
    follower.abandon()


def test_stdout_into_files(cluster: Cluster) -> None:
    cluster("srun", "-o", "%j.%n.%r.out", "-e", "err", "sh", "-c", "echo one; echo two >&2", cwd=cluster.home)
    [out] = cluster.home.glob("*.node00?.0.out")
    assert out.read_text() == "one\n"
    assert (cluster.home / "err").read_text() == "two\n"


def test_a_reader_that_goes_away(cluster: Cluster) -> None:
    words = cluster.argv(["srun", "sh", "-c", "yes | head -c 3000000; sleep 30"])
    pipeline = ["sh", "-c", '"$@" | head -n 1', "sh", *words]
    done = subprocess.run(pipeline, env=cluster.environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "y\n"
    job_id = int(re.search(r"nobody reads the output: job (\d+) goes on", done.stderr)[1])  # type: ignore[index]
    assert cluster.job(job_id)["state"] == "RUNNING"


def test_a_full_disk_here(cluster: Cluster) -> None:
    words = cluster.argv(["srun", "sh", "-c", "echo hi; sleep 30"])
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, check=False, env=cluster.environ, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 75
    last = done.stderr.decode().splitlines()[-1]
    found = re.match(
        r"mgpu: cannot write the output \(No space left on device\): job (\d+) goes on; go back to it ", last
    )
    assert found, last
    assert cluster.job(int(found[1]))["state"] == "RUNNING"


def test_sigint_reaches_handlers_inside(cluster: Cluster) -> None:
    """A job started by a shell in the background would have it ignored for good."""
    program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert cluster("srun", "python3", "-c", program).out == "True\n"


def test_stdin_is_empty(cluster: Cluster) -> None:
    assert cluster("srun", "sh", "-c", "cat; echo end").out == "end\n"


def test_older_names(cluster: Cluster) -> None:
    assert cluster("run", "echo", "x").out == "x\n"
    assert cluster("sinfo").out.startswith("node001")
