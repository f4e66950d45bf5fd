"""Health and metrics: the format to the letter, true numbers, and no label that somebody could invent."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest

from mgpu import clock
from mgpu.client import http
from mgpu.core.model import FailureClass, JobState, NodeName
from mgpu.core.observation import Node
from mgpu.meters import Contact, Histogram, Meters
from tests.api.conftest import NODES, Served, observation

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HEAD = re.compile(rf"# (?:HELP ({NAME}) \S.*|TYPE ({NAME}) (counter|gauge|histogram|summary))")
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{NAME}="(?:[^"\\\n]|\\[\\"n])*",?)*)\}})? (\S+)')
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\[\\"n])*)"')
KNOWN = {"le", "version", "wire", "schema", "state", "class", "node", "method", "route", "status", "result"}

Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def parsed(text: str) -> tuple[Samples, dict[str, str]]:
    """Samples by name and labels, and the type of each family. A line that is none fails."""
    found: Samples = defaultdict(dict)
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("#"):
            head = HEAD.fullmatch(line)
            assert head, line
            if head[2]:
                assert head[2] not in kinds, f"twice: {line}"
                kinds[head[2]] = head[3]
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        labels = frozenset(LABEL.findall(sample[2] or ""))
        assert labels not in found[sample[1]], f"twice: {line}"
        family = sample[1] if sample[1] in kinds else re.sub("_(sum|count|bucket)$", "", sample[1])
        assert family == list(kinds)[-1], f"not below its head: {line}"
        found[sample[1]][labels] = float(sample[3])
    return found, kinds


def scrape(served: Served) -> tuple[Samples, dict[str, str]]:
    answer = http.request(served.endpoint, "GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.body.decode())


def one(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][frozenset(labels.items())]


@pytest.fixture
def busy(served: Served) -> Served:
    meters = served.desk.meters
    served.store.listen(meters.happened)
    stored = {name: Node(name, served_state(served, name), observation=observation(name, 1.0)) for name in NODES}
    meters.nodes, meters.views = (lambda: stored), served.desk.views
    meters.contacts = lambda: {NODES[0]: Contact(2, 7, 5)}
    meters.probed(NODES[0], 0.25)
    meters.probed(NODES[0], 0.75)
    meters.probed(NODES[1], None)
    meters.failed([FailureClass.NODE, FailureClass.NONE, FailureClass.EXIT])
    meters.passed(10.0, 10.003, "")
    return served


def served_state(served: Served, name: NodeName):
    with served.store.read() as reader:
        return reader.node(name).state


def test_metrics_parse_and_are_true(busy):
    job_id = busy.submit(gpus="1")
    busy.submit("1" * 8, gpus="1", job_name="secretive")
    with busy.store.write() as writer:
        waits = writer.job(job_id)
        over = replace(
            waits, state=JobState.COMPLETED, attempt=1, start_time=waits.submit_time + 7, end_time=clock.now()
        )
        writer.save_job(over, waits)
    busy.ask("GET", "/v1/jobs/17")
    http.request(busy.endpoint, "GET", "/no/such/place")
    samples, kinds = scrape(busy)
    assert one(samples, "mgpu_jobs", state="PENDING") == 1
    assert one(samples, "mgpu_jobs_submitted_total") == 2
    assert one(samples, "mgpu_jobs_ended_total", state="COMPLETED") == 1
    assert one(samples, "mgpu_jobs_ended_total", state="NODE_FAIL") == 0
    assert one(samples, "mgpu_job_wait_seconds_sum") == 7
    assert one(samples, "mgpu_attempt_failures_total", **{"class": "node"}) == 1
    assert one(samples, "mgpu_node_probe_duration_seconds_sum", node="gpu01") == 1.0
    assert one(samples, "mgpu_node_probe_duration_seconds_count", node="gpu01") == 2
    assert one(samples, "mgpu_node_probe_failures_total", node="gpu02") == 1
    assert one(samples, "mgpu_node_logins_total", node="gpu01") == 5
    assert one(samples, "mgpu_gpus", node="gpu01", state="external") == 1
    assert one(samples, "mgpu_node_gpu_utilization_ratio", node="gpu01") == 0.03
    assert one(samples, "mgpu_tick_duration_seconds_bucket", le="0.0025") == 0
    assert one(samples, "mgpu_tick_duration_seconds_bucket", le="0.005") == 1
    assert one(samples, "mgpu_http_requests_total", method="GET", route="/v1/jobs/{job}", status="404") == 1
    assert one(samples, "mgpu_http_requests_total", method="GET", route="none", status="404") == 1
    assert one(samples, "mgpu_database_bytes") > 0
    assert kinds["mgpu_job_wait_seconds"] == "histogram"
    named = {label for family in samples.values() for labels in family for label, _ in labels}
    assert named <= KNOWN
    assert "secretive" not in str(samples)


def test_histograms_hold_together(busy):
    samples, kinds = scrape(busy)
    for name in (name for name, kind in kinds.items() if kind == "histogram"):
        buckets = {dict(labels)["le"]: value for labels, value in samples[f"{name}_bucket"].items()}
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets["+Inf"] == one(samples, f"{name}_count")


def test_a_value_on_a_bound_counts_below_it():
    found = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 9.0):
        found.add(value)
    assert (found.cumulative(), found.total) == ([2, 4, 5], 13.5)


def test_what_recent_passes_stayed_within():
    meters = Meters()
    assert meters.recent(50) == []
    for number in range(100):
        meters.passed(0.0, float(number), "")
    assert meters.recent(50, 99, 100) == [49.0, 98.0, 99.0]


def failing(served: Served) -> dict[str, str]:
    status, told = served.ask("GET", "/v1/health")
    assert status == 503
    return told


def test_health_is_of_the_passes_and_of_the_store(served, monkeypatch):
    meters = served.desk.meters
    assert served.ask("GET", "/v1/health") == (200, {"status": "ok"})
    meters.passed(0.0, clock.monotonic() - 10_000, "")
    told = failing(served)
    assert re.fullmatch(r"the last pass was over 1000\d s ago", told["reason"])
    meters.passed(0.0, clock.monotonic(), "no space left on the disk; make room")
    assert failing(served) == {
        "status": "failing",
        "reason": "the last pass failed: no space left on the disk; make room",
    }
    meters.passed(0.0, clock.monotonic(), "")
    assert served.ask("GET", "/v1/health")[1] == {"status": "ok"}


def test_a_damaged_database_is_no_health(served):
    served.desk.meters.passed(0.0, clock.monotonic(), "")
    served.store.close()  # what readers remember goes with their connections
    served.store.path.write_bytes(b"x" * 100_000)
    told = failing(served)
    assert "mgpu.db" in told["reason"]


def test_status_has_its_numbers(busy):
    answer = busy.ask("GET", "/v1/status")[1]
    assert answer["gpus"] == {"free": 3, "allocated": 0, "external": 1, "unhealthy": 0, "unknown": 0}
    assert {"last_s": 0.003, "p50_s": 0.003, "p99_s": 0.003}.items() <= answer["tick"].items()
    assert {"ssh": 2, "shells": 7, "streams": 0}.items() <= answer["connections"].items()
    assert answer["connections"]["clients"] >= 1
    assert set(answer["disk"]) == {"database_bytes", "spool_bytes", "free_bytes"}
    assert JobState.PENDING.value in answer["queue"]
