"""`notify:` with a master that works, and the examples of docs/notify.md with stand-ins for sendmail and curl."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

PAGE = Path(__file__).parents[2] / "docs/notify.md"
MAIL, CHAT = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
TELL = "#!/bin/sh\ncat >> {file}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "told"


@pytest.fixture
def cluster(lab: Lab, make_cluster: ClusterMaker, tmp_path: Path, file: Path) -> Cluster:
    tell = tmp_path / "tell"
    tell.write_text(TELL.format(file=file))
    tell.chmod(0o700)
    return make_cluster(lab, config=f"{QUICK}notify: {{command: [{tell}], events: [failed]}}\n")


def documents(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_jobs_that_ask_and_those_that_fail(cluster: Cluster, file: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --mail-type=BEGIN,END --mail-user=ann@example.org\ntrue\n")
    asks = cluster.submit(script)
    cluster.await_job(asks, "COMPLETED")
    quiet, fails = cluster.submit("true"), cluster.submit("false")
    cluster.await_job(quiet, "COMPLETED")
    cluster.await_job(fails, "FAILED")
    until("all is told", lambda: len(documents(file)) == 3)
    cluster("stop")
    told = [(one["event"], one["job"]["job_id"], one["mail"]) for one in documents(file)]
    assert [one for one in told if one[1] == asks] == [
        ("started", asks, {"user": "ann@example.org", "type": "BEGIN"}),
        ("ended", asks, {"user": "ann@example.org", "type": "END"}),
    ]
    assert [one for one in told if one[1] != asks] == [("failed", fails, None)]
    assert "there is no 'WHEN'" in cluster.refused("submit", "--mail-type", "WHEN", "true", code=2)
    assert "neither a login nor an address" in cluster.refused("submit", "--mail-user", "-x", "true", code=2)


def test_what_ends_while_the_master_is_away_is_told_by_the_next(cluster: Cluster, file: Path) -> None:
    job_id = cluster.submit("sleep 8; exit 3")
    cluster.await_running(job_id)
    cluster("stop")
    assert documents(file) == []
    cluster("queue")
    cluster.await_job(job_id, "FAILED")
    until("it is told", lambda: [one["job"]["exit_code"] for one in documents(file)] == [3])


# --- the page's examples ----------------------------------------------------------------------------------------------

STAND_IN = "#!/bin/sh\nprintf '%s\\n' \"$@\" > {folder}/words; cat > {folder}/text\n"
DOCUMENT = {
    "event": "failed",
    "id": 17,
    "time": "2026-11-28T21:40:11Z",
    "cluster": "lab",
    "by": "master",
    "state": "FAILED",
    "detail": "attempt 1, exit code 3",
    "node": None,
    "mail": {"user": "ann@example.org", "type": "FAIL"},
    "job": {
        "job_id": 17,
        "name": "x'; $(id) \u00e9",
        "user": "ann",
        "start_time": "a",
        "end_time": "b",
        "exit_code": 3,
    },
}


def example(folder: Path, text: str, document: dict, program: str) -> tuple[list[str], str]:
    (folder / program).write_text(STAND_IN.format(folder=folder))
    (folder / program).chmod(0o700)
    script = folder / "script"
    script.write_text(text)
    environ = {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, script], input=json.dumps(document).encode(), env=environ, check=True)
    words = folder / "words"
    return (words.read_text().splitlines(), (folder / "text").read_text()) if words.exists() else ([], "")


def test_the_example_for_mail(tmp_path: Path) -> None:
    words, text = example(tmp_path, MAIL, DOCUMENT, "sendmail")
    assert words == ["-i", "-t"]
    assert "To: ann@example.org\n" in text
    assert "mgpu logs 17" in text
    hostile = {**DOCUMENT, "job": {**DOCUMENT["job"], "name": "x\nBcc: all@example.org"}}
    with pytest.raises(subprocess.CalledProcessError):  # and mgpu lets no such name in
        example(tmp_path, MAIL, hostile, "sendmail")


def test_the_example_for_mail_is_silent_for_who_did_not_ask(tmp_path: Path) -> None:
    assert example(tmp_path, MAIL, {**DOCUMENT, "mail": None}, "sendmail") == ([], "")


def test_the_example_for_chat(tmp_path: Path) -> None:
    words, text = example(tmp_path, CHAT, DOCUMENT, "curl")
    assert words[words.index("-K") + 1] == "/etc/mgpu/webhook"
    assert not any("ann" in word or "http" in word for word in words)
    assert json.loads(text) == {"text": "[lab] job 17 of ann: failed: attempt 1, exit code 3"}
    node = {**DOCUMENT, "job": None, "node": {"node_id": "gpu01", "state": "DOWN", "reason": "no route"}}
    assert json.loads(example(tmp_path, CHAT, {**node, "event": "node_down"}, "curl")[1]) == {
        "text": "[lab] gpu01: node_down: no route"
    }
