"""Arrays of jobs: which indices there are, as text and as ranges, and how tasks are named.

Sets of indices are kept as ranges, whatever their size: `0-99999` is one. Their text is what users type (`1,3,5-7`,
`0-30:5`), and what is stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from mgpu.core.errors import RequestError
from mgpu.core.model import Command, CommandForm, Job, JobId, JobSpec, JobState

MOST_TASKS = 1_000_000
HIGHEST = 4_000_000
_PIECE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
_ARRAY = re.compile(r"([^%]*)(?:%(\d{1,7}))?", re.ASCII)
_REFERENCE = re.compile(r"(\d{1,18})(?:_(?:(\d{1,7})|\[([^]]*)\]))?", re.ASCII)
_LEAST_RUN = 4  # indices that a range with a step is written for

Indices = tuple[range, ...]  # in order, none twice


class Array(NamedTuple):
    """`cap`: how many of its tasks may run at once, 0 = any number."""

    indices: Indices
    cap: int


class Reference(NamedTuple):
    """What somebody calls a job: `17` (of an array: all of it), `17_4`, `17_[1-5]`; None = no task is named."""

    job_id: JobId
    indices: Indices | None = None


# --- text and ranges ------------------------------------------------------------------------------------------------


def parse_array(text: str) -> Array:
    """`0-99%4`, `1,3,5-7`, `0-30:5`. Raises RequestError."""
    found = _ARRAY.fullmatch(text.strip())
    indices = _parse_indices(found[1]) if found else None
    if found is None or not indices:
        raise RequestError(f"--array '{text[:40]}' cannot be read: write 0-99, 1,3,5-7, 0-30:5, and %4 for 4 at once")
    if found[2] == "0":
        raise RequestError("--array ...%0: none of its tasks would ever run: leave out %0, or hold it with -H")
    return Array(indices, int(found[2] or 0))


def render_array(array: Array) -> str:
    return render_indices(array.indices) + (f"%{array.cap}" if array.cap else "")


@lru_cache(maxsize=1024)
def array_of(text: str) -> Array:
    """Of what `render_array` wrote."""
    indices, _, cap = text.partition("%")
    return Array(stored_indices(indices), int(cap or 0))


def _parse_indices(text: str) -> Indices | None:
    """None = cannot be read."""
    ranges: list[range] = []
    for piece in text.split(","):
        found = _PIECE.fullmatch(piece.strip())
        if found is None:
            return None
        low, step = int(found[1]), int(found[3] or 1)
        high = int(found[2]) if found[2] else low
        if high < low or step < 1:
            return None
        if high > HIGHEST:
            raise RequestError(f"array index {high} is too high: {HIGHEST} is the highest")
        ranges.append(range(low, high + 1, step))
        if sum(map(len, ranges)) > MOST_TASKS:
            raise RequestError(f"an array of more than {MOST_TASKS} tasks: make several")
    return (_tight(ranges[0]),) if len(ranges) == 1 else fold(index for each in ranges for index in each)


def stored_indices(text: str) -> Indices:
    """Of what `render_indices` wrote."""
    return tuple(_stored(piece) for piece in text.split(",")) if text else ()


@lru_cache(maxsize=4096)
def _stored(piece: str) -> range:
    ends, _, step = piece.partition(":")
    low, _, high = ends.partition("-")
    return range(int(low), int(high or low) + 1, int(step or 1))


def render_indices(indices: Indices) -> str:
    return ",".join(map(_render, indices))


def _render(one: range) -> str:
    if len(one) == 1:
        return str(one[0])
    return f"{one[0]}-{one[-1]}" + (f":{one.step}" if one.step > 1 else "")


def _tight(one: range) -> range:
    """Its last one is its end: equal sets are written alike."""
    return range(one[0], one[-1] + 1, one.step if len(one) > 1 else 1)


def fold(indices: Iterable[int]) -> Indices:
    """In ranges of neighbours, or of an even step where there are enough of them."""
    left = sorted(set(indices))
    found: list[range] = []
    at = 0
    while at < len(left):
        end, step = _run(left, at)
        if step > 1 and end - at < _LEAST_RUN:
            end, step = at + 1, 1
        found.append(range(left[at], left[end - 1] + 1, step))
        at = end
    return tuple(found)


def _run(left: Sequence[int], at: int) -> tuple[int, int]:
    """Where the even run that begins at `at` ends, and its step."""
    step = left[at + 1] - left[at] if at + 1 < len(left) else 1
    end = at + 1
    while end < len(left) and left[end] - left[end - 1] == step:
        end += 1
    return end, step


# --- sets -----------------------------------------------------------------------------------------------------------


def count(indices: Indices) -> int:
    return sum(map(len, indices))


def each(indices: Indices) -> Iterator[int]:
    for one in indices:
        yield from one


def holds(indices: Indices, index: int) -> bool:
    return any(index in one for one in indices)


def without(indices: Indices, index: int) -> Indices:
    found: list[range] = []
    for one in indices:
        if index not in one:
            found.append(one)
            continue
        at = one.index(index)
        found += [_tight(piece) for piece in (one[:at], one[at + 1 :]) if piece]
    return tuple(found)


def common(one: Indices, other: Indices) -> Indices:
    """What is in both."""
    if one == other:
        return one
    if count(other) == 1 or count(one) == 1:
        small, large = (one, other) if count(one) == 1 else (other, one)
        return small if holds(large, small[0][0]) else ()
    return fold(set(each(one)) & set(each(other)))


def apart(one: Indices, other: Indices) -> Indices:
    """What is in the first alone."""
    if one == other:
        return ()
    if count(other) == 1:
        return without(one, other[0][0])
    return fold(set(each(one)) - set(each(other)))


def together(one: Indices, other: Indices) -> Indices:
    return fold((*each(one), *each(other))) if one and other else one or other


# --- names ----------------------------------------------------------------------------------------------------------


def parse_reference(word: object) -> Reference:
    """Raises RequestError."""
    found = None if isinstance(word, bool) else _REFERENCE.fullmatch(str(word))
    if found is None:
        raise RequestError(
            f"'{str(word)[:60]}' is not a job number: write 17, or 17_4 and 17_[1-5] for tasks of an array"
        )
    job_id = JobId(int(found[1]))
    if found[2] is not None:
        return Reference(job_id, (range(int(found[2]), int(found[2]) + 1),))
    if found[3] is None:
        return Reference(job_id)
    indices = _parse_indices(found[3].partition("%")[0])
    if not indices:
        raise RequestError(f"'{str(word)[:60]}': the tasks cannot be read: write 17_[1-5] or 17_[1,3,7]")
    return Reference(job_id, indices)


def split_references(text: str) -> list[str]:
    """`17,18_[1,3]` -> `17`, `18_[1,3]`"""
    return re.split(r",(?![^\[]*\])", text)


def render_reference(named: Reference) -> JobId | str:
    if named.indices is None:
        return named.job_id
    text = render_indices(named.indices)
    return f"{named.job_id}_{text}" if count(named.indices) == 1 else f"{named.job_id}_[{text}]"


def task_name(array_id: JobId, index: int) -> str:
    return f"{array_id}_{index}"


def shown_id(job: Job) -> JobId | str:
    """As people and JSON see it: `N_I` of a task, else its number."""
    if job.array_id is None or job.array_index is None:
        return job.job_id
    return task_name(job.array_id, job.array_index)


def to_come(job: Job) -> Indices:
    """Of an array, the tasks that are no jobs of their own yet."""
    return stored_indices(job.rest or "")


def never_began(job: Job) -> Indices:
    dropped = stored_indices(job.dropped or "")
    return together(to_come(job), dropped) if job.state.final else dropped


def shown_rest(job: Job) -> str:
    """Of an array, the tasks that it stands for in a list: those to come, `5-99%4`; once it is over those that never
    began, `5-99`."""
    if job.state.final:
        return render_indices(never_began(job))
    rest = to_come(job)
    return render_array(Array(rest, array_of(job.spec.array).cap)) if rest else ""


# --- an array and its tasks -----------------------------------------------------------------------------------------


def task_of(array: Job, index: int) -> Job:
    """The task as it becomes a row: waiting like the array. The store numbers it."""
    request_id = f"{array.request_id}_{index}"
    task = replace(array, request_id=request_id, spec=lean(array.spec, index), start_time=None)
    return replace(task, array_id=array.job_id, array_index=index, rest=None, dropped=None)


def lean(spec: JobSpec, index: int) -> JobSpec:
    """Without what all tasks have in common, but for how many may run; of an array of lines, with the task's own."""
    cap = array_of(spec.array).cap
    spec = replace(spec, env={}, exports="", array=f"%{cap}" if cap else "")
    if spec.command.form is CommandForm.LINES:
        return replace(spec, command=Command(CommandForm.SHELL, (line(spec.command.script, index),)))
    return replace(spec, command=replace(spec.command, script=""))


def whole(spec: JobSpec, of_array: JobSpec) -> JobSpec:
    """As it is launched."""
    spec = replace(spec, env=of_array.env, exports=of_array.exports, array=of_array.array)
    if spec.command.form is not CommandForm.SCRIPT:
        return spec
    return replace(spec, command=replace(spec.command, script=of_array.command.script))


def line(text: str, number: int) -> str:
    """That line of the text; the first is 1."""
    return _split(text)[number - 1].strip()


@lru_cache(maxsize=1)
def _split(text: str) -> list[str]:
    return text.split("\n")


def lines_to_run(text: str) -> Indices:
    """The numbers of the lines that hold a command: neither empty nor a comment."""
    lines = enumerate(text.split("\n"), 1)
    return fold(number for number, one in lines if one.strip() and not one.lstrip().startswith("#"))


def counted(of: Job, states: Mapping[JobState, int]) -> dict[str, int]:
    """How many tasks are in which state; `states`: of those that are jobs."""
    counts = Counter(states)
    counts[JobState.PENDING] += 0 if of.state.final else count(to_come(of))
    counts[JobState.CANCELLED] += count(never_began(of))
    return {state.value: counts[state] for state in JobState if counts[state]}


class Standing(NamedTuple):
    """How an array that is over has ended."""

    state: JobState
    detail: str


def standing(states: Mapping[JobState, int], never: int) -> Standing:
    """`states`: of its tasks, all ended; `never`: those cancelled before they began."""
    counts = Counter(states)
    counts[JobState.CANCELLED] += never
    detail = ", ".join(f"{counts[state]} {state.value}" for state in JobState if counts[state])
    bad = {state for state, number in counts.items() if number} - {JobState.COMPLETED}
    if not bad:
        return Standing(JobState.COMPLETED, detail)
    return Standing(JobState.CANCELLED if bad == {JobState.CANCELLED} else JobState.FAILED, detail)
