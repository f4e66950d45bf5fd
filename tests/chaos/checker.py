"""Evidence against word: what the nodes wrote down, and what mgpu says of the same jobs. Pure; a function a promise.

A check errs on the side of silence: where evidence leaves two readings open, the harmless one is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import md5
from itertools import pairwise
from typing import Any

from tests.chaos.evidence import STREAMS, Run
from tests.chaos.plans import STEP_S, JobPlan

Job = Mapping[str, Any]  # as `show job --json` has it
Attempt = Mapping[str, Any]

CODES = {"COMPLETED": 0, "TIMEOUT": 124, "NODE_FAIL": 70}
FINAL = {*CODES, "FAILED", "CANCELLED"}
SECOND = 1.0  # the JSON's times are whole seconds, cut
LOOK_S = 5.0  # a device is given out on a look that is no older
SLACK_S = 4.0  # a machine with two busy processors
GRACE_S = 10.0  # between TERM and KILL


@dataclass(frozen=True)
class Violation:
    promise: str
    text: str
    job_id: int | None = None

    def __str__(self) -> str:
        return f"{self.promise}: {'' if self.job_id is None else f'job {self.job_id}: '}{self.text}"


@dataclass(frozen=True)
class Stretch:
    """Of time (seconds since the epoch): an outsider on a GPU, or a node that was off."""

    node: str
    since: float
    until: float
    gpu: int | None = None


@dataclass(frozen=True)
class Ending:
    """Of a client. `code` None = it had to be killed at the end; `killed`: on purpose, by a fault."""

    serial: int
    kind: str
    code: int | None
    killed: bool = False
    interrupted: bool = False
    stdout: bytes = b""
    stderr: str = ""


@dataclass(frozen=True)
class Output:
    data: bytes
    complete: bool


@dataclass
class Facts:
    """`read(job_id, attempt, rank, stream)` is the spool; `killings` are those of the shells that watch over jobs;
    `wished` are the serials that somebody tried to cancel, `cancelled` those of which the master said that it will, and
    when."""

    plans: Mapping[int, JobPlan]
    jobs: Sequence[Job]
    runs: Sequence[Run]
    read: Callable[[int, int, int, str], Output]
    clients: Sequence[Ending] = ()
    outsiders: Sequence[Stretch] = ()
    outages: Sequence[Stretch] = ()
    killings: Sequence[Stretch] = ()
    wished: frozenset[int] = frozenset()
    cancelled: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One job with its plan and all that its commands wrote down, by attempt."""

    plan: JobPlan
    job: Job
    runs: Mapping[int, Sequence[Run]]

    @property
    def job_id(self) -> int:
        return int(self.job["job_id"])

    @property
    def attempts(self) -> Sequence[Attempt]:
        return list(self.job["attempts"])

    def violation(self, promise: str, text: str) -> Violation:
        return Violation(promise, text, self.job_id)


def check(facts: Facts) -> list[Violation]:
    by_job: dict[int, dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in facts.runs:
        by_job[run.job_id][run.attempt].append(run)
    cases = [
        Case(plan, job, by_job[job["job_id"]])
        for job in facts.jobs
        if (plan := facts.plans.get(_serial(job["name"]))) is not None
    ]
    found = [*_submitted(facts, cases), *_known(facts), *_shared(facts), *_answered(facts, cases)]
    for case in cases:
        found += [*_once(case), *_one_attempt_at_a_time(case), *_where(case), *_limit(case)]
        found += [*_verdict(case, facts), *_repeated(case, facts), *_written(case, facts), *_outsiders(case, facts)]
        found += _after_cancel(case, facts)
    return found


def _serial(name: str) -> int:
    return int(name.removeprefix("chaos-"))


def epoch(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# --- one request, one job, one start --------------------------------------------------------------------------------


def _submitted(facts: Facts, cases: Sequence[Case]) -> Iterator[Violation]:
    seen: dict[int, int] = {}
    for case in cases:
        if case.plan.serial in seen:
            yield case.violation("one job a request", f"{case.plan.name} is job {seen[case.plan.serial]} too")
        seen[case.plan.serial] = case.job_id
    for client in facts.clients:
        if client.kind != "srun" and client.code == 0 and client.serial not in seen:
            yield Violation("no job is lost", f"chaos-{client.serial} was submitted, and there is no such job")


def _known(facts: Facts) -> Iterator[Violation]:
    """All that ran is in the database."""
    known = {(job["job_id"], attempt["attempt"]) for job in facts.jobs for attempt in job["attempts"]}
    for run in facts.runs:
        if (run.job_id, run.attempt) not in known:
            yield Violation("no job is lost", f"{run.name} ran on {run.node}, the database has no such attempt")


def _once(case: Case) -> Iterator[Violation]:
    for number, runs in case.runs.items():
        for run in runs:
            if len(run.begins) != 1:
                yield case.violation("started once", f"{run.name} began {len(run.begins)} times on {run.node}")
        ranks = [run.rank for run in runs]
        if len(set(ranks)) != len(ranks):
            places = ", ".join(run.node for run in runs)
            yield case.violation("started once", f"one rank of attempt {number} began on several nodes: {places}")


def _repeated(case: Case, facts: Facts) -> Iterator[Violation]:
    """A command that began runs again only after its node was lost, or after its own exit when the user said so."""
    begun = sorted(number for number, runs in case.runs.items() if runs)
    for attempt in case.attempts:
        number, failure = attempt["attempt"], attempt["failure"]
        if failure == "node_lost" and not _during(attempt, facts.outages) and not _apart(case, attempt):
            yield case.violation(
                "truth about nodes", f"attempt {number} lost its node, and none was down: {attempt['reason']}"
            )
        if number not in begun[:-1]:
            continue
        lost = failure == "node_lost" and case.plan.kind != "srun" and case.plan.requeue
        if not lost and not (failure == "exit" and case.plan.retries):
            why = f"{failure or 'no failure'}: {attempt['reason']}"
            yield case.violation("started once", f"attempt {number} had begun, and was followed by another ({why})")


def _apart(case: Case, attempt: Attempt) -> bool:
    """Of several nodes some never ran it, as where a cut kept them from the others: those that did are lost with them,
    though no node was down."""
    ran = {run.rank for run in case.runs.get(attempt["attempt"], ())}
    return len(ran) < len(attempt["allocation"]) > 1


def _one_attempt_at_a_time(case: Case) -> Iterator[Violation]:
    for earlier, later in pairwise(sorted(case.runs.items())):
        end, begin = max(run.last for run in earlier[1]), min(run.begin for run in later[1])
        if end > begin:
            text = f"attempt {later[0]} began {end - begin:.2f} s before attempt {earlier[0]} was over"
            yield case.violation("one attempt at a time", text)


def _after_cancel(case: Case, facts: Facts) -> Iterator[Violation]:
    at = facts.cancelled.get(case.plan.serial)
    for attempt in case.attempts:
        if at is not None and epoch(attempt["created"]) > at + SECOND:
            yield case.violation("cancelled is cancelled", f"attempt {attempt['attempt']} was made after the cancel")


# --- where it ran, and for how long ---------------------------------------------------------------------------------


def _where(case: Case) -> Iterator[Violation]:
    for attempt in case.attempts:
        parts = {part["rank"]: part for part in attempt["allocation"]}
        for run in case.runs.get(attempt["attempt"], ()):
            part = parts.get(run.rank)
            if part is None or part["node"] != run.node or tuple(part["devices"]) != run.gpus:
                told = "nowhere" if part is None else f"on {part['node']} GPUs {part['devices']}"
                text = f"{run.name} ran on {run.node} GPUs {list(run.gpus)}, it is said to have run {told}"
                yield case.violation("truth about places", text)


def _shared(facts: Facts) -> Iterator[Violation]:
    users: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in facts.runs:
        for gpu in run.gpus:
            users[run.node, gpu].append(run)
    for (node, gpu), runs in users.items():
        latest: Run | None = None
        for run in sorted(runs, key=lambda run: run.begin):
            if latest is not None and run.begin < latest.last:
                text = f"GPU {gpu} of {node}: {run.name} began at {run.begin}, {latest.name} ran until {latest.last}"
                yield Violation("no GPU is shared", text, run.job_id)
            if latest is None or run.last > latest.last:
                latest = run


def _outsiders(case: Case, facts: Facts) -> Iterator[Violation]:
    for attempt in case.attempts:
        created = epoch(attempt["created"])
        for part in attempt["allocation"]:
            for stay in facts.outsiders:
                known = stay.since < created - LOOK_S - SLACK_S and stay.until > created + SECOND
                if known and stay.node == part["node"] and stay.gpu in part["devices"]:
                    text = f"attempt {attempt['attempt']} got GPU {stay.gpu} of {stay.node}, an outsider had it"
                    yield case.violation("outsiders are avoided", text)


def _limit(case: Case) -> Iterator[Violation]:
    limit = case.plan.limit_s
    for run in [run for runs in case.runs.values() for run in runs]:
        lasted = run.last - run.begin
        if limit is not None and lasted > limit + GRACE_S + 5 * SLACK_S:
            yield case.violation("ends on time", f"{run.name} ran for {lasted:.1f} s with a limit of {limit} s")


# --- how it ended ---------------------------------------------------------------------------------------------------


def _verdict(case: Case, facts: Facts) -> Iterator[Violation]:
    state = case.job["state"]
    if state not in FINAL:
        yield case.violation("every job ends", f"it is {state} ({case.job['reason']}: {case.job['detail']})")
        return
    for attempt in case.attempts:
        if attempt["state"] != "ENDED":
            yield case.violation(
                "every job ends", f"it is {state}, its attempt {attempt['attempt']} {attempt['state']}"
            )
    last = case.attempts[-1] if case.attempts else None
    runs = case.runs.get(last["attempt"], []) if last else []
    doubt = _doubt(case, last, runs, facts)
    if doubt:
        wrote = ", ".join(f"{run.name} on {run.node}: code {run.code}" for run in runs) or "nothing"
        told = f"{state}, exit code {case.job['exit_code']} ({case.job['reason']}: {case.job['detail']})"
        yield case.violation("exact ends", f"{doubt}; told: {told}; written down: {wrote}")
    for attempt in case.attempts:
        yield from _codes(case, attempt)


def _doubt(case: Case, last: Attempt | None, runs: Sequence[Run], facts: Facts) -> str:
    """Why the state cannot be; "" = it can."""
    job, codes = case.job, {run.code for run in runs}
    state = job["state"]
    if state == "COMPLETED":
        complete = len(runs) == case.plan.nodes and codes == {0} and job["exit_code"] == 0
        return "" if complete else "not every rank came to its end with 0"
    if state == "CANCELLED":
        return "" if case.plan.serial in facts.wished else "nobody wished that"
    if state == "NODE_FAIL":
        return "" if last and _during(last, facts.outages) else "no node of it was down"
    if state == "TIMEOUT":
        limit = case.plan.limit_s
        if limit is None:
            return "it has no time limit"
        lasted = max((run.last - run.begin for run in runs), default=0.0)
        return "" if lasted > limit - STEP_S - SLACK_S else f"it ran for {lasted:.1f} s of {limit} s"
    if job["reason"] == "NonZeroExitCode":
        return "" if job["exit_code"] in codes - {0, None} else "no rank ended so"
    if job["reason"] == "LaunchFailed":
        return "its command ran" if runs else ""
    if job["reason"] == "SupervisorKilled":
        return "" if last and _during(last, facts.killings) else "nobody killed it"
    return "no such end was caused"


DAMAGED = 98  # what job.sh ends with then


def _codes(case: Case, attempt: Attempt) -> Iterator[Violation]:
    """Of an attempt on one node that ended by itself."""
    runs = case.runs.get(attempt["attempt"], [])
    for run in runs:
        if run.code == DAMAGED:
            yield case.violation("trees are whole", f"{run.name} has found what was shipped damaged")
    if len(attempt["allocation"]) == 1 and attempt["failure"] in ("", "exit"):
        told = attempt["exit_code"]
        for run in runs:
            if run.code is not None and run.code != told:
                yield case.violation("exact ends", f"{run.name} ended with {run.code}, it is said to be {told}")


def _during(attempt: Attempt, stretches: Sequence[Stretch]) -> bool:
    """One of them was on a node of the attempt, and in its time."""
    begin = epoch(attempt["created"]) - SECOND
    end = epoch(attempt["end_time"]) + SLACK_S if attempt["end_time"] else float("inf")
    nodes = {part["node"] for part in attempt["allocation"]}
    return any(it.node in nodes and it.since < end and it.until > begin for it in stretches)


# --- what it said ---------------------------------------------------------------------------------------------------


def _written(case: Case, facts: Facts) -> Iterator[Violation]:
    for run in [run for runs in case.runs.values() for run in runs]:
        for stream in STREAMS:
            output = facts.read(run.job_id, run.attempt, run.rank, stream)
            for text in _differences(run, stream, output):
                yield case.violation("every byte once", f"{run.name} on {run.node}, {stream}: {text}")


def _differences(run: Run, stream: str, output: Output) -> Iterator[str]:
    data = output.data
    if not output.complete:
        yield f"not complete, {len(data)} bytes so far"
    if stream in run.sums:
        size, digest = run.sums[stream]
        if len(data) != size:
            yield f"{len(data)} bytes are kept, its file had {size}"
        elif md5(data, usedforsecurity=False).hexdigest() != digest:
            yield f"the {size} bytes that are kept are not those of its file"
    if run.unsaid:
        return
    said, last = run.said(stream)
    if run.by_itself and data != said:
        yield f"{len(data)} bytes are kept, {len(said)} were written{_first_difference(data, said)}"
    elif not said.startswith(data) or len(data) < len(said) - last:
        least = len(said) - last
        yield f"{len(data)} bytes are kept, {least} to {len(said)} were written{_first_difference(data, said)}"


def _first_difference(data: bytes, said: bytes) -> str:
    for position, (ours, theirs) in enumerate(zip(data, said, strict=False)):
        if ours != theirs:
            return f"; other bytes from {position} on: {data[position : position + 60]!r}"
    return ""


def _answered(facts: Facts, cases: Sequence[Case]) -> Iterator[Violation]:
    """What the people in front of it were told."""
    by_serial = {case.plan.serial: case for case in cases}
    for client in facts.clients:
        if client.killed:
            continue
        case = by_serial.get(client.serial)
        job_id = case.job_id if case else None
        last_line = client.stderr.strip().rsplit("\n", 1)[-1]
        if client.code is None:
            yield Violation("clients end", f"{client.kind} of chaos-{client.serial} never ended; {last_line}", job_id)
        elif client.kind != "srun":
            if client.code != 0:
                yield Violation("clients end", f"submit ended with {client.code}: {last_line}", job_id)
        elif case is not None:
            yield from _srun(client, case, facts, last_line)
        elif not client.interrupted:
            yield Violation("no job is lost", f"srun of chaos-{client.serial} ended with {client.code}: {last_line}")


def _srun(client: Ending, case: Case, facts: Facts, last_line: str) -> Iterator[Violation]:
    state = case.job["state"]
    wanted = {"CANCELLED": 130 if client.interrupted else 143, "FAILED": case.job["exit_code"] or 1, **CODES}.get(state)
    if wanted is not None and client.code != wanted:
        text = f"srun ended with {client.code}, not {wanted}, its job is {state}; it said: {last_line}"
        yield case.violation("clients end", text)
    if case.plan.nodes == 1:
        numbers = [attempt["attempt"] for attempt in case.attempts]
        spool = b"".join(facts.read(case.job_id, number, 0, "stdout").data for number in numbers)
        if client.stdout != spool:
            text = (
                f"srun gave {len(client.stdout)} bytes, {len(spool)} are kept{_first_difference(client.stdout, spool)}"
            )
            yield case.violation("every byte once", text)
