"""Samples as they are stored: packed, merged, rolled up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.model import AttemptState, DeviceUuid, JobId, NodeName
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, Entry, Key, PartUse
from mgpu.store import samples
from mgpu.store.check import check
from mgpu.store.store import Store
from tests.store.stored_values import NODE, attempt, job, part

GPUS = tuple(DeviceUuid(f"GPU-{index}") for index in range(4))
PLACES = {uuid: index for index, uuid in enumerate(GPUS)}
NOW = 1_800_000_900.0  # begins a quarter of an hour
START = int(NOW)

counts = st.integers(0, 1 << 40)
entries = st.dictionaries(
    st.builds(Key, st.sampled_from(GPUS), st.integers(0, 1 << 31).map(JobId)),
    st.builds(Entry, counts, counts, counts, counts, counts, counts, st.none() | counts),
    max_size=8,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path / "mgpu.db")
    yield made
    made.close()


@given(entries)
def test_what_is_packed_comes_back(found):
    packed = samples.pack(found, {uuid: 200 + index for uuid, index in PLACES.items()})
    assert samples.unpack(packed, {200 + index: uuid for uuid, index in PLACES.items()}) == found
    assert samples.unpack(packed, {}) == {}
    if found:
        with pytest.raises(ValueError, match="cut off"):
            samples.unpack(packed[:-1] + b"\x80", {})


def entry(percent: int, readings: int = 1) -> Entry:
    return Entry(readings, readings, 0, 0, readings, percent, 512)


def test_a_minute_that_comes_in_two_halves_is_one(store):
    key, other = Key(GPUS[0], JobId(7)), Key(GPUS[1], NOBODY)
    with store.write() as w:
        samples.put(w, NODE, {START: {key: entry(80)}}, PLACES, NOW)
        samples.put(w, NODE, {START: {key: entry(20), other: entry(0)}, START + 60: {key: entry(5)}}, PLACES, NOW)
    with store.read() as r:
        found = dict(samples.buckets(r, NODE, FINE_S, NOW, NOW + 60))
    assert found == {START: {key: entry(100, 2), other: entry(0)}, START + 60: {key: entry(5)}}


def test_rolled_again_where_more_came_later(store):
    key, rolled = Key(GPUS[0], JobId(7)), Key(GPUS[0], NOBODY)
    with store.write() as w:
        samples.put(w, NODE, {START + 60 * number: {key: entry(number)} for number in range(16)}, PLACES, NOW)
        assert samples.unrolled(w, NOW + 1800) == {(NODE, START), (NODE, START + COARSE_S)}
        samples.roll(w, NODE, START, NOW)
        assert samples.unrolled(w, NOW + 1800) == {(NODE, START + COARSE_S)}
        samples.put(w, NODE, {START: {key: entry(95)}}, PLACES, NOW)  # the clock was set back
        samples.roll(w, NODE, START, NOW)
        assert dict(samples.buckets(w, NODE, COARSE_S, NOW, NOW)) == {START: {rolled: entry(105 + 95, 16)}}


def test_each_node_has_gpus_of_its_own(store):
    there = NodeName("gpu02")
    with store.write() as w:
        for node, percent in ((NODE, 10), (there, 20)):
            samples.put(w, node, {START: {Key(GPUS[0], NOBODY): entry(percent)}}, {GPUS[0]: 0}, NOW)
        samples.put(w, NODE, {START + 60: {Key(GPUS[0], NOBODY): entry(1)}}, {GPUS[0]: 3}, NOW)
    with store.read() as r:
        assert [(one.uuid, one.shown_index) for one in samples.sampled(r, NODE)] == [(GPUS[0], 3)]
        assert dict(samples.buckets(r, there, FINE_S, NOW, NOW)) == {START: {Key(GPUS[0], NOBODY): entry(20)}}


def test_a_gpu_with_a_strange_name_is_kept(store):
    strange = DeviceUuid("GPU-\udcff")
    with store.write() as w:
        samples.put(w, NODE, {START: {Key(strange, NOBODY): entry(10)}}, {strange: 0}, NOW)
        assert len(dict(samples.buckets(w, NODE, FINE_S, NOW, NOW))[START]) == 1


def test_a_node_whose_gpus_are_called_otherwise_each_time_fills_no_table(store, monkeypatch):
    monkeypatch.setattr(samples, "MOST_DEVICES", 3)
    for number in range(5):
        uuid = DeviceUuid(f"MIG-{number}")
        with store.write() as w:
            samples.put(w, NODE, {START + 60 * number: {Key(uuid, NOBODY): entry(number)}}, {uuid: 0}, NOW)
    with store.read() as r:
        assert len(samples.sampled(r, NODE)) == 3
        found = dict(samples.buckets(r, NODE, FINE_S, NOW, NOW + 600))
    assert [bool(entries) for entries in found.values()] == [True, True, True, False, False]


def test_use_is_kept_of_parts_that_there_are(store):
    with store.write() as w:
        job_id, _ = w.add_job(job("a"))
        w.add_attempt(attempt(job_id), [part(job_id, 0, state=AttemptState.RUNNING)])
        use = PartUse(job_id, 1, 0, 60.0, 30.0, 0.0, 512, 5.0, 60.0)
        samples.save_uses(w, [PartUse(job_id, 1, 0), use, PartUse(job_id, 2, 0), PartUse(JobId(99), 1, 0)])
        assert samples.uses_of(w, [job_id, JobId(99)]) == [use]


def test_of_a_part_that_is_over_no_more_is_told_than_it_had(store):
    with store.write() as w:
        job_id, _ = w.add_job(job("a"))
        runs = part(job_id, 0, 1, state=AttemptState.RUNNING, started=1000.0)
        w.add_attempt(attempt(job_id), [runs])
        use = PartUse(job_id, 1, 0, measured_s=400.0, busy_s=200.0, idle_s=100.0)
        samples.save_uses(w, [use])
        assert samples.uses_of(w, [job_id]) == [use]
        w.save_part(replace(runs, state=AttemptState.ENDED, ended=1100.0), runs)
        assert samples.uses_of(w, [job_id]) == [replace(use, measured_s=200.0, busy_s=100.0, idle_s=50.0)]


def test_db_check_looks_at_samples(store, tmp_path):
    with store.write() as w:
        samples.put(w, NODE, {START: {Key(GPUS[0], NOBODY): entry(10)}}, PLACES, NOW)
    names = ("samples", "entries")
    assert [one.status for one in check(store.path, tmp_path) if one.check in names] == ["ok", "ok"]
    with store.write() as w:
        w.driver.execute("INSERT INTO samples VALUES ('gpu01', 900, ?, x'80')", (START,))
        w.driver.execute("INSERT INTO samples VALUES ('nowhere', 60, 7, x'')")
    told = {one.check: one.text for one in check(store.path, tmp_path) if one.check in names}
    assert told["samples"].startswith("a sample of nowhere, of 60 s from 7")
    assert "of gpu01, of 900 s" in told["entries"]
