"""--status-file: what a script reads there, however mgpu ends; and --request-id."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.peer import CUT, Peer, end, job, output, state

KEYS = """
    job_id state reason detail attempt submit_time start_time end_time exit_code signal nodes exit_status error
"""


def told(*names: str, path: str = "end.json") -> Any:
    """These values, when no other keys are there than always."""
    document = json.loads(Path(path).read_text())
    assert sorted(document.keys() - {"jobs"}) == sorted(KEYS.split())
    return [document[name] for name in names]


def test_how_the_job_of_srun_ended(peer: Peer, mgpu: Callable) -> None:
    Path("end.json").write_text("of an earlier one")
    peer.streams = [[state("RUNNING"), end("FAILED", exit_code=137, reason="NonZeroExitCode")]]
    assert mgpu("srun", "--status-file", "end.json", "prog").status == 137
    assert told("job_id", "state", "exit_code", "signal") == [17, "FAILED", 137, 9]
    assert told("exit_status", "nodes", "error") == [137, ["gpu01"], None]
    assert [path.name for path in Path().iterdir()] == ["end.json"]


def test_an_exit_status_of_ours_is_not_the_jobs(peer: Peer, mgpu: Callable) -> None:
    """75 is both: one followed no longer, and the other a job that exits so."""
    peer.streams = [[state("RUNNING"), *[output(b"x")] * 3, end("COMPLETED")]]
    assert mgpu("srun", "--status-file", "end.json", "--session-timeout=0", "prog").status == 75
    (error,) = told("error")
    assert (error["code"], error["hint"]) == ("not_followed", "mgpu attach 17")
    assert told("job_id", "state", "exit_code", "exit_status") == [17, "RUNNING", None, 75]
    peer.streams = [[state("RUNNING"), end("FAILED", exit_code=75)]]
    assert mgpu("srun", "--status-file", "end.json", "prog").status == 75
    assert told("state", "exit_code", "error") == ["FAILED", 75, None]


def test_one_that_did_not_start_in_time(peer: Peer, mgpu: Callable) -> None:
    gone = threading.Event()
    threading.Thread(target=lambda: (peer.wait_for("POST", "/v1/cancel"), gone.set()), daemon=True).start()
    peer.answers["GET", "/v1/jobs/17"] = job("PENDING", reason="Resources", detail="all busy")
    peer.streams = [[state("PENDING"), gone, end("CANCELLED", start_time=None, allocation=[])]]
    assert mgpu("srun", "--status-file", "end.json", "-I0", "prog").status == 75
    state_told, status, error = told("state", "exit_status", "error")
    assert (state_told, status, error["code"]) == ("CANCELLED", 75, "not_started")
    assert error["message"].endswith("taken off the queue; it waited: Resources: all busy")


def test_what_never_became_a_job(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"error": {"code": "not_allowed", "message": "this partition is closed", "hint": ""}}
    peer.answers["POST", "/v1/jobs"] = (403, refused, {})
    assert mgpu("srun", "--status-file=end.json", "prog").status == 77
    assert told("job_id", "state", "exit_status", "error") == [None, None, 77, refused["error"]]
    assert mgpu("srun", "--status-file=end.json", "--nothing", "prog").status == 2
    assert told("exit_status", "error")[1]["code"] == "bad_request"
    monkeypatch.setenv("MGPU_MASTER", "/nowhere/mgpu.sock")
    assert mgpu("srun", "--status-file=end.json", "prog").status == 69
    assert told("exit_status", "error")[1]["code"] == "no_master"


def test_it_is_there_from_the_beginning_and_after_a_kill(peer: Peer, mgpu_process: Callable) -> None:
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), output(b"begun\n"), hold]]
    process = mgpu_process("srun", "--status-file", "end.json", "prog")
    assert process.stdout.readline() == b"begun\n"
    assert told("job_id", "error")[1]["code"] == "unfinished"
    process.kill()
    process.wait()
    hold.set()
    assert told("job_id", "exit_status", "error")[:2] == [17, None]


def test_of_attach_and_wait(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("RUNNING"), end("TIMEOUT", exit_code=143)]]
    assert mgpu("attach", "--status-file", "end.json", "17").status == 124
    assert told("state", "exit_status") == ["TIMEOUT", 124]
    peer.answers["GET", "/v1/jobs/17"] = job("COMPLETED", exit_code=0)
    peer.answers["GET", "/v1/jobs/18"] = {**job("FAILED", exit_code=3), "job_id": 18}
    assert mgpu("wait", "--status-file", "end.json", "17", "18").status == 3
    assert told("job_id", "state", "exit_status") == [18, "FAILED", 3]
    assert [each["job_id"] for each in json.loads(Path("end.json").read_text())["jobs"]] == [17, 18]
    assert mgpu("submit", "-W", "--status-file", "end.json", "--", "prog").status == 0
    assert told("job_id", "state", "exit_status") == [17, "COMPLETED", 0]
    assert mgpu("wait", "--status-file", "end.json", "99").status == 1
    assert told("job_id", "error")[1]["code"] == "not_found"


def test_submit_without_wait_has_none(peer: Peer, mgpu: Callable) -> None:
    assert mgpu("submit", "--status-file", "end.json", "--", "prog").status == 2
    assert peer.bodies("POST", "/v1/jobs") == []


def test_a_file_that_cannot_be_written_is_told_before(peer: Peer, mgpu: Callable) -> None:
    ran = mgpu("srun", "--status-file", "nowhere/end.json", "prog")
    said = "mgpu: --status-file nowhere/end.json: No such file or directory: name a file that can be written\n"
    assert (ran.status, ran.err, peer.requests) == (2, said, [])
    assert "Is a directory" in mgpu("srun", "--status-file", ".", "prog").err


def test_an_interrupted_wait(peer: Peer, mgpu_process: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("RUNNING")
    process = mgpu_process("wait", "--status-file", "end.json", "17")
    peer.wait_for("GET", "/v1/jobs/17")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert (process.returncode, told("exit_status", "error")[1]["code"]) == (130, "interrupted")


def test_a_pipe_gets_the_end_alone(peer: Peer, mgpu: Callable) -> None:
    os.mkfifo("pipe")
    peer.streams = [[state("RUNNING"), CUT], [state("RUNNING"), end("COMPLETED", exit_code=0)]]
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(Path("pipe").read_text().splitlines()))
    reader.start()
    assert mgpu("srun", "--status-file", "pipe", "prog").status == 0
    reader.join(20)
    assert [json.loads(line)["state"] for line in read] == ["COMPLETED"]


# --- --request-id ---------------------------------------------------------------------------------------------------


def test_a_key_goes_along_and_the_same_job_is_told(peer: Peer, mgpu: Callable) -> None:
    peer.answers["POST", "/v1/jobs"] = {"job_id": 17, "notices": [], "created": False}
    ran = mgpu("submit", "--request-id", "nightly", "--", "prog")
    again = "mgpu: job 17 was submitted before with --request-id nightly: it is not submitted again\n"
    assert ran == (0, "Submitted job 17\n", again)
    assert [body["key"] for body in peer.bodies("POST", "/v1/jobs")] == ["nightly"]


def test_no_variable_and_no_script_gives_a_key_for_good(
    peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGPU_REQUEST_ID", "nightly")
    monkeypatch.setenv("MGPU_STATUS_FILE", "end.json")
    Path("x.sh").write_text("#!/bin/sh\n#MGPU --request-id nightly\ntrue\n")
    ran = mgpu("submit", "x.sh")
    assert (ran.status, "there is no option '--request-id'" in ran.err) == (0, True)
    assert ["key" in body for body in peer.bodies("POST", "/v1/jobs")] == [False]
    assert not Path("end.json").exists()


@pytest.mark.parametrize("created", [True, False])
def test_a_job_of_an_earlier_command_is_not_taken_back(peer: Peer, mgpu_process: Callable, created: bool) -> None:
    hold = threading.Event()
    peer.answers["POST", "/v1/jobs"] = hold
    process = mgpu_process("srun", "--request-id", "nightly", "prog")
    peer.wait_for("POST", "/v1/jobs")
    process.send_signal(signal.SIGINT)
    peer.answers["POST", "/v1/jobs"] = {"job_id": 17, "notices": [], "created": created}
    _, err = process.communicate(timeout=60)
    hold.set()
    assert (process.returncode, len(peer.bodies("POST", "/v1/cancel"))) == (130, created)
    assert (b"the job may be queued" in err) is not created
