"""What GPUs did: the readings of probes, put together by the minute, and what jobs made of the GPUs they held. Pure.

    GpuReading -> Entry (a GPU in a bucket of time) -> coarser entries
    GpuReading -> PartUse (of a part of an attempt)

An entry holds sums and a maximum alone, so it does not matter in which order readings come, nor in how many steps they
are put together. What counts for a job is what its GPUs tell while it is RUNNING. A reading speaks for the time since
the one before it, but for no more than that of a few missed ones: what nobody looked at is not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from mgpu.core.devices import NO_UUID
from mgpu.core.model import AttemptState, DeviceUuid, JobId, Part, PartKey
from mgpu.core.observation import GpuReading, Observation
from mgpu.core.plan import DeviceState

FINE_S, COARSE_S = 60, 900  # of a bucket
FINE_KEPT_S = 26 * 3600.0
COARSE_KEPT_S = 35 * 86_400.0
NOBODY = JobId(0)


class Key(NamedTuple):
    """`job_id`: who held it; NOBODY = no job, or a coarse bucket, in which many may have."""

    uuid: DeviceUuid
    job_id: JobId


class Entry(NamedTuple):
    """So many readings of a GPU, so many of which found it allocated, external or free (the others: unhealthy, or
    nobody could tell). `measured` of them told a utilisation, `percent` is the sum of these. `memory_mib` is the most
    that any of them told."""

    readings: int
    allocated: int
    external: int
    free: int
    measured: int
    percent: int
    memory_mib: int | None

    @classmethod
    def of(cls, sums: Iterable[int], memory_mib: int | None) -> Entry:
        readings, allocated, external, free, measured, percent = sums
        return cls(readings, allocated, external, free, measured, percent, memory_mib)

    @property
    def sums(self) -> tuple[int, ...]:
        return self[:6]

    @property
    def utilization(self) -> float | None:
        return self.percent / self.measured if self.measured else None

    @property
    def state(self) -> DeviceState:
        """In which it was found most."""
        counts = {
            DeviceState.ALLOCATED: self.allocated,
            DeviceState.EXTERNAL: self.external,
            DeviceState.FREE: self.free,
            DeviceState.UNKNOWN: self.readings - self.allocated - self.external - self.free,
        }
        return max(counts, key=lambda state: counts[state])


Entries = Mapping[Key, Entry]
_NOTHING = Entry(0, 0, 0, 0, 0, 0, None)


def bucket_of(at: float, length_s: int) -> int:
    """When the bucket began that this moment lies in."""
    return int(at // length_s) * length_s


def with_reading(entry: Entry | None, reading: GpuReading, state: DeviceState) -> Entry:
    """What a bucket says of a GPU with one more reading of it. Done for each GPU at each look."""
    readings, allocated, external, free, measured, percent, memory = entry or _NOTHING
    told = reading.utilization
    return Entry(
        readings + 1,
        allocated + (state is DeviceState.ALLOCATED),
        external + (state is DeviceState.EXTERNAL),
        free + (state is DeviceState.FREE),
        measured + (told is not None),
        percent + (0 if told is None else min(max(told, 0), 100)),
        most(memory, reading.memory_used_mib),
    )


def together(one: Entry, other: Entry) -> Entry:
    sums = (mine + others for mine, others in zip(one.sums, other.sums, strict=True))
    return Entry.of(sums, most(one.memory_mib, other.memory_mib))


def most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def add(into: dict[Key, Entry], more: Iterable[tuple[Key, Entry]]) -> None:
    for key, entry in more:
        before = into.get(key)
        into[key] = entry if before is None else together(before, entry)


def rolled(buckets: Iterable[Entries]) -> dict[Key, Entry]:
    """All of them as one coarser bucket, in which it is no longer told who held a GPU."""
    found: dict[Key, Entry] = {}
    for entries in buckets:
        add(found, ((key._replace(job_id=NOBODY), entry) for key, entry in entries.items()))
    return found


def by_device(observation: Observation) -> dict[DeviceUuid, GpuReading]:
    """As views name them: a GPU that tells no UUID by its index."""
    return {gpu.uuid or DeviceUuid(f"{NO_UUID}{gpu.index}"): gpu for gpu in observation.gpus}


# --- what a job makes of its GPUs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdleRule:
    """A job is idle once each of its GPUs was under `below` percent for `after_s`, at every look. Infinite = never."""

    after_s: float = 1800.0
    below: int = 5


@dataclass(frozen=True, slots=True)
class PartUse:
    """Of a part. Its seconds are those of one GPU each: two GPUs for a minute are 120. `busy_s`: the measured ones
    times their utilisation; `idle_s`: those of them in which a GPU was under the limit, whatever the others did.

    `idle_since`: since then every look found all its GPUs under the limit, `quiet_s` of which were really looked at: so
    a clock that is set, or a master that was away, makes no job idle."""

    job_id: JobId
    attempt: int
    rank: int
    measured_s: float = 0.0
    busy_s: float = 0.0
    idle_s: float = 0.0
    memory_mib: int | None = None  # the most of any GPU
    idle_since: float | None = None
    quiet_s: float = 0.0

    @property
    def key(self) -> PartKey:
        return PartKey(self.job_id, self.attempt, self.rank)


def span_s(gap_s: float | None, running_s: float, longest_s: float) -> float:
    """How long a reading speaks for. `gap_s`: since the one before it, None = nobody knows of one; `running_s`: since
    the part began (less than 0 where the clock was set back)."""
    if gap_s is None:
        return 0.0
    return max(0.0, min(gap_s, longest_s, running_s if running_s >= 0 else inf))


def used(use: PartUse, readings: Sequence[GpuReading | None], seconds: float, now: float, rule: IdleRule) -> PartUse:
    """`readings` of each of its GPUs, None = not seen. One that tells no utilisation is not measured; as long as there
    is one, nobody can say that the job does nothing."""
    told = [reading.utilization for reading in readings if reading is not None and reading.utilization is not None]
    under = sum(percent < rule.below for percent in told)
    memory = use.memory_mib
    for reading in readings:
        memory = most(memory, reading.memory_used_mib if reading is not None else None)
    after = replace(
        use,
        measured_s=use.measured_s + seconds * len(told),
        busy_s=use.busy_s + seconds * sum(min(max(percent, 0), 100) for percent in told) / 100,
        idle_s=use.idle_s + seconds * under,
        memory_mib=memory,
    )
    if under < len(told):
        return replace(after, idle_since=None, quiet_s=0.0)
    if not readings or len(told) < len(readings):
        return after
    if use.idle_since is None:
        return replace(after, idle_since=now - seconds, quiet_s=seconds)
    return replace(after, idle_since=min(use.idle_since, now), quiet_s=use.quiet_s + seconds)


def within(use: PartUse, most_s: float) -> PartUse:
    """Of a part that is over, which had its GPUs for `most_s` together: no more than that. The master goes on counting
    until it hears of the end."""
    if use.measured_s <= most_s:
        return use
    part = max(0.0, most_s) / use.measured_s
    measured_s, busy_s, idle_s = use.measured_s * part, use.busy_s * part, use.idle_s * part
    return replace(use, measured_s=measured_s, busy_s=busy_s, idle_s=idle_s)


def idle_since(use: PartUse, rule: IdleRule) -> float | None:
    """Once it is so for long enough."""
    return use.idle_since if use.idle_since is not None and use.quiet_s >= rule.after_s else None


def job_idle_since(parts: Iterable[Part]) -> float | None:
    """Of a job, once all parts that hold GPUs are: since the last of them is."""
    holding = [part for part in parts if part.uuids]
    since = [part.idle_since for part in holding if part.state is AttemptState.RUNNING and part.idle_since is not None]
    return max(since) if since and len(since) == len(holding) else None


# --- what is shown of it --------------------------------------------------------------------------------------------

MOST_POINTS = 500


class Point(NamedTuple):
    """`gpus` that were looked at; `memory_mib` of the one that had most."""

    at: int
    gpus: int
    utilization: float | None
    memory_mib: int | None
    state: DeviceState


def step_for(seconds: float, length_s: int) -> int:
    """Of so many buckets in a point that there are no more than MOST_POINTS: a multiple of `length_s`."""
    return max(1, -(-int(seconds // length_s + 1) // (MOST_POINTS - 1))) * length_s


def points(buckets: Iterable[tuple[int, Entries]], step_s: int) -> list[Point]:
    """Each GPU counts alike, however often it was read. Oldest first."""
    found: dict[int, dict[DeviceUuid, Entry]] = {}
    for start, entries in buckets:
        at = found.setdefault(bucket_of(start, step_s), {})
        for key, entry in entries.items():
            before = at.get(key.uuid)
            at[key.uuid] = entry if before is None else together(before, entry)
    return [_point(at, found[at]) for at in sorted(found) if found[at]]


def _point(at: int, gpus: Mapping[DeviceUuid, Entry]) -> Point:
    told = [entry.utilization for entry in gpus.values() if entry.utilization is not None]
    memory = None
    for entry in gpus.values():
        memory = most(memory, entry.memory_mib)
    states = [entry.state for entry in gpus.values()]
    return Point(at, len(gpus), sum(told) / len(told) if told else None, memory, max(set(states), key=states.count))


def of_job(entries: Entries, held: Iterable[DeviceUuid], holder: JobId) -> dict[Key, Entry]:
    """What counts for the job that held these. `holder`: the job, or NOBODY where a bucket does not tell."""
    return {key: entries[key] for uuid in held if (key := Key(uuid, holder)) in entries}
