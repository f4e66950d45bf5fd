"""Samples of GPUs: a row per node and bucket with the entries of all its GPUs (see core.usage), and the use of parts.

An entry is nine numbers, seven bits of them in a byte: number of the GPU, job, readings, allocated, external, free,
measured, percent, memory + 1 (0 = not told). Of 100 nodes with 8 GPUs each a row takes some 130 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.usage import COARSE_S, FINE_S, Entries, Entry, Key, PartUse, add, bucket_of, rolled, within
from mgpu.store.filters import each_of
from mgpu.store.reading import Reader
from mgpu.store.rows import columns, from_row, to_row
from mgpu.store.tables import uses, written_out
from mgpu.store.writing import Writer

DAY_S = 86_400.0
MOST_DEVICES = 1000  # of a node that have a number
AHEAD_S = 86_400.0  # what lies so far in the future a clock that was wrong has left

Numbers = Mapping[DeviceUuid, int]
_FIELDS = 9
_ONE = "SELECT entries FROM samples WHERE node = ? AND length_s = ? AND start = ?"
_USE = ", ".join(column.name for column in columns(PartUse, uses))


class Bucket(NamedTuple):
    """Of a node."""

    node: NodeName
    length_s: int
    start: int


class Sampled(NamedTuple):
    """A GPU of which there are samples."""

    number: int
    uuid: DeviceUuid
    shown_index: int | None


# --- packing --------------------------------------------------------------------------------------------------------


def pack(entries: Entries, numbers: Numbers) -> bytes:
    """Without what is of a GPU that has no number."""
    packed = bytearray()
    for key, entry in entries.items():
        number = numbers.get(DeviceUuid(written_out(key.uuid)))
        if number is None:
            continue
        memory = 0 if entry.memory_mib is None else max(entry.memory_mib, 0) + 1
        for value in (number, key.job_id, *entry.sums, memory):
            left = value
            while left > 0x7F:
                packed.append(left & 0x7F | 0x80)
                left >>= 7
            packed.append(left)
    return bytes(packed)


def unpack(packed: bytes, uuids: Mapping[int, DeviceUuid]) -> dict[Key, Entry]:
    """Without what is of a GPU that nobody knows. Raises ValueError where it is cut off."""
    found: dict[Key, Entry] = {}
    values: list[int] = []
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        if byte > 0x7F:
            shift += 7
            continue
        values.append(value)
        value = shift = 0
        if len(values) == _FIELDS:
            number, job_id, *sums, memory = values
            if number in uuids:
                entry = Entry.of(sums, memory - 1 if memory else None)
                add(found, [(Key(uuids[number], JobId(job_id)), entry)])
            values = []
    if values or shift:
        raise ValueError("an entry is cut off")
    return found


# --- samples --------------------------------------------------------------------------------------------------------


def sampled(reader: Reader, node: NodeName) -> list[Sampled]:
    query = "SELECT number, uuid, shown_index FROM sampled_devices WHERE node = ? ORDER BY shown_index, number"
    rows = reader.driver.execute(query, (written_out(node),))
    return [Sampled(number, DeviceUuid(uuid), index) for number, uuid, index in rows]


def buckets(
    reader: Reader, node: NodeName, length_s: int, since: float, until: float, every_s: int = 0
) -> Iterator[tuple[int, dict[Key, Entry]]]:
    """Of that length, from the one that `since` lies in until the one of `until`; of longer stretches those alone that
    begin at a multiple of `every_s`."""
    uuids = {one.number: one.uuid for one in sampled(reader, node)}
    query = """SELECT start, entries FROM samples WHERE node = ? AND length_s = ? AND start BETWEEN ? AND ?
        AND start % ? = 0 ORDER BY start"""
    named = (written_out(node), length_s, bucket_of(since, length_s), int(until), every_s or length_s)
    for start, packed in reader.driver.execute(query, named):
        yield start, unpack(packed, uuids)


def put(
    writer: Writer, node: NodeName, fine: Mapping[int, Entries], places: Mapping[DeviceUuid, int | None], now: float
) -> None:
    """More of these minutes, by when they began; `places`: the index of each GPU."""
    numbers = _numbered(writer, node, places, now)
    for start, entries in fine.items():
        bucket = Bucket(node, FINE_S, start)
        found = writer.driver.execute(_ONE, (written_out(node), *bucket[1:])).fetchone()
        merged = unpack(found[0], {number: uuid for uuid, number in numbers.items()}) if found else {}
        add(merged, entries.items())
        _save(writer, bucket, pack(merged, numbers))


def _save(writer: Writer, bucket: Bucket, packed: bytes) -> None:
    query = "INSERT OR REPLACE INTO samples (node, length_s, start, entries) VALUES (?, ?, ?, ?)"
    writer.driver.execute(query, (written_out(bucket.node), *bucket[1:], packed))


def _numbered(
    writer: Writer, node: NodeName, places: Mapping[DeviceUuid, int | None], now: float
) -> dict[DeviceUuid, int]:
    """Each has a number from now on, up to MOST_DEVICES of a node: instances of GPUs come and go, and are called
    otherwise each time."""
    asked = "SELECT uuid, number, shown_index, seen FROM sampled_devices WHERE node = ?"
    known = {row[0]: row[1:] for row in writer.driver.execute(asked, (written_out(node),))}
    news, room = False, MOST_DEVICES - len(known)
    for uuid, index in places.items():
        number, shown, seen = known.get(written_out(uuid), (None, None, 0.0))
        if number is not None and shown == index and abs(now - seen) < DAY_S:
            continue
        room -= number is None
        if number is None and room < 0:
            continue
        query = """INSERT INTO sampled_devices (node, uuid, shown_index, seen) VALUES (?, ?, ?, ?)
            ON CONFLICT (node, uuid) DO UPDATE SET shown_index = excluded.shown_index, seen = excluded.seen"""
        writer.driver.execute(query, (written_out(node), written_out(uuid), index, now))
        news = True
    if news:
        known = {row[0]: row[1:] for row in writer.driver.execute(asked, (written_out(node),))}
    return {DeviceUuid(uuid): row[0] for uuid, row in known.items()}


def roll(writer: Writer, node: NodeName, start: int, now: float) -> None:
    """The minutes of that quarter of an hour as one row; again, where more came later."""
    packed = rolled(entries for _, entries in buckets(writer, node, FINE_S, start, start + COARSE_S - FINE_S))
    if packed:
        numbers = _numbered(writer, node, {}, now)
        _save(writer, Bucket(node, COARSE_S, start), pack(packed, numbers))


def unrolled(reader: Reader, now: float) -> set[tuple[NodeName, int]]:
    """Quarters of an hour of which there are minutes alone: those after the last one that was rolled up."""
    last = "SELECT max(start) FROM samples WHERE node = ? AND length_s = ? AND start <= ?"
    later = "SELECT start FROM samples WHERE node = ? AND length_s = ? AND start >= ?"
    found = set()
    for node in _nodes(reader):
        rolled_up = reader.driver.execute(last, (node, COARSE_S, now)).fetchone()[0]
        begin = 0 if rolled_up is None else rolled_up + COARSE_S
        starts = reader.driver.execute(later, (node, FINE_S, begin))
        found |= {(NodeName(node), bucket_of(start, COARSE_S)) for (start,) in starts}
    return found


def _nodes(reader: Reader) -> list[str]:
    return [row[0] for row in reader.driver.execute("SELECT DISTINCT node FROM sampled_devices")]


def outdated(reader: Reader, now: float, kept: Mapping[int, float], most: int) -> list[Bucket]:
    """Buckets that are kept for so long no more (length -> seconds), or that a wrong clock has left; some of them."""
    found: list[Bucket] = []
    for node in _nodes(reader):
        for length_s, seconds in kept.items():
            for condition, bound in (("start < ?", now - seconds), ("start > ?", now + AHEAD_S)):
                query = f"SELECT start FROM samples WHERE node = ? AND length_s = ? AND {condition} LIMIT ?"
                rows = reader.driver.execute(query, (node, length_s, bound, most - len(found)))
                found += [Bucket(NodeName(node), length_s, row[0]) for row in rows]
                if len(found) >= most:
                    return found
    return found


def remove(writer: Writer, gone: Iterable[Bucket]) -> None:
    query = "DELETE FROM samples WHERE node = ? AND length_s = ? AND start = ?"
    writer.driver.executemany(query, [(written_out(each.node), *each[1:]) for each in gone])


def forget_devices(writer: Writer, unseen_since: float) -> None:
    """GPUs that no row tells of any more."""
    writer.driver.execute("DELETE FROM sampled_devices WHERE seen < ?", (unseen_since,))


# --- use ------------------------------------------------------------------------------------------------------------


def save_uses(writer: Writer, values: Iterable[PartUse]) -> None:
    """Of parts that there are."""
    names = ", ".join(f":{name.strip()}" for name in _USE.split(","))
    query = f"""INSERT OR REPLACE INTO uses ({_USE}) SELECT {names}
        WHERE EXISTS (SELECT 1 FROM parts WHERE job_id = :job_id AND attempt = :attempt AND rank = :rank)"""
    writer.driver.executemany(query, [to_row(value) for value in values])


def uses_of(reader: Reader, job_ids: Sequence[JobId]) -> list[PartUse]:
    """Of all their attempts; of those that are over no more than they had."""
    names = ", ".join(f"u.{name.strip()}" for name in _USE.split(","))
    query = f"""SELECT CASE WHEN p.state = 'ENDED' AND p.ended >= p.started
        THEN (p.ended - p.started) * json_array_length(p.uuids) END, {names}
        FROM uses u JOIN parts p USING (job_id, attempt, rank)
        WHERE u.job_id IN (SELECT value FROM json_each(?)) ORDER BY u.job_id, u.attempt, u.rank"""
    found = [(row[0], from_row(PartUse, row[1:])) for row in reader.driver.execute(query, (each_of(job_ids),))]
    return [use if most_s is None else within(use, most_s) for most_s, use in found]
