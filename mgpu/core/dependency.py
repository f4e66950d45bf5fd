"""What a job waits for of other jobs: Slurm's --dependency, read, judged and told.

Nothing is remembered of a condition that was met once: it is judged by what is stored of the jobs that it names, each
time anew. So a job that is queued again is waited for again by those that have not started yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.model import Condition, ConditionKind, Dependency, JobId, JobState

NEVER = "DependencyNeverSatisfied"
_K = ConditionKind
_KINDS = tuple(kind.value for kind in ConditionKind)
_JOB = re.compile(r"(?P<job>\d{1,18})(?:_(?P<task>\d{1,7}))?(?:\+(?P<minutes>\d{1,7}))?", re.ASCII)
_FORM = "write it like afterok:17 or afterok:17:18,afterany:19"
_MOST_TOLD = 3


class Fact(NamedTuple):
    """What is stored of a job that others wait for."""

    state: JobState
    start_time: float | None
    end_time: float | None

    @property
    def over(self) -> bool:
        return self.state.final


@dataclass(frozen=True, slots=True)
class Verdict:
    """`at`: from then on the job may start, None = not yet. `never`: nor ever, as things are."""

    at: float | None
    never: bool
    detail: str


NOTHING_WAITED_FOR = Verdict(0.0, False, "")


class _Answer(NamedTuple):
    at: float | None
    never: bool
    words: str


# --- read and told --------------------------------------------------------------------------------------------------


def parse_dependency(text: str, keep: bool = False) -> Dependency:
    """`afterok:17:18,afterany:19+5`, with `,` = all or `?` = any of them. Raises RequestError."""
    either = "?" in text
    if either and "," in text:
        raise _refused(text, "either `,` (all of them) or `?` (any of them) stands between conditions, not both")
    found: list[Condition] = []
    for part in text.split("?" if either else ","):
        found += _conditions(text, part.strip())
    return Dependency(tuple(dict.fromkeys(found)), either, keep)


def _conditions(text: str, part: str) -> Iterable[Condition]:
    word, *ids = part.split(":")
    if word.lower() not in _KINDS:
        near = read.did_you_mean(word.lower(), _KINDS) if word else ""
        raise _refused(text, f"'{read.shown(word)}' is none of {', '.join(_KINDS)}{near}" if word else _FORM)
    kind = ConditionKind(word.lower())
    if kind is _K.SINGLETON:
        if ids:
            raise _refused(text, "singleton names no job: it means the earlier ones of the same name and user")
        return [Condition(kind)]
    if not ids:
        raise _refused(text, f"{word} of which job? {_FORM}")
    return [_condition(text, kind, each.strip()) for each in ids]


def _condition(text: str, kind: ConditionKind, word: str) -> Condition:
    found = _JOB.fullmatch(word)
    if found is None:
        raise _refused(text, f"'{read.shown(word)}' is no job number: {_FORM}")
    if found["minutes"] and kind is not _K.AFTER:
        raise _refused(text, f"+{found['minutes']} (minutes) goes with after alone")
    task = None if found["task"] is None else int(found["task"])
    return Condition(kind, JobId(int(found["job"])), 60 * int(found["minutes"] or 0), task)


def _refused(text: str, why: str) -> RequestError:
    return RequestError(f"--dependency '{read.shown(text)}': {why}")


def render_dependency(dependency: Dependency) -> str:
    """As it could be typed."""
    return ("?" if dependency.either else ",").join(map(_render, dependency.conditions))


def _render(condition: Condition) -> str:
    delay = f"+{condition.delay_s // 60}" if condition.delay_s else ""
    return str(condition.kind) if condition.job_id is None else f"{condition.kind}:{_name(condition)}{delay}"


def _name(condition: Condition) -> str:
    return condition.shown or str(condition.job_id)


# --- judged ---------------------------------------------------------------------------------------------------------


def judge(dependency: Dependency, facts: Mapping[JobId, Fact], namesake: JobId | None) -> Verdict:
    """`facts`: of the jobs that it names. `namesake`: the job that a singleton has to let go first, None = none is
    left."""
    answers = [_answer(condition, facts, namesake) for condition in dependency.conditions]
    met = [answer.at for answer in answers if answer.at is not None]
    lost = [answer for answer in answers if answer.never]
    if dependency.either and met:
        return Verdict(min(met), False, "")
    if not dependency.either and len(met) == len(answers):
        return Verdict(max(met, default=0.0), False, "")
    if lost and (not dependency.either or len(lost) == len(answers)):
        return Verdict(None, True, _told(lost, " and "))
    left = [answer for answer in answers if answer.at is None and not answer.never]
    return Verdict(None, False, _told(left, " or " if dependency.either else " and "))


def _told(answers: list[_Answer], between: str) -> str:
    shown = between.join(answer.words for answer in answers[:_MOST_TOLD])
    more = len(answers) - _MOST_TOLD
    return f"{shown}{between}{more} more like that" if more > 0 else shown


def _answer(condition: Condition, facts: Mapping[JobId, Fact], namesake: JobId | None) -> _Answer:
    kind, job_id = condition.kind, condition.job_id
    if job_id is None:
        return _Answer(0.0 if namesake is None else None, False, f"job {namesake}, of the same name, has to end first")
    fact, name = facts.get(job_id), _name(condition)
    if fact is None:
        return _Answer(None, True, f"there is no job {name} any more")
    if kind is _K.AFTER:
        began = fact.start_time if fact.start_time is not None else fact.end_time if fact.over else None
        at = None if began is None else began + condition.delay_s
        return _Answer(at, False, f"job {name} has to start first")
    if kind is _K.AFTERANY:
        return _Answer(0.0 if fact.over else None, False, f"job {name} has to end first ({fact.state})")
    well = fact.state is JobState.COMPLETED
    if fact.over:
        good = well is (kind is _K.AFTEROK)
        wanted = "end well" if kind is _K.AFTEROK else "fail"
        return _Answer(0.0 if good else None, not good, f"job {name} had to {wanted}, and is {fact.state}")
    wanted = "end well" if kind is _K.AFTEROK else "fail"
    return _Answer(None, False, f"job {name} has to {wanted} first ({fact.state})")


def still_open(dependency: Dependency, facts: Mapping[JobId, Fact]) -> tuple[tuple[JobId, bool], ...]:
    """The jobs that it waits for, each with whether it is enough that it begins; () = it waits for what nobody can
    tell (that a job fails, that its namesakes are gone)."""
    found = []
    for condition in dependency.conditions:
        job_id = condition.job_id
        if job_id is None or condition.kind is _K.AFTERNOTOK or condition.delay_s:
            return ()
        if _answer(condition, facts, None).at is None:
            found.append((job_id, condition.kind is _K.AFTER))
    return tuple(found)


# --- circles --------------------------------------------------------------------------------------------------------


def circle(job_id: JobId, waits_for: Callable[[JobId], Iterable[JobId]]) -> tuple[JobId, ...]:
    """A way from the job back to itself, () = there is none. `waits_for`: those that a job names."""
    way: list[JobId] = [job_id]
    open_ends = [iter(tuple(waits_for(job_id)))]
    seen: set[JobId] = set()
    while open_ends:
        following = next(open_ends[-1], None)
        if following is None:
            open_ends.pop()
            way.pop()
        elif following == job_id:
            return (*way, job_id)
        elif following not in seen:
            seen.add(following)
            way.append(following)
            open_ends.append(iter(tuple(waits_for(following))))
    return ()
