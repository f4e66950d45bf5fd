"""How much of a job's output is kept; neither much of it nor a reader who stopped is anybody else's trouble."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.end_to_end.cluster import QUICK, Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

LIMIT = 100_000
LINE = "123456789\n"
CUT = LINE * (LIMIT // len(LINE)) + f"[mgpu: output beyond {LIMIT} bytes was not kept]\n"
MUCH = f"i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf '{LINE[:-1]}\\n%.0s' $(seq 200); done"  # 400 kB
STOPPED_MB = 200  # more than fits into the pipes and buffers between the job and its reader
MOST_MB = 400  # of memory for a master; it has about 100 at rest


@pytest.fixture
def cluster(lab: Lab, make_cluster: ClusterMaker) -> Cluster:
    return make_cluster(lab, config=f"{QUICK}output: {{max_size: {LIMIT}}}\n")


def test_output_beyond_the_limit_is_cut_with_a_line_that_says_so(cluster: Cluster) -> None:
    """Followed live or fetched at the end; what the other stream says then is not lost."""
    ran = cluster("srun", "sh", "-c", f"{MUCH}; echo early >&2; sleep 1; {MUCH}; echo late >&2; exit 3", check=False)
    assert (ran.code, ran.out) == (3, CUT)
    assert {"early", "late"} <= set(ran.told)
    swept = cluster.submit(f"{MUCH}; echo late >&2; exit 4")
    assert cluster.await_job(swept)["exit_code"] == 4
    cluster.idle()
    for number in (1, swept):
        assert cluster.output(number) == CUT
        assert cluster("logs", "-f", number, check=False).out == CUT
    assert cluster.output(swept, "--stderr") == "late\n"
    small = cluster("srun", "sh", "-c", f"head -c {LIMIT} /dev/zero")
    assert small.raw == bytes(LIMIT)


def test_a_stopped_reader_stalls_nobody(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    size = STOPPED_MB << 20
    reader = cluster.start("srun", "sh", "-c", f"echo begun; head -c {size} /dev/zero")
    reader.read_until("begun")
    reader.send(signal.SIGSTOP)
    cluster.await_job(1, "COMPLETED", patience_s=90)
    status = Path(f"/proc/{cluster.master_pid()}/status").read_text()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    assert int(peak) < MOST_MB << 10
    assert cluster("srun", "echo", "others").out == "others\n"
    reader.send(signal.SIGCONT)
    result = reader.finish(120)
    assert (result.code, len(result.raw)) == (0, size + len("begun\n"))
