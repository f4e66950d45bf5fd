"""mgpu simulate, as typed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.client.peer import Peer, job

LOG = """\
job_id,submit_time,duration,gpus,user,vc,requested_time
1,0,10,3,ann,a,12
2,1,5,4,bob,a,
3,2,8,1,ann,a,
4,2,20,1,bob,b,
5,3,1,9,bob,b,
"""
FIGURES = {
    "mean_wait_s", "median_wait_s", "p95_wait_s", "max_wait_s", "mean_jct_s", "bsld", "makespan_s", "utilization",
}  # fmt: skip


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = (sys.executable, "-m", "mgpu", "simulate", *words)
    return subprocess.run(words, check=False, capture_output=True, text=True, env=environ)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    return str(path)


def test_figures_and_tables(log: str, tmp_path: Path) -> None:
    ran = simulate(log, "--nodes", "1x4", "--csv", str(tmp_path / "out.csv"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == "mgpu: 1 job of 5 can never start there, and are left out\n"
    assert "longest wait" in ran.stdout and "GPUS" in ran.stdout and "ann" in ran.stdout
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[1] == "default/easy/fill_first,1,ann,3,0.0,0.0,10.0,0"
    assert len(rows) == 5
    told = json.loads(simulate(log, "--nodes", "1x4", "--json").stdout)
    assert told.keys() >= FIGURES
    assert (told["jobs"], told["left_out"], told["max_wait_s"]) == (4, 1, 13)


def test_several_ways_side_by_side(log: str) -> None:
    told = json.loads(simulate(log, "--nodes", "1x4", "--compare", "fifo/none", "--compare", "sjf", "--json").stdout)
    ways = [(way["order"], way["backfill"], way["policy"], way["max_wait_s"]) for way in told["ways"]]
    assert ways == [("fifo", "none", "fill_first", 13), ("sjf", "easy", "fill_first", 13)]


def test_a_part_of_the_log(log: str) -> None:
    assert json.loads(simulate(log, "--nodes", "1x4", "--vc", "b", "--json").stdout)["jobs"] == 1
    told = json.loads(simulate(log, "--nodes", "1x4", "--from", "1", "--until", "2", "--json").stdout)
    assert told["jobs"] == 3


def test_jobs_that_never_ran_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("submit_time,duration,gpus,vc\n0,0,1,a\n0,5,1,a\n1,-1,1,a\n2,5,0,a\n2,0,1,b\n")
    ran = simulate(str(path), "--nodes", "1x4", "--vc", "a")
    assert ran.stderr == "mgpu: 3 jobs beside these ran for no time or on no GPU, and are left out\n"
    told = json.loads(simulate(str(path), "--nodes", "1x4", "--json").stdout)
    assert (told["jobs"], told["left_out"], told["never_ran"]) == (1, 0, 4)
    ran = simulate(str(path), "--nodes", "1x4", "--vc", "b")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "mgpu: 1 job to replay, and none of them ran for any time on any GPU\n"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "say which cluster: --nodes 8x8"),
        (["--nodes", "0x4"], "--nodes 8x8 is 8 nodes of 8 GPUs: not '0x4'"),
        (["--nodes", "9999x9999"], "at most 4096 nodes"),
        (["--nodes", "1x4", "--order", "lifo"], "no order 'lifo': it is one of default, fifo, sjf"),
        (["--nodes", "1x4", "--compare", "fifo/hard"], "no backfill 'hard'"),
        (["--nodes", "1x4", "--vc", "c"], "no job of the log is of c: its partitions: a, b"),
        (["--nodes", "1x4", "--from", "9"], "no job of the log is left to replay"),
        (["--nodes", "1x4", "--until", "noon"], "--until noon: seconds are asked for"),
        (["--nodes", "2x1", "--vc", "b", "--from", "3"], "none of the 1 job can ever start there"),
    ],
)
def test_what_cannot_be(log: str, words: list[str], fault: str) -> None:
    ran = simulate(log, *words)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)
    assert fault in ran.stderr


def test_files_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"nonsense")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    for name in ("a.gz", "b", "none"):
        ran = simulate(str(tmp_path / name), "--nodes", "1x1")
        assert ran.returncode != 0
        assert ran.stderr.startswith("mgpu: ") and len(ran.stderr.splitlines()) == 1


def test_the_picture(log: str, tmp_path: Path) -> None:
    ran = simulate(log, "--nodes", "1x4", "--compare", "fifo", "--compare", "sjf", "--plot", str(tmp_path / "out.svg"))
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out.svg").read_text().count("<polyline") == 4
    ran = simulate(log, "--nodes", "1x4", "--plot", str(tmp_path / "nowhere" / "out.svg"))
    assert (ran.returncode, "cannot be written there" in ran.stderr) == (2, True)


def test_the_clusters_own_past(peer: Peer, mgpu: Callable[..., Ran]) -> None:
    on = [{"rank": 0, "node": "gpu01", "devices": [0, 1]}]
    times = {"submit_time": "2026-01-01T12:00:00Z", "start_time": "2026-01-01T12:00:30Z"}
    long = job("COMPLETED", allocation=on, **times, end_time="2026-01-01T12:10:30Z")
    behind = job("FAILED", job_id=18, allocation=on * 2, **times, end_time="2026-01-01T12:10:31Z")
    never = job("CANCELLED", job_id=19, allocation=[], submit_time=times["submit_time"], start_time=None)
    peer.answers["GET", "/v1/jobs"] = {"jobs": [behind, long, never]}
    nodes = [{"gpus": [{}, {}]}, {"gpus": []}, {"gpus": [{}, {}]}]
    peer.answers["GET", "/v1/nodes"] = {"nodes": nodes}
    told = json.loads(mgpu("simulate", "--from-history", "--order", "fifo", "--json").out)
    assert (told["jobs"], told["left_out"], told["max_wait_s"]) == (2, 0, 601)
    peer.answers["GET", "/v1/jobs"] = {"jobs": [never]}
    assert mgpu("simulate", "--from-history").err.startswith("mgpu: the history holds no job that ran on GPUs")
    assert mgpu("simulate", "--from-history", "log.csv").status == 2


@pytest.mark.parametrize("line", ["nan,10,1", "0,inf,1", "0,1e308,1", "-5,10,1"])
def test_times_that_are_none(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(f"submit_time,duration,gpus\n{line}\n")
    ran = simulate(str(tmp_path / "log.csv"), "--nodes", "1x1")
    assert (ran.returncode, "times are seconds, from 0 to 1e+12" in ran.stderr) == (2, True)
