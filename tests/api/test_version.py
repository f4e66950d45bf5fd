"""Commands of another version than the master's, older and newer."""

import pytest

import mgpu
from mgpu.client import http
from tests.api.conftest import submission


def ask(served, monkeypatch, method, path, version, wire=mgpu.WIRE, body=None):
    """(status, the error) as a command of that version gets them."""
    with monkeypatch.context() as patch:
        patch.setattr(mgpu, "__version__", version)
        patch.setattr(mgpu, "WIRE", wire)
        # the server runs in this process: what it says of itself is fixed when it answers, so the request goes as text
        head = http.request_head(served.endpoint, method, path, "1.0", {})
    import json

    payload = json.dumps(body or {}).encode()
    extra = f"Content-Length: {len(payload)}\r\n\r\n".encode()
    answer = http.exchange(served.endpoint, (head[:-2] + extra + payload,))
    return answer.status, json.loads(answer.body).get("error")


@pytest.mark.parametrize(("wire", "hint"), [(0, "install the master's version here"), (99, "mgpu restart")])
def test_who_speaks_another_language_is_told_so(served, monkeypatch, wire, hint):
    status, error = ask(served, monkeypatch, "GET", "/v1/jobs", "0.0.9", wire)
    assert (status, error["code"]) == (409, "other_version")
    assert error["message"] == (
        f"the master is mgpu {mgpu.__version__}, this command 0.0.9: they do not understand each other"
    )
    assert hint in error["hint"]
    assert ask(served, monkeypatch, "GET", "/v1/status", "0.0.9", wire) == (200, None)  # the way out


def test_another_version_of_the_same_language_goes_through(served, monkeypatch):
    assert ask(served, monkeypatch, "GET", "/v1/jobs", "9.0") == (200, None)


def test_what_came_later_than_the_master(served, monkeypatch):
    for method, path in (("POST", "/v1/defragment"), ("POST", "/v1/status")):
        _, error = ask(served, monkeypatch, method, path, "9.0")
        assert error["code"] == "other_version"
        assert error["message"] == (
            f"the master is mgpu {mgpu.__version__} and does not know what this command (9.0) asks for"
        )
    body = submission("0" * 8, defragment="yes")
    status, error = ask(served, monkeypatch, "POST", "/v1/jobs", "9.0", body=body)
    assert status == 400
    assert "defragment" in error["message"]
    assert error["hint"].endswith(f"the master is mgpu {mgpu.__version__}, this command 9.0")


def test_a_job_that_is_not_there_has_nothing_to_do_with_versions(served, monkeypatch):
    assert "version" not in ask(served, monkeypatch, "GET", "/v1/jobs/17", mgpu.__version__)[1]["hint"]
    _, error = ask(served, monkeypatch, "GET", "/v1/defragment", mgpu.__version__)
    assert error == {"code": "not_found", "message": "GET /v1/defragment: Not Found", "hint": ""}


def test_the_master_says_its_version_with_each_answer(served):
    for path in ("/v1/status", "/v1/nothing"):
        assert http.request(served.endpoint, "GET", path).headers["x-mgpu-version"] == mgpu.__version__
    job_id = served.submit(gpus="1")
    stream = served.stream(f"/v1/jobs/{job_id}/stream")
    assert stream.receive() is not None or stream.fileno() >= 0
