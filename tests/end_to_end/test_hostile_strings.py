"""Every string that somebody gives and that reaches a node comes through as it is or is refused; none is run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.end_to_end.cluster import Cluster

PAYLOADS = (
    "$(touch {canary})",
    "`touch {canary}`",
    "'; touch {canary}; '",
    '"; touch {canary}; "',
    "x\ntouch {canary}\n",
    "x\r\n1 start x\n; touch {canary} #",
    "| touch {canary} &",
    "\\$(touch {canary})\\",
    "%j%%$(touch {canary})%q",
    "-oProxyCommand=touch {canary}",
    "../../../../../../tmp/odd",
    "/tmp/./odd/../odd",
    "*?[a] ~ $HOME \\0101 \\n %b",
    "\u202e\u2028\x1b]0;x\x07",
    "",
)
OPTIONS = """
job_name chdir output error partition nodelist exclude gpu_ids node_gpu_ids gpu_type gpu_mem time policy priority
account signal dependency array begin requeue_on_exit kill_on_invalid_dep launcher mem cpus_per_task ntasks input nice
retries mail_type mail_user export_file
"""


@pytest.fixture
def canary(cluster: Cluster) -> Iterator[str]:
    """A file that nobody may make, here or on a node."""
    path = f"/tmp/canary-{os.getpid()}"
    yield path
    assert not Path(path).exists()
    for node in cluster.lab.nodes:
        made = node.run(["sh", "-c", f"ls -d {path}* $HOME/*canary* 2>/dev/null"], check=False).stdout
        assert made.split() == [], (node.name, made)


def body(number: int, **changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "request_id": f"{os.getpid():08}-{number:08}-{os.urandom(4).hex()}",
        "kind": "batch",
        "command": {"form": "argv", "words": ["sh", "-c", 'printf "%s|" "$ODD"']},
        "options": {"gpus": "0"},
        "env": {},
        "cwd": "/",
        "virtual_env": "",
    }
    changes = {"options": {**plain["options"], **changes.pop("options", {})}, **changes}
    return {**plain, **changes}


def submissions(payload: str) -> Iterator[dict[str, Any]]:
    yield from ({"options": {name: payload}} for name in OPTIONS.split())
    yield {"options": {"output": f"out-{payload}"}}
    yield {"env": {"ODD": payload}}
    yield {"env": {payload: "x"}}
    yield {"cwd": payload}
    yield {"cwd": f"/tmp/{payload}"}
    yield {"virtual_env": payload}
    yield {"key": payload}
    yield {"zone": payload}
    yield {"request_id": payload}
    yield {"kind": payload}
    yield {"command": {"form": "script", "words": [payload], "script": "#!/bin/sh\ntrue\n", "script_name": payload}}
    yield {"tree": {"digest": payload, "size": 1, "files": 1, "commit": payload, "dirty": False, "place": payload}}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_in_a_submission(cluster: Cluster, canary: str, payload: str) -> None:
    hostile = payload.format(canary=canary)
    taken: list[tuple[int, dict[str, Any]]] = []
    for number, changes in enumerate(submissions(hostile)):
        status, answer = cluster.ask("POST", "/v1/jobs", body(number, **changes))
        assert status in (200, 201, 400, 403, 404, 409), (changes, answer)
        if status in (200, 201):
            taken.append((int(answer["job_id"]), changes))
        else:
            assert answer["error"]["code"] in ("bad_request", "not_allowed", "not_found"), answer
            assert answer["error"]["message"].isprintable() or "\n" in answer["error"]["message"], answer
    for job_id, changes in taken:
        job = cluster.job(job_id)
        if name := changes.get("options", {}).get("job_name"):
            assert job["name"] == name
        if job["state"] == "PENDING" and job["reason"] in ("BeginTime", "Dependency"):
            cluster.ask("POST", "/v1/cancel", {"request_id": os.urandom(8).hex(), "ids": [str(job_id)]})
        ended = cluster.await_job(job_id)
        if "ODD" in changes.get("env", {}):
            assert cluster("logs", job_id).raw.decode() == f"{hostile}|", ended


def test_the_words_of_a_command_come_through_byte_for_byte(cluster: Cluster, canary: str) -> None:
    words = [payload.format(canary=canary) for payload in PAYLOADS]
    made = body(0, command={"form": "argv", "words": ["printf", "%s|", *words]})
    job_id = int(cluster.ask("POST", "/v1/jobs", made)[1]["job_id"])
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    assert cluster("logs", job_id).raw.decode() == "".join(f"{word}|" for word in words)


PATHS = (
    "GET /v1/jobs/{0}",
    "GET /v1/jobs/{0}/why",
    "GET /v1/jobs/{0}/output",
    "GET /v1/jobs/1/output?stream={0}x&attempt={0}x&rank={0}x",
    "GET /v1/jobs?user={0}&name={0}&node={0}&partition={0}",
    "GET /v1/jobs?ids={0}",
    "GET /v1/jobs?states={0}",
    "GET /v1/trees/{0}",
    "GET /v1/nodes/{0}",
    "GET /v1/nodes/{0}/residue",
    "GET /v1/nodes/{0}/hostkeys",
    "POST /v1/nodes/{0}/probe",
    "POST /v1/nodes/{0}/drain",
    "POST /v1/nodes/node001/drain",
    "POST /v1/nodes/node001/clean",
    "POST /v1/nodes/node001/trust",
    "POST /v1/cancel",
    "POST /v1/signal",
    "POST /v1/preflight",
    "POST /v1/hold",
)
KEYS = "reason gpus ids signal nodes directory places leases fingerprints"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_in_what_else_is_asked(cluster: Cluster, canary: str, payload: str) -> None:
    hostile = payload.format(canary=canary)
    for line in PATHS:
        method, _, path = line.partition(" ")
        sent = dict.fromkeys(KEYS.split(), hostile)
        for wish in (sent, {**sent, "ids": [hostile], "places": [hostile], "nodes": [hostile]}):
            made = {"request_id": os.urandom(8).hex(), **wish} if method == "POST" else None
            status, answer = cluster.ask(method, path.format(quote(hostile, safe="")), made)
            assert status < 500 or status == 503, (line, answer)
            assert json.dumps(answer)
    cluster.ask("POST", "/v1/nodes/node001/resume", {"request_id": os.urandom(8).hex()})
