"""What stands in a request leads to no file but those of the job that it names."""

import pytest

from mgpu.client import http
from mgpu.client.http import quote
from mgpu.core.model import PartKey

ODD = [
    "..",
    "../..",
    "../../mgpu.db",
    "1/../../mgpu.db",
    "1_..",
    "1\0",
    "-1",
    "1e3",
    "²",
    "0x1",
    "1.5",
    " ",
    "%2e%2e",
    "9" * 40,
]


@pytest.fixture
def written(served):
    """A job with output, and beside the spool what is nobody's business."""
    job_id = served.submit(gpus="1")
    served.start(job_id)
    served.spool.append(PartKey(job_id, 1, 0), "stdout", 0, b"hers\n")
    (served.store.path.parent / "secret").write_text("canary")
    return served, job_id


@pytest.mark.parametrize("word", ODD)
def test_a_job_is_a_number(written, word):
    served, _ = written
    for path in ("", "/why", "/output", "/stream"):
        status, answer = served.ask("GET", f"/v1/jobs/{quote(word)}{path}")
        assert status in (400, 404), (path, answer)
        assert "canary" not in str(answer)


@pytest.mark.parametrize("word", ODD)
@pytest.mark.parametrize("name", ["attempt", "rank", "offset", "limit", "stream", "lines"])
def test_so_are_attempt_rank_and_offset(written, name, word):
    served, job_id = written
    answer = http.request(served.endpoint, "GET", f"/v1/jobs/{job_id}/output?{name}={quote(word)}")
    assert answer.status in (200, 400, 404), answer
    assert answer.body in (b"hers\n", b"") or answer.status != 200
    assert b"canary" not in answer.body


@pytest.mark.parametrize("word", [*ODD, "0" * 64 + "/..", "a" * 63])
def test_a_tree_is_a_digest(written, word):
    served, _ = written
    for method in ("GET", "PUT"):
        status, answer = served.ask(method, f"/v1/trees/{quote(word)}")
        assert status in (400, 404, 405), answer


@pytest.mark.parametrize("word", ODD)
def test_a_node_is_one_of_the_inventory(written, word):
    served, _ = written
    for method, path in (("GET", ""), ("POST", "/probe"), ("GET", "/residue"), ("GET", "/hostkeys")):
        assert served.ask(method, f"/v1/nodes/{quote(word)}{path}")[0] in (400, 404)
