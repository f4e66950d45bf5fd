"""What comes with --ship: sent before the job that names it, looked through, one's own."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
from contextlib import closing
from typing import Any

from mgpu.api import app
from mgpu.client import http as lean
from mgpu.core.model import AttemptState, JobState
from tests.api.conftest import NODES, Served, submission
from tests.store.test_trees import digest_of, tar_of


class Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("mgpu")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def put(served: Served, digest: str, data: bytes) -> tuple[int, Any]:
    with closing(Unix(str(served.path))) as connection:
        connection.request("PUT", f"/v1/trees/{digest}", data)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def with_tree(request_id: str, digest: str, **tree: object) -> dict[str, Any]:
    return {**submission(request_id), "tree": {"digest": digest, **tree}}


def test_a_job_and_its_tree(served: Served) -> None:
    assert served.ask("GET", "/v1/trees") == (200, {"max_size": 100 << 20})
    tar = tar_of(data=os.urandom(app.TREE_PIECE_B * 3))
    digest = digest_of(tar)
    assert served.ask("GET", f"/v1/trees/{digest}")[0] == 404
    status, answer = served.ask("POST", "/v1/jobs", with_tree("1" * 8, digest))
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert "was not sent" in answer["error"]["message"]
    assert put(served, digest, gzip.compress(tar)) == (201, {"digest": digest})
    assert served.ask("GET", f"/v1/trees/{digest}") == (200, {"digest": digest})
    assert put(served, digest, b"whatever: it is there") == (200, {"digest": digest})
    status, answer = served.ask(
        "POST", "/v1/jobs", with_tree("1" * 8, digest, commit="ab" * 20, dirty=True, size=7, files=1, place="sub")
    )
    assert status == 201
    shown = served.ask("GET", f"/v1/jobs/{answer['job_id']}")[1]["ship"]
    assert shown == {
        "commit": "ab" * 20, "dirty": True, "size": 7, "files": 1, "directory": "sub", "digest": digest,
    }  # fmt: skip


def test_what_cannot_be_taken_is_refused_in_words(served: Served) -> None:
    tar = tar_of("/etc/passwd")
    for digest, data, said in (
        (digest_of(tar), gzip.compress(tar), "leads out of it"),
        ("0" * 64, gzip.compress(tar_of()), "is not the one it is named after"),
        ("0" * 63, b"", "named by its SHA-256"),
        ("..%2f..%2fmgpu.db", b"", "named by its SHA-256"),
    ):
        status, answer = put(served, digest, data)
        assert (status, answer["error"]["code"]) == (400, "bad_request")
        assert said in answer["error"]["message"]
    assert [path.name for path in served.context.trees._root.rglob("*") if path.is_file()] == []


def test_a_tree_goes_with_arrays_and_requeues(served: Served) -> None:
    tar = tar_of()
    digest = digest_of(tar)
    put(served, digest, gzip.compress(tar))
    body = with_tree("2" * 8, digest)
    body |= {"kind": "batch", "options": {"array": "0-3"}, "command": {**body["command"], "form": "argv"}}
    status, answer = served.ask("POST", "/v1/jobs", body)
    assert status == 201
    with served.store.read() as r:
        assert r.shipped() == {(os.getuid(), digest)}
    plain = {**with_tree("3" * 8, digest), "kind": "batch"}
    job_id = served.ask("POST", "/v1/jobs", plain)[1]["job_id"]
    served.change_job(job_id, state=JobState.FAILED, end_time=1.0)
    served.context.trees._path(os.getuid(), digest).unlink()
    status, answer = served.ask("POST", "/v1/requeue", {"request_id": "4" * 8, "ids": [job_id]})
    assert "is not kept any more" in json.dumps(answer)


def test_while_it_is_on_its_way_why_says_so(served: Served) -> None:
    tar = tar_of()
    put(served, digest_of(tar), gzip.compress(tar))
    job_id = served.ask("POST", "/v1/jobs", with_tree("6" * 8, digest_of(tar)))[1]["job_id"]
    [part] = served.start(job_id)
    served.change_job(job_id, state=JobState.RUNNING, attempt=1)
    assert served.ask("GET", f"/v1/jobs/{job_id}/why")[1]["detail"] == f"runs on {NODES[0]} (GPU 0)"
    served.change_part(part, state=AttemptState.STARTING)
    assert f"its tree goes to {NODES[0]}" in served.ask("GET", f"/v1/jobs/{job_id}/why")[1]["detail"]


def test_a_directory_elsewhere_does_not_go_with_it(served: Served) -> None:
    tar = tar_of()
    put(served, digest_of(tar), gzip.compress(tar))
    body = with_tree("5" * 8, digest_of(tar))
    status, answer = served.ask("POST", "/v1/jobs", {**body, "options": {"chdir": "/data"}})
    assert status == 400
    assert "-D with a shipped tree" in answer["error"]["message"]
    status, answer = served.ask("POST", "/v1/jobs", {**body, "kind": "batch", "options": {"output": "out.log"}})
    assert status == 201
    assert answer["notices"] == [
        "out.log will lie in the shipped tree, which goes when the job is over: mgpu logs keeps it"
    ]


def test_one_who_leaves_in_the_middle_leaves_nothing(served: Served) -> None:
    digest = digest_of(tar_of())
    head = lean.request_head(served.endpoint, "PUT", f"/v1/trees/{digest}", "1.0", {"Content-Length": "1000000"})
    with closing(lean.connect(served.endpoint)) as connection:
        connection.sendall(head + gzip.compress(tar_of())[:20])
    served.restart()
    assert [path.name for path in served.context.trees._root.rglob("*") if path.is_file()] == []
