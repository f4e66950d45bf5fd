"""What the looking commands print, to the letter."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mgpu import __version__, clock
from mgpu.cli.queue import only_waits, queue_row, waiting_row
from mgpu.cli.text import table
from mgpu.wording import figures, letters
from mgpu.wording.letters import width_of
from tests.client.peer import Peer, job

NOON = 1767268800.0  # 2026-01-01T12:00:00Z


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    monkeypatch.setenv("TZ", "UTC")


JOBS = [
    job("RUNNING", start_time="2025-12-31T10:58:57Z"),
    job("PENDING", job_id=18, name="évaluation 模型", reason="Resources", detail="4 GPUs, 1 free"),
    job("RUNNING", job_id=190, user="b\x1b[31mob", reason="ContactLost", start_time="2026-01-01T11:59:00Z"),
]

QUEUE = """\
JOBID  NAME             USER       STATE          TIME  GPUS  NODE:GPU (REASON)
   17  train            alice      RUNNING  1-01:01:03     2  gpu01:0-1
   18  évaluation 模型  alice      PENDING        0:00     2  (Resources: 4 GPUs, 1 free)
  190  train            b\\e[31mob  RUNNING        1:00     2  gpu01:0-1 (ContactLost)
"""
NARROW = """\
JOBID  NAME          USER       STATE          TIME  GPUS  NODE:GPU (REASO…
   17  train         alice      RUNNING  1-01:01:03     2  gpu01:0-1
   18  évaluation …  alice      PENDING        0:00     2  (Resources: 4 G…
  190  train         b\\e[31mob  RUNNING        1:00     2  gpu01:0-1 (Cont…
"""


def test_queue(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": JOBS}
    assert mgpu("queue") == (0, QUEUE, "")
    assert mgpu("queue", "--me", "--states", "pending,failed", "-w", "n1", "-p", "x").out == QUEUE
    assert peer.paths()[0] == "/v1/jobs?scope=active&brief=1"
    assert peer.paths()[1].startswith("/v1/jobs?scope=all&") and "states=PENDING%2CFAILED" in peer.paths()[1]


def test_what_is_still_to_come_of_an_array_is_one_line(peer: Peer, mgpu: Callable) -> None:
    rest = ",".join(map(str, range(0, 40, 2)))
    arrays = [job("PENDING", array_rest="5-99%4"), job("RUNNING", job_id="17_4"), job("PENDING", array_rest=rest)]
    peer.answers["GET", "/v1/jobs"] = {"jobs": arrays}
    lines = mgpu("queue").out.splitlines()
    shown = ["JOBID", "17_[5-99%4]", "17_4", "17_[0,2,4,6,8,10,12,14,16,18,20,22...]"]
    assert [line.split()[0] for line in lines] == shown
    late = [job("RUNNING", job_id="9_0"), job("PENDING", job_id=18, array_rest="2-9"), job("RUNNING", job_id="9_1")]
    peer.answers["GET", "/v1/jobs"] = {"jobs": late}
    assert [line.split()[0] for line in mgpu("queue").out.splitlines()[1:]] == ["9_0", "9_1", "18_[2-9]"]
    peer.answers["GET", "/v1/jobs"] = {"jobs": [job("FAILED", array_rest="5-99", detail="3 FAILED", allocation=[])]}
    line = mgpu("history").out.splitlines()[1]
    assert "17_[5-99]" in line and "CANCELLED" in line and line.endswith("(cancelled before they began)")


def test_queue_fits_the_terminal(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "75")
    peer.answers["GET", "/v1/jobs"] = {"jobs": JOBS}
    assert mgpu("squeue").out == NARROW
    assert all(letters.width_of(line) <= 75 for line in NARROW.splitlines())


def test_one_that_only_waits_is_told_as_any_other() -> None:
    words: dict[tuple[Any, Any], str] = {}
    waiting = [
        job("PENDING", reason=reason, detail=detail)
        for reason, detail in (
            ("Resources", "no GPU is free"),
            ("Resources", ""),
            ("NonZeroExitCode", "exit 3"),
            ("", ""),
        )
    ]
    for one in [*waiting, *waiting, {**waiting[0], "name": None, "user": None}]:
        assert only_waits(one)
        assert waiting_row(one, words) == queue_row(one, clock.now())
    for more in ({"array_rest": "5-9"}, {"start_time": "2026-11-28T11:00:00Z"}, {"state": "RUNNING"}):
        assert not only_waits({**waiting[0], **more})


def test_a_narrow_table_is_the_same_on_a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("1", "a"), ("22", "50%s"), ("3", "")]
    monkeypatch.setenv("COLUMNS", "80")
    plain = table(("ID", "WHAT"), rows, right=(0,), indent=" ")
    assert plain == [" ID  WHAT", "  1  a", " 22  50%s", "  3"]
    assert table(("ID", "WHAT"), [*rows, ("4", "\u00fc")], right=(0,), indent=" ")[:4] == plain


def test_an_empty_queue_is_its_header(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": []}
    assert mgpu("queue").out == "JOBID  NAME  USER  STATE  TIME  GPUS  NODE:GPU (REASON)\n"


def test_json_is_the_masters_document(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": JOBS}
    ran = mgpu("queue", "--json")
    assert json.loads(ran.out) == {"jobs": JOBS} and "\x1b" not in ran.out


def gpu(index: int | None, state: str, **more: Any) -> dict[str, Any]:
    return {
        "index": index, "uuid": f"GPU-{index}", "name": "NVIDIA A100", "memory_total_mib": 81920,
        "memory_used_mib": 512, "utilization": 0, "state": state, "reason": "", "job_id": None, "processes": [], **more,
    }  # fmt: skip


OUTSIDER = {"pid": 4242, "user": "bob", "memory_mib": 11264, "command": "python", "age_s": 3720}
NODES = [
    {
        "node_id": "gpu01", "state": "UP", "reason": "", "address": "10.0.0.1", "hostname": "gpu01.lab",
        "partition": "train", "gpu_type": "A100", "last_seen": "2026-01-01T11:59:57Z",
        "gpus": [
            gpu(0, "free"),
            gpu(1, "allocated", job_id=17, user="carol", utilization=97, memory_used_mib=71680),
            gpu(2, "external", reason="external (bob, pid 4242, python, 11 GiB, 1 h)", processes=[OUTSIDER]),
            gpu(None, "unknown", reason="GPU is lost", memory_used_mib=None, utilization=None),
        ],
    },
    {
        "node_id": "gpu02", "state": "DOWN", "reason": "node is down: host key unknown: mgpu node trust gpu02",
        "address": "gpu02", "hostname": "", "partition": "", "gpu_type": "", "last_seen": None, "gpus": [],
    },
]  # fmt: skip
NODE_TEXT = """\
gpu01  UP  1 of 4 GPUs free  A100  partition train  gpu01.lab 10.0.0.1  seen 0:03 ago
  GPU  NAME         MEMORY GiB  UTIL  STATE      WHO / WHY
    0  NVIDIA A100    0.5/80.0    0%  free
    1  NVIDIA A100   70.0/80.0   97%  allocated  carol job 17
    2  NVIDIA A100    0.5/80.0    0%  external   bob, pid 4242, python, 11 GiB, 1 h
    ?  NVIDIA A100      ?/80.0     -  unknown    GPU is lost
gpu02  DOWN  no GPUs seen  gpu02  never seen
  host key unknown: mgpu node trust gpu02
"""


def test_nodes(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/nodes"] = {"nodes": NODES}
    assert mgpu("sinfo") == (0, NODE_TEXT, "")
    assert json.loads(mgpu("nodes", "--json").out) == {"nodes": NODES}


def test_what_a_row_says_of_a_gpu(peer: Peer, mgpu: Callable) -> None:
    gpus = [
        gpu(0, "allocated", job_id=17, user="carol", reason="held by job 17"),
        gpu(1, "allocated", job_id=18, reason="held by job 18; unhealthy: GPU is lost"),
        gpu(2, "unhealthy", reason="unhealthy: GPU is lost"),
    ]
    node = {**NODES[0], "gpus": gpus, "gpu_type": "NVIDIA A100", "reason": "degraded: 3 of 4 GPUs seen"}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [node]}
    assert mgpu("nodes").out == (
        "gpu01  UP  0 of 3 GPUs free  partition train  gpu01.lab 10.0.0.1  seen 0:03 ago\n"
        "  degraded: 3 of 4 GPUs seen\n"
        "  GPU  NAME         MEMORY GiB  UTIL  STATE      WHO / WHY\n"
        "    0  NVIDIA A100    0.5/80.0    0%  allocated  carol job 17\n"
        "    1  NVIDIA A100    0.5/80.0    0%  allocated  job 18; unhealthy: GPU is lost\n"
        "    2  NVIDIA A100    0.5/80.0    0%  unhealthy  GPU is lost\n"
    )


@pytest.mark.parametrize(
    ("state", "barred", "word"),
    [("DRAINED", "NodeDrained", "drained"), ("UP", "NodeDrained", "withheld"), ("UP", "Maintenance", "maintenance")],
)
def test_where_nothing_may_start_nothing_is_called_free(
    peer: Peer, mgpu: Callable, state: str, barred: str, word: str
) -> None:
    gpus = [gpu(0, "free"), gpu(1, "allocated", job_id=17, user="carol")]
    node = {**NODES[0], "gpus": gpus, "state": state, "barred": barred, "reason": "new fans"}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [node]}
    said = mgpu("nodes").out
    assert said.startswith(f"gpu01  {state}  2 GPUs, none for jobs: {word}  A100")
    assert "free" not in said
    assert said.splitlines()[3].split()[-1] == "unused"


@pytest.fixture
def three_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    yield
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.usefixtures("three_hours_east")
def test_times_in_reasons_are_the_readers_own(peer: Peer, mgpu: Callable) -> None:
    reason = "drained by root: fans, 08:00 UTC (since 2026-06-01 22:30 UTC)"
    node = {**NODES[0], "state": "DRAINED", "reason": reason}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [node]}
    assert mgpu("nodes").out.splitlines()[1] == "  drained by root: fans, 08:00 UTC (since 2026-06-02 01:30)"
    assert json.loads(mgpu("nodes", "--json").out)["nodes"][0]["reason"] == reason
    answer = {"job_id": 17, "state": "PENDING", "reason": "NodeDrained", "detail": reason}
    peer.answers["GET", "/v1/jobs/17/why"] = answer
    assert mgpu("why", "17").out.endswith("(since 2026-06-02 01:30)\n")


def test_planned_maintenance_stands_in_the_table(peer: Peer, mgpu: Callable) -> None:
    windows = [
        {"from": f"2026-01-{day}T08:00:00Z", "to": f"2026-01-{day}T09:00:00Z", "reason": why}
        for day, why in (("04", ""), ("03", "new fans"), ("01", "over"))
    ]
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{**NODES[0], "maintenance": windows}]}
    said = mgpu("nodes").out.splitlines()[1]
    assert said.startswith("  planned: maintenance 2026-01-03 ")
    assert said.endswith(": new fans (and 1 more)")


def test_one_node_and_its_probe(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/nodes/gpu02"] = peer.answers["POST", "/v1/nodes/gpu02/probe"] = NODES[1]
    expected = "".join(NODE_TEXT.splitlines(keepends=True)[-2:])
    assert mgpu("show", "node", "gpu02").out == expected
    assert mgpu("node", "probe", "gpu02").out == expected


def test_show_job(peer: Peer, mgpu: Callable) -> None:
    shown = job("FAILED", exit_code=3, command=["sh", "-c", "exit 3"], partition="p")
    lost = {"attempt": 1, "state": "ENDED", "exit_code": None, "reason": "rebooted", "allocation": shown["allocation"]}
    last = {"attempt": 2, "state": "ENDED", "exit_code": 3, "reason": "", "allocation": []}
    peer.answers["GET", "/v1/jobs/17"] = {**shown, "attempts": [lost, last]}
    assert mgpu("show", "job", "17").out == (
        "job        17 train\n"
        "user       alice\n"
        "state      FAILED\n"
        "exit code  3\n"
        "command    sh -c 'exit 3'\n"
        "asked for  2 GPUs on 1 node\n"
        f"submitted  {figures.local_time('2026-01-01T00:00:00Z')}\n"
        f"started    {figures.local_time('2026-01-01T00:00:10Z')}\n"
        "attempt    1\n"
        "rank 0     gpu01 (gpu01.lab, 10.0.0.1), GPU 0,1 [GPU-a GPU-b] RUNNING pid 42\n"
        "attempt 1  ENDED (rebooted) on gpu01:0-1 - to -\n"
        "attempt 2  ENDED exit 3 - to -\n"
        "partition  p\n"
    )


def test_why_cuts_no_reason(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    reason = "4 GPUs, 0 free; GPU 0,1 held by job 12, GPU 2,3 external (alice, pid 4242, python, 11 GiB, 3 h)"
    nodes = [{"node": "gpu01", "reason": reason}, {"node": "gpu02", "reason": "short"}]
    peer.answers["GET", "/v1/jobs/17/why"] = {"job_id": 17, "state": "PENDING", "reason": "", "nodes": nodes}
    lines = mgpu("why", "17").out.splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(line[9:] for line in lines[2:-1]) == reason
    assert lines[-1] == "  gpu02  short"


def test_why(peer: Peer, mgpu: Callable) -> None:
    nodes = [{"node": "gpu01", "reason": "4 GPUs, 1 free"}, {"node": "gpu02", "reason": "down\n"}]
    answer = {"job_id": 17, "state": "PENDING", "reason": "Resources", "detail": "nothing fits now", "nodes": nodes}
    peer.answers["GET", "/v1/jobs/17/why"] = answer
    assert mgpu("why", "17").out == (
        "job 17 PENDING: Resources: nothing fits now\n  NODE   REASON\n  gpu01  4 GPUs, 1 free\n  gpu02  down\\n\n"
    )


def test_cancel(peer: Peer, mgpu: Callable) -> None:
    errors = [{"job_id": 5, "code": "not_allowed", "message": "it belongs to bob", "hint": ""}]
    peer.answers["POST", "/v1/cancel"] = {"cancelled": [17], "errors": errors}
    assert mgpu("scancel", "17", "5") == (77, "Cancelled job 17\n", "mgpu: job 5: it belongs to bob\n")
    errors[0]["message"] = "there is no job 5"
    assert mgpu("cancel", "5").err == "mgpu: there is no job 5\n"
    mgpu("cancel", "-u", "bob", "--state", "pending,running")
    first, _, second = peer.bodies("POST", "/v1/cancel")
    assert first.pop("request_id") != second.pop("request_id")
    assert (first, second) == ({"ids": [17, 5]}, {"user": "bob", "states": "PENDING,RUNNING"})


@pytest.mark.parametrize(("command", "done"), [("hold", "held"), ("release", "released")])
def test_hold_and_release(peer: Peer, mgpu: Callable, command: str, done: str) -> None:
    refused = {"job_id": 5, "code": "not_allowed", "message": "job 5 was held by root", "hint": "ask an admin"}
    peer.answers["POST", f"/v1/{command}"] = {done: [17], "errors": [refused]}
    said = "mgpu: job 5 was held by root: ask an admin\n"
    assert mgpu(command, "17", "5") == (77, f"{done.capitalize()} job 17\n", said)
    mgpu(command, "--name", "sweep")
    bodies = peer.bodies("POST", f"/v1/{command}")
    assert [{**body, "request_id": ""} for body in bodies] == [
        {"request_id": "", "ids": [17, 5]},
        {"request_id": "", "name": "sweep"},
    ]


def test_requeue(peer: Peer, mgpu: Callable) -> None:
    peer.answers["POST", "/v1/requeue"] = {"requeued": [17], "errors": []}
    assert mgpu("requeue", "17", "--hold") == (0, "Requeued job 17\n", "")
    assert mgpu("requeue", "--me").status == 2
    mgpu("requeue", "--state", "failed")
    bodies = [{**body, "request_id": ""} for body in peer.bodies("POST", "/v1/requeue")]
    assert bodies == [{"request_id": "", "ids": [17], "hold": True}, {"request_id": "", "states": "FAILED"}]


def test_status_starts_nothing(mgpu: Callable, peer: Peer) -> None:
    peer.answers["GET", "/v1/status"] = {"version": "1", "uptime_s": 61, "config": "", "queue": {"PENDING": 2}}
    this = f"(this command is {__version__})"
    rest = "config   none: this machine alone\nqueue    PENDING=2\nuptime   1:01\n"
    assert mgpu("status").out == f"version  1 {this}\n{rest}"
    ran = mgpu("status", "--state-dir", "elsewhere")
    assert (ran.status, ran.out) == (69, "") and ran.err.startswith("mgpu: no master runs at ")


def test_stop_waits_for_the_end(peer: Peer, mgpu: Callable) -> None:
    process = subprocess.Popen(["sleep", "60"])
    peer.answers["GET", "/v1/status"] = {"pid": process.pid}
    peer.answers["POST", "/v1/stop"] = {"stopping": True}

    def end() -> None:
        peer.wait_for("POST", "/v1/stop")
        peer.__exit__()
        process.kill()
        process.wait()

    thread = threading.Thread(target=end)
    thread.start()
    assert mgpu("stop") == (0, "The master has ended. Jobs run on.\n", "")
    thread.join()
    assert process.returncode == -signal.SIGKILL


KEYS = [{"type": "ssh-ed25519", "fingerprint": "SHA256:abc", "line": "gpu01 ssh-ed25519 AAAA"}]


@pytest.mark.parametrize(
    ("status", "options", "expected", "trusted"),
    [
        ("new", ["--yes"], 0, True),
        ("new", ["--fingerprint", "SHA256:abc"], 0, True),
        ("new", ["--fingerprint", "SHA256:other"], 1, False),
        ("new", [], 2, False),
        ("same", [], 0, False),
        ("same", ["--fingerprint", "SHA256:abc"], 0, False),
        ("same", ["--fingerprint", "SHA256:other", "--yes"], 1, False),
        ("changed", ["--yes"], 77, False),
        ("changed", ["--fingerprint", "SHA256:abc"], 77, False),
    ],
)
def test_trust(peer: Peer, mgpu: Callable, status: str, options: list[str], expected: int, trusted: bool) -> None:
    shown = {"node": "gpu01", "address": "10.0.0.1", "keys": KEYS, "known": KEYS, "status": status}
    shown["removal"] = "ssh-keygen -R gpu01 -f /k"
    peer.answers["GET", "/v1/nodes/gpu01/hostkeys"] = shown
    peer.answers["POST", "/v1/nodes/gpu01/trust"] = {"trusted": 1}
    ran = mgpu("node", "trust", "gpu01", *options)
    assert ran.status == expected
    assert ("if you know why: ssh-keygen -R gpu01 -f /k && mgpu node trust gpu01" in ran.err) == (status == "changed")
    assert peer.bodies("POST", "/v1/nodes/gpu01/trust") == ([{"lines": [KEYS[0]["line"]]}] if trusted else [])


def test_update_says_what_changed(peer: Peer, mgpu: Callable[..., Any]) -> None:
    answer = {"job_id": 17, "time_limit_s": 90000, "changes": ["time limit 1-01:00:00", "nice 5"]}
    peer.answers["POST", "/v1/jobs/17/update"] = answer
    said = "Updated job 17: time limit 1-01:00:00\nUpdated job 17: nice 5\n"
    assert mgpu("update", "17", "--time", "1-1", "--nice", "5") == (0, said, "")
    assert mgpu("update", "17").status == 2
    (body,) = peer.bodies("POST", "/v1/jobs/17/update")
    assert {**body, "request_id": ""} == {"request_id": "", "time": "1-1", "nice": "5"}


@pytest.mark.parametrize("columns", [14, 30, 40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    row = ("12345", "a-long-name-of-a-job", "somebody", "RUNNING", "1-00:00:00", "8", "node001:0-7 (Resources: 漢字)")
    headers = ("JOBID", "NAME", "USER", "STATE", "TIME", "GPUS", "NODE:GPU (REASON)")
    lines = table(headers, [row], right=(0, 4, 5), shrink=((1, 12), (6, 12), (1, 6)))
    assert max(map(width_of, lines)) <= columns
    assert lines[1].startswith("12345 "), "which job it is can be read"
