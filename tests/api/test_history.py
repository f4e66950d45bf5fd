"""The history over the API: between two moments, and each attempt of a job."""

from __future__ import annotations

from mgpu import clock
from mgpu.core.model import JobState
from mgpu.core.usage import PartUse
from mgpu.store import samples
from tests.api.test_stream import run


def test_the_history_between_two_moments(served):
    ids = [served.submit(str(number) * 8) for number in range(4)]
    now = clock.now()
    for job_id, ago in zip(ids, (7200, 3600, 60), strict=False):
        served.change_job(job_id, state=JobState.FAILED, end_time=now - ago)

    def listed(query):
        return [job["job_id"] for job in served.ask("GET", f"/v1/jobs?{query}")[1]["jobs"]]

    assert listed("scope=ended") == ids[:3]
    assert listed("scope=ended&since=90m") == ids[1:3]
    assert listed("scope=ended&since=90m&until=30m") == ids[1:2]
    assert listed("scope=all&since=90m") == ids[1:]  # what has not ended will do so later than that
    assert listed("scope=all&until=30m") == ids[:2]
    assert listed("scope=active&since=90m") == ids[3:]
    assert listed("scope=active&until=now") == []
    status, answer = served.ask("GET", "/v1/jobs?scope=ended&since=30m&until=90m")
    assert status == 400 and answer["error"]["message"] == "there is nothing between --since and --until"
    status, answer = served.ask("GET", "/v1/jobs?scope=ended&until=soon")
    assert status == 400 and answer["error"]["message"].startswith("--until 'soon' cannot be read")


def test_each_attempt_on_wish(served):
    first, second = served.submit("aaaaaaaa"), served.submit("bbbbbbbb")
    parts = run(served, first)
    rows = served.ask("GET", "/v1/jobs?attempts=1")[1]["jobs"]
    assert [[one["attempt"] for one in row["attempts"]] for row in rows] == [[1], []]
    assert rows[0]["attempts"][0]["allocation"][0]["node"] == parts[0].node
    assert rows[1]["job_id"] == second and "attempts" not in served.ask("GET", "/v1/jobs")[1]["jobs"][0]


def test_what_attempts_made_of_their_gpus_on_wish(served):
    job_id, other = served.submit("aaaaaaaa"), served.submit("bbbbbbbb")
    parts = run(served, job_id)
    with served.store.write() as w:
        samples.save_uses(w, [PartUse(job_id, parts[0].attempt, 0, 100.0, 75.0, 36.0, 4000)])
    told = {"utilization": 75.0, "memory_peak_mib": 4000, "idle_gpu_hours": 0.01}
    rows = served.ask("GET", "/v1/jobs?use=1&attempts=1")[1]["jobs"]
    assert [(row["job_id"], row["use"], [one["use"] for one in row["attempts"]]) for row in rows] == [
        (job_id, told, [told]),
        (other, None, []),
    ]
    assert "use" not in served.ask("GET", "/v1/jobs")[1]["jobs"][0]
