"""Exported values lie apart from everything else, and no longer than the job needs them."""

import stat
from pathlib import Path

import pytest

from mgpu.core import codec
from mgpu.core.errors import StoreError
from mgpu.core.model import JobId
from mgpu.ops import exports
from tests.api.conftest import submission

SECRET = "hunter2-\udcff-'\"\n"


def kept(served):
    return sorted(Path(served.store.path.parent, "exports").glob("*"))


def submit(served, request_id="0" * 8, **options):
    body = {**submission(request_id, **options), "kind": "batch", "env": {"TOKEN": SECRET}}
    return served.ask("POST", "/v1/jobs", body)


def everything_else(served):
    return b"".join(path.read_bytes() for path in served.store.path.parent.glob("mgpu.db*"))


def test_they_are_in_a_file_of_the_masters_alone(served):
    status, answer = submit(served)
    assert status == 201
    (path,) = kept(served)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    job = served.job(JobId(answer["job_id"]))
    assert job.spec.env == {}
    assert served.store.exports.read(job.spec.exports) == {"TOKEN": SECRET}
    assert b"hunter2" not in everything_else(served)
    for path_of in ("/v1/jobs", f"/v1/jobs/{job.job_id}", "/v1/audit"):
        assert "hunter2" not in str(served.ask("GET", path_of)[1])


def test_the_same_wish_again_leaves_one_file(served):
    assert [submit(served)[0] for _ in range(2)] == [201, 200]
    assert len(kept(served)) == 1


def test_a_refused_submission_leaves_none(served):
    assert submit(served, dependency="afterok:4711")[0] == 400
    assert kept(served) == []


def test_they_go_when_the_job_is_over(served):
    job_id = submit(served)[1]["job_id"]
    assert served.ask("POST", "/v1/cancel", {"request_id": "1" * 8, "ids": [job_id]})[1]["cancelled"] == [job_id]
    assert kept(served) == []
    answer = served.ask("POST", "/v1/requeue", {"request_id": "2" * 8, "ids": [job_id]})[1]
    assert "went when it was over" in answer["errors"][0]["message"]
    with pytest.raises(StoreError, match="gone"):
        served.store.exports.read(served.job(JobId(job_id)).spec.exports)


def test_those_of_an_array_stay_until_its_last_task_is_over(served):
    array = submit(served, array="0-2")[1]["job_id"]
    for number, names in enumerate(([f"{array}_0"], [f"{array}_1"], [array])):
        assert len(kept(served)) == 1
        served.ask("POST", "/v1/cancel", {"request_id": str(number) * 8, "ids": names})
    assert kept(served) == []


def test_what_nobody_needs_goes_at_the_next_start_and_what_is_needed_stays(served):
    job = served.job(JobId(submit(served)[1]["job_id"]))
    left = served.store.exports.keep({"A": "1"})
    Path(served.store.path.parent, "exports", f"{'0' * 32}.part").write_text("{")  # half of one
    assert len(kept(served)) == 3
    exports.tidy(served.context)
    assert {path.stem for path in kept(served)} == {job.spec.exports}
    assert left != job.spec.exports


def test_what_an_older_version_stored_in_the_row_is_put_apart(served):
    job = served.job(served.submit("3" * 8))
    with served.store.write() as w:
        text = codec.dumps(job.spec).replace('"env":{}', '"env":{"TOKEN":"hunter2"}')
        w._connection.exec_driver_sql("UPDATE jobs SET spec = ? WHERE job_id = ?", (text, job.job_id))
    assert served.job(job.job_id).spec.env == {"TOKEN": "hunter2"}
    exports.tidy(served.context)
    after = served.job(job.job_id)
    assert (after.spec.env, served.store.exports.read(after.spec.exports)) == ({}, {"TOKEN": "hunter2"})
