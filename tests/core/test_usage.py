"""Readings by the minute, and what jobs make of the GPUs that they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core import usage
from mgpu.core.model import AttemptState, DeviceUuid, JobId
from mgpu.core.observation import GpuReading
from mgpu.core.plan import DeviceState
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, Entry, IdleRule, Key, PartUse, Point
from tests.store.stored_values import part

GPU, OTHER = DeviceUuid("GPU-0"), DeviceUuid("GPU-1")
RULE = IdleRule(after_s=120.0, below=5)
NEW = PartUse(JobId(7), 1, 0)
NOW = 1_800_000_000.0


def reading(utilization: int | None, memory_mib: int | None = 512, uuid: DeviceUuid = GPU) -> GpuReading:
    return GpuReading(0, uuid, "", "A100", 81_920, memory_mib, utilization)


looks = st.lists(
    st.tuples(
        st.integers(0, 2 * COARSE_S - 1),  # when
        st.sampled_from([GPU, OTHER]),
        st.sampled_from([NOBODY, JobId(7), JobId(8)]),
        st.none() | st.integers(0, 100),
        st.none() | st.integers(0, 81_920),
        st.sampled_from(list(DeviceState)),
    ),
    max_size=40,
)


def minutes(found):
    buckets: dict[int, dict[Key, Entry]] = {}
    for at, uuid, job_id, percent, memory, state in found:
        entries, key = buckets.setdefault(usage.bucket_of(at, FINE_S), {}), Key(uuid, job_id)
        entries[key] = usage.with_reading(entries.get(key), reading(percent, memory), state)
    return buckets


@given(looks, st.randoms(use_true_random=False))
def test_the_order_of_looks_makes_no_difference(found, dice):
    shuffled = list(found)
    dice.shuffle(shuffled)
    assert minutes(shuffled) == minutes(found)


@given(looks)
def test_rolling_keeps_sums_and_maxima(found):
    fine = minutes(found)
    for start in (0, COARSE_S):
        coarse = usage.rolled(entries for at, entries in fine.items() if usage.bucket_of(at, COARSE_S) == start)
        for uuid in (GPU, OTHER):
            told = [one for one in found if one[1] == uuid and usage.bucket_of(one[0], COARSE_S) == start]
            entry = coarse.get(Key(uuid, NOBODY))
            assert (entry is None) == (not told)
            if entry is None:
                continue
            percents = [one[3] for one in told if one[3] is not None]
            assert (entry.readings, entry.measured, entry.percent) == (len(told), len(percents), sum(percents))
            assert entry.memory_mib == max((one[4] for one in told if one[4] is not None), default=None)
            for state in (DeviceState.ALLOCATED, DeviceState.EXTERNAL, DeviceState.FREE):
                assert getattr(entry, state.value) == sum(one[5] is state for one in told)


@given(looks)
def test_rolling_in_two_steps_is_rolling_once(found):
    fine = list(minutes(found).values())
    half = len(fine) // 2
    assert usage.rolled([usage.rolled(fine[:half]), usage.rolled(fine[half:])]) == usage.rolled(fine)


def test_a_bucket_is_in_the_state_that_most_looks_found():
    assert Entry(5, 3, 1, 1, 0, 0, None).state is DeviceState.ALLOCATED
    assert Entry(5, 0, 2, 1, 0, 0, None).state is DeviceState.EXTERNAL
    assert Entry(5, 0, 0, 1, 0, 0, None).state is DeviceState.UNKNOWN
    assert Entry(3, 0, 0, 3, 0, 0, None).utilization is None


@pytest.mark.parametrize(
    "gap_s, running_s, seconds",
    [
        (30.0, 3600.0, 30.0),
        (30.0, 12.0, 12.0),  # it began in between
        (900.0, 3600.0, 120.0),  # looks were missed
        (None, 3600.0, 0.0),  # the first of this master
        (30.0, -500.0, 30.0),  # the clock was set back
        (-1.0, 3600.0, 0.0),
    ],
)
def test_what_a_reading_speaks_for(gap_s, running_s, seconds):
    assert usage.span_s(gap_s, running_s, 120.0) == seconds


def test_the_use_of_two_gpus_by_hand():
    use = usage.used(NEW, [reading(80, 1000), reading(2, 3000)], 30.0, NOW, RULE)
    use = usage.used(use, [reading(60, 2000), reading(None, None)], 10.0, NOW + 10, RULE)
    assert use.measured_s == 60.0 + 10.0
    assert use.busy_s == pytest.approx(30 * 0.82 + 10 * 0.6)
    assert (use.idle_s, use.memory_mib, use.idle_since) == (30.0, 3000, None)


def test_it_is_idle_once_all_its_gpus_were_for_long_enough():
    use = NEW
    for number in range(1, 4):
        use = usage.used(use, [reading(0), reading(4)], 30.0, NOW + 30 * number, RULE)
        assert usage.idle_since(use, RULE) is None
    use = usage.used(use, [reading(0), reading(4)], 30.0, NOW + 120, RULE)
    assert usage.idle_since(use, RULE) == NOW
    assert usage.idle_since(use, IdleRule(float("inf"))) is None
    use = usage.used(use, [reading(0), reading(5)], 30.0, NOW + 150, RULE)
    assert usage.idle_since(use, RULE) is None
    assert (use.idle_s, use.quiet_s) == (270.0, 0.0)


def test_what_does_not_tell_its_utilisation_is_not_idle_but_unmeasured():
    use = NEW
    for number in range(20):
        use = usage.used(use, [reading(0), reading(None)], 30.0, NOW + 30 * number, RULE)
    assert usage.idle_since(use, RULE) is None
    use = usage.used(NEW, [None, None], 30.0, NOW, RULE)
    assert use == NEW
    assert usage.used(NEW, [], 30.0, NOW, RULE) == NEW


def test_one_look_that_tells_nothing_ends_no_idle_time():
    use = NEW
    for number in range(1, 7):
        told = [reading(None)] if number == 3 else [reading(0)]
        use = usage.used(use, told, 30.0, NOW + 30 * number, RULE)
    assert usage.idle_since(use, RULE) == NOW
    assert use.quiet_s == 150.0


def test_a_clock_that_is_set_makes_no_job_idle_and_none_since_the_future():
    use = usage.used(NEW, [reading(0)], 30.0, NOW, RULE)
    use = usage.used(use, [reading(0)], 30.0, NOW + 86_400, RULE)
    assert usage.idle_since(use, RULE) is None
    for _ in range(3):
        use = usage.used(use, [reading(0)], 30.0, NOW - 5000, RULE)
    assert usage.idle_since(use, RULE) == NOW - 5000


@given(
    st.lists(
        st.tuples(st.floats(0.0, 600.0), st.none() | st.integers(0, 100), st.floats(-1e6, 1e6)), min_size=1, max_size=40
    )
)
def test_whatever_clocks_and_gpus_do_what_was_measured_holds_together(looks):
    use, quiet_s, now = NEW, 0.0, NOW
    for seconds, percent, jump_s in looks:
        now += seconds + jump_s
        use = usage.used(use, [reading(percent)], seconds, now, RULE)
        quiet_s = 0.0 if percent is not None and percent >= 5 else quiet_s + seconds * (percent is not None)
        assert (usage.idle_since(use, RULE) is not None) == (quiet_s >= RULE.after_s and use.idle_since is not None)
        assert use.idle_since is None or use.idle_since <= now or percent is None
    told = [(seconds, percent) for seconds, percent, _ in looks if percent is not None]
    assert use.measured_s == pytest.approx(sum(seconds for seconds, _ in told))
    assert use.busy_s == pytest.approx(sum(seconds * percent / 100 for seconds, percent in told))
    assert use.idle_s == pytest.approx(sum(seconds for seconds, percent in told if percent < 5))
    assert use.busy_s <= use.measured_s + 1e-6


def test_a_job_is_idle_once_all_its_parts_are():
    runs = AttemptState.RUNNING
    one, two = part(JobId(7), 0, state=runs, idle_since=50.0), part(JobId(7), 1, rank=1, state=runs, idle_since=80.0)
    without = part(JobId(7), rank=2, state=runs)
    assert usage.job_idle_since([one, two, without]) == 80.0
    assert usage.job_idle_since([one, replace(two, idle_since=None)]) is None
    assert usage.job_idle_since([one, replace(two, state=AttemptState.LOST)]) is None
    assert usage.job_idle_since([without]) is None


def test_points_count_each_gpu_alike():
    often, seldom = Entry(4, 4, 0, 0, 4, 400, 100), Entry(1, 1, 0, 0, 1, 0, 900)
    untold = Entry(2, 2, 0, 0, 0, 0, None)
    held = DeviceState.ALLOCATED
    job = Key(GPU, JobId(7)), Key(OTHER, JobId(7))
    buckets = [(60, {job[0]: often, job[1]: seldom}), (0, {job[0]: untold}), (120, {})]
    assert usage.points(buckets, 60) == [Point(0, 1, None, None, held), Point(60, 2, 50.0, 900, held)]
    assert usage.points(buckets, 120) == [Point(0, 2, 50.0, 900, held)]


def test_only_what_the_job_held_counts_for_it():
    entry = Entry(1, 1, 0, 0, 1, 50, None)
    minute = {Key(GPU, JobId(7)): entry, Key(GPU, JobId(6)): entry, Key(OTHER, JobId(7)): entry}
    assert list(usage.of_job(minute, [GPU], JobId(7))) == [Key(GPU, JobId(7))]
    assert list(usage.of_job(usage.rolled([minute]), [GPU], NOBODY)) == [Key(GPU, NOBODY)]


@given(st.floats(0, 400 * 86_400), st.sampled_from([FINE_S, COARSE_S]))
def test_points_are_never_too_many(seconds, length_s):
    step_s = usage.step_for(seconds, length_s)
    assert step_s % length_s == 0
    assert int(seconds // step_s) + 2 <= usage.MOST_POINTS + 1
