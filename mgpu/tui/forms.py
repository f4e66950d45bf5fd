"""The form of what a master answers, as far as the monitor reads it.

A master of another version, or what stands between it and us, may answer anything. What is of another form is refused
where it arrives, in words that are shown as the reason why nothing newer is there; so nothing that draws or acts has to
reckon with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from mgpu.wording.figures import epoch

Kind = Callable[[Any], bool]
MOST = 1e15  # beyond all sizes, times and numbers of jobs: what is more, or no number at all (NaN), breaks sums
NEEDED = "!"  # behind a name: without it nothing can be told; all others may be missing, or null


class Malformed(ValueError):
    """Says where in the answer, and what is wrong there."""


def text(value: Any) -> bool:
    return isinstance(value, str)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def whole(value: Any) -> bool:
    return number(value) and isinstance(value, int)


def name(value: Any) -> bool:
    """Of a job: its number, or `17_4`."""
    return text(value) or whole(value)


def moment(value: Any) -> bool:
    return text(value) and _is_moment(value)


@lru_cache(8192)  # most were in the answer before
def _is_moment(value: str) -> bool:
    try:
        epoch(value)
    except (ValueError, OverflowError):
        return False
    return True


def counts(value: Any) -> bool:
    """A number by each of any names."""
    return isinstance(value, dict) and all(map(whole, value.values()))


def text_or_texts(value: Any) -> bool:
    return text(value) or (isinstance(value, list) and all(map(text, value)))


def anything(_value: Any) -> bool:
    return True


KINDS: Mapping[Kind, str] = {
    text: "text", number: "a number", whole: "a whole number", name: "a job's number", moment: "a time",
    counts: "a number by each name", text_or_texts: "text",
}  # fmt: skip


class Form:
    """`shape`: a kind, a mapping of names to shapes, or a list of one shape: each of a list is like that."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        self.fits = _compiled(shape)

    def checked(self, value: Any) -> Any:
        """The value. Raises Malformed."""
        if not self.fits(value):
            where, what = _fault(value, self._shape)
            raise Malformed(f"{where.removeprefix('.')}: {what}" if where else what)
        return value


def _compiled(shape: Any) -> Kind:
    """Some ten thousand values come every other second: they are looked at without asking what the shape is."""
    if isinstance(shape, list):
        inner = _compiled(shape[0])
        return lambda value: isinstance(value, list) and all(map(inner, value))
    if not isinstance(shape, Mapping):
        kind: Kind = shape
        return kind
    pairs = [(name.removesuffix(NEEDED), NEEDED in name, _compiled(inner)) for name, inner in shape.items()]

    def is_such_object(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        for name, needed, fits in pairs:
            found = value.get(name)
            if needed if found is None else not fits(found):
                return False
        return True

    return is_such_object


def _fault(value: Any, shape: Any) -> tuple[str, str]:
    """Where it is first, and what is wrong there."""
    inner: Iterable[tuple[str, Any, Any]]
    if isinstance(shape, Mapping) and isinstance(value, dict):
        inner = [(f".{name.removesuffix(NEEDED)}", value.get(name.removesuffix(NEEDED)), name) for name in shape]
        inner = [(where, found, shape[name]) for where, found, name in inner if found is not None or NEEDED in name]
    elif isinstance(shape, list) and isinstance(value, list):
        inner = [(f"[{place}]", each, shape[0]) for place, each in enumerate(value)]
    else:
        wanted = "an object" if isinstance(shape, Mapping) else "a list" if isinstance(shape, list) else KINDS[shape]
        return "", "missing" if value is None else f"{repr(value)[:40]} is not {wanted}"
    where, found, within = next(each for each in inner if not _compiled(each[2])(each[1]))
    further, what = _fault(found, within)
    return where + further, what


PLACE = {"node!": text, "devices": [whole]}
PART = {
    **PLACE, "rank!": whole, "state": text, "hostname": text, "address": text, "uuids": [text], "pid": whole,
    "exit_code": whole, "lost_since": moment,
}  # fmt: skip
ATTEMPT = {
    "attempt!": whole, "state!": text, "exit_code": whole, "reason": text, "allocation": [PLACE], "start_time": moment,
    "end_time": moment,
}  # fmt: skip
SHIP = {"commit": text, "dirty": anything, "directory": text, "files!": whole, "size!": whole}
JOB_SHAPE = {
    "job_id!": name, "state!": text, "reason": text, "detail": text, "allocation": [PART], "expected_on": [PLACE],
    "expected_start": moment, "submit_time": moment, "start_time": moment, "end_time": moment, "idle_since": moment,
    "begin": moment, "exit_code": whole, "failed_rank": whole, "gpus": whole, "nodes": whole, "time_limit_s": number,
    "stop": text, "array_rest": text, "attempts": [ATTEMPT], "attempt": whole, "command": [anything], "ship": SHIP,
    "launcher": text, "ntasks_per_node": whole, "priority": number,
}  # fmt: skip
WINDOW = Form({
    "jobs!": [JOB_SHAPE], "offset!": whole, "matching!": whole, "waiting_gpus": whole,
    "states": counts,
})  # fmt: skip
HOLDER = {"job_id!": name, "user": text, "gpus_until": moment, "time_limit_s": number}
WHY = Form({
    "nodes": [{"node": text, "reason": text}], "holders": [HOLDER], "ahead": whole, "expected_start": moment,
    "expected_on": [PLACE], "sooner": [text],
})  # fmt: skip
POINT = {"utilization": number, "memory_mib": number}
JOB_USE = Form({
    "points": [POINT], "step_s": number, "utilization": number, "memory_peak_mib": number, "gpu_hours": number,
    "idle_gpu_hours": number,
})  # fmt: skip
NODE_USE = Form({"step_s": number, "gpus": [{"uuid": text, "points": [POINT]}]})
PROCESS = {"pid": whole, "user": text, "memory_mib": number, "age_s": number, "command": text}
MARK = {"since": moment, "by": text, "reason": text}
GPU = {
    "state!": text, "index": whole, "uuid": text, "name": text, "reason": text, "user": text, "job_id": name,
    "memory_used_mib": number, "memory_total_mib": number, "utilization": number, "temperature_c": number,
    "power_w": number, "ecc_errors": whole, "processes": [PROCESS], "drain": MARK, "suspect": MARK,
}  # fmt: skip
MACHINE = {
    "load": number, "cpus": number, "cpus_claimed": number, "memory_claimed_mib": number, "memory_total_mib": number,
    "memory_available_mib": number, "memory_free_mib": number, "disk_free_mib": number, "disk_available_mib": number,
    "disk_total_mib": number, "clock_offset_s": number, "nvlink": [text], "xid": text_or_texts,
}  # fmt: skip
MAINTENANCE = {"from!": moment, "to!": moment, "reason": text}
NODE_SHAPE = {
    "node_id!": text, "state!": text, "reason": text, "barred": text, "last_seen": moment, "gpus": [GPU],
    "machine": MACHINE, "maintenance": [MAINTENANCE], "notes": [anything], "drain": MARK, "hostname": text,
    "address": text, "gpu_type": text,
}  # fmt: skip
LIST_OF_NODES = Form({"nodes!": [anything]})
NODES = Form({"nodes!": [NODE_SHAPE]})
EVENTS = {  # of a job's stream, by name
    "state": Form({"job!": JOB_SHAPE}),
    "end": Form({"job!": JOB_SHAPE}),
    "attempt": Form({"attempt!": whole}),
    "notice": Form({"text": text}),
}
ERRORS = Form({"errors": [{"code": text, "message!": text, "hint": text}]})
DRAINED = Form({"node_id": text, "running": [anything], "still_drained": [anything]})
JOB, NODE, OBJECT = Form(JOB_SHAPE), Form(NODE_SHAPE), Form({})
