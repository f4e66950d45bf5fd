"""What came of the GPUs, as the API tells it, and to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu import clock
from mgpu.core.errors import RequestError
from mgpu.core.model import AttemptState, Audit, FailureClass, JobId, JobState, NodeName
from mgpu.core.usage import PartUse
from mgpu.ops import report
from mgpu.ops.context import Caller
from mgpu.store import samples
from tests.store.stored_values import attempt, job, part, spec

ANN, BOB, ROOT = Caller(70001, "ann"), Caller(70002, "bob"), Caller(0, "root")
HOUR = 3600.0


def ran(served, who: Caller, gpus: int, ago_h: float, hours: float | None, state=JobState.COMPLETED, **more) -> JobId:
    """So many hours ago a job of theirs began, half an hour after it was submitted."""
    began = clock.now() - ago_h * HOUR
    ended = None if hours is None else began + hours * HOUR
    where = {"node": NodeName("gpu01"), "idle_since": None, "failure": FailureClass.NONE, "account": "", **more}
    with served.store.write() as w:
        number = w.driver.execute("SELECT count(*) FROM jobs").fetchone()[0]
        row = job(
            f"{number:08d}", user=who.user, uid=who.uid, state=state, attempt=1, submit_time=began - HOUR / 2,
            start_time=began, end_time=ended, spec=spec(account=where.pop("account")),
        )  # fmt: skip
        job_id, _ = w.add_job(row)
        runs = part(job_id, *range(gpus), state=AttemptState.RUNNING, started=began, **where)
        runs = replace(runs, uuids=tuple(f"{uuid}-{job_id}" for uuid in runs.uuids))
        over = AttemptState.ENDED if ended else AttemptState.RUNNING
        w.add_attempt(attempt(job_id, state=over, started=began, ended=ended), [runs])
        if ended:
            w.save_part(replace(runs, state=AttemptState.ENDED, ended=ended, collected=True), runs)
    return job_id


def use(served, job_id: JobId, **figures) -> None:
    with served.store.write() as w:
        samples.save_uses(w, [PartUse(job_id, 1, 0, **figures)])


def rows(served, caller=ROOT, **query):
    told = report.report(served.context, caller, query)
    return {row["name"]: row for row in told["rows"]}, told


def as_privacy(served, privacy):
    served.context = replace(served.context, config=replace(served.context.config, privacy=privacy, shared=True))


def test_a_week_through_the_api(served):
    first = ran(served, ANN, 2, 10, 5)
    use(served, first, measured_s=8 * HOUR, busy_s=6 * HOUR, idle_s=HOUR, memory_mib=9000)
    ran(served, BOB, 4, 6, 1, JobState.FAILED)
    ran(served, BOB, 8, 9 * 24, 24)  # before
    status, told = served.ask("GET", "/v1/report")
    assert (status, told["by"]) == (200, "user")
    ann, bob = told["rows"]
    assert (ann["name"], ann["gpu_hours"], ann["share"], ann["utilization"]) == ("ann", 10.0, 0.7143, 75.0)
    assert (ann["idle_gpu_hours"], ann["memory_peak_mib"], ann["success"], ann["wait_median_s"]) == (
        1.0,
        9000,
        1.0,
        1800,
    )
    assert (bob["name"], bob["gpu_hours"], bob["failed"], bob["success"], bob["utilization"]) == (
        "bob",
        4.0,
        1,
        0.0,
        None,
    )
    assert (told["total"]["gpu_hours"], told["total"]["jobs"], told["idle"]) == (14.0, 2, [])


def test_by_node_by_account_and_of_another_stretch(served):
    ran(served, ANN, 2, 30, 5, account="lab", node=NodeName("gpu02"))
    ran(served, BOB, 1, 3, None, JobState.RUNNING)
    assert set(rows(served, by="node")[0]) == {"gpu01", "gpu02"}
    assert set(rows(served, by="account")[0]) == {"lab", ""}
    found, _ = rows(served, since="28h", until="now-26hours")
    assert (found["ann"]["gpu_hours"], found["ann"]["completed"], found["ann"]["wait_median_s"]) == (4.0, 0, None)
    assert set(found) == {"ann"}
    assert rows(served, since="1h")[0]["bob"]["gpu_hours"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"by": "colour"}, "--by 'colour' is not known"),
        ({"since": "yesteryear"}, "cannot be read"),
        ({"since": "1h", "until": "2h"}, "nothing between"),
        ({"since": "2040-01-01"}, "nothing between"),
    ],
)
def test_what_cannot_be_asked(served, query, words):
    with pytest.raises(RequestError, match=words):
        report.report(served.context, ROOT, query)
    assert served.ask("GET", "/v1/report?by=x")[0] == 400


@pytest.mark.parametrize(
    ("asked", "since"),
    [
        ("since=999999999w", "1970-01-01T00:00:00Z"),
        ("since=0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("until=0001-01-01T00:00:00Z", "1969-12-25T00:00:00Z"),
    ],
)
def test_however_long_ago(served, asked, since):
    """No calendar goes back as far as a duration can."""
    status, told = served.ask("GET", f"/v1/report?{asked}")
    assert (status, told["since"]) == (200, since)


def test_without_names_others_are_one(served):
    for who in (ANN, BOB, Caller(70003, "carol")):
        ran(served, who, 1, 10, 2, account=f"of-{who.user}")
    as_privacy(served, "none")
    found, told = rows(served, BOB)
    assert {name: row["gpu_hours"] for name, row in found.items()} == {"bob": 2.0, "(others)": 4.0}
    assert "ann" not in str(told) and "carol" not in str(told)
    assert set(rows(served, BOB, by="account")[0]) == {"of-bob", "(others)"}
    assert set(rows(served, ROOT)[0]) == {"ann", "bob", "carol"}
    as_privacy(served, "names")
    assert set(rows(served, BOB)[0]) == {"ann", "bob", "carol"}


def test_who_is_idle_now_the_longest_first(served):
    now = clock.now()
    short = ran(served, ANN, 1, 9, None, JobState.RUNNING, idle_since=now - HOUR)
    long = ran(served, BOB, 2, 9, None, JobState.RUNNING, idle_since=now - 2 * HOUR)
    ran(served, BOB, 2, 9, None, JobState.RUNNING)
    assert [job["job_id"] for job in rows(served)[1]["idle"]] == [long, short]
    as_privacy(served, "none")
    idle = rows(served, ANN)[1]["idle"]
    assert [(job["user"], job["name"]) for job in idle] == [("", ""), ("ann", "train")]


def test_how_nodes_did(served):
    now = clock.now()
    ran(served, ANN, 1, 10, 2, JobState.NODE_FAIL, failure=FailureClass.NODE_LOST)
    with served.store.write() as w:
        for ago_h, what, detail in (
            (48, "node UP", ""),
            (24, "GPU suspect", "GPU-1"),
            (23, "GPU suspect", "GPU-1"),
            (12, "node DOWN", "no route"),
            (0, "node UP", ""),
        ):
            w.audit(Audit(now - ago_h * HOUR, "master", what, None, NodeName("gpu01"), detail))
    one, other = rows(served)[1]["nodes"]
    assert (one["node_id"], one["downs"], one["job_failures"], one["suspect"]) == ("gpu01", 1, 1, 1)
    assert one["up"] == pytest.approx(0.75, abs=0.001)
    assert (other["node_id"], other["up"], other["downs"]) == ("gpu02", None, 0)
