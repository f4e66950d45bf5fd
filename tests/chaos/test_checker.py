"""The checker finds what it is there to find: each broken promise is made here by hand, and nothing else is told."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest

from tests.chaos.checker import Ending, Facts, Output, Stretch, check
from tests.chaos.evidence import Run, parse
from tests.chaos.plans import JobPlan

NOON = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def record(
    begin: float = 100.0, steps: int = 2, code: int | None = 0, gpus: str = "0", attempt: int = 1, extra: str = ""
) -> str:
    """What job.sh writes, a step a second."""
    lines = [f"{begin} begin 4242 boot {gpus}"]
    for step in range(1, steps + 1):
        lines += [f"{begin + step} say stdout {step} 3 170", f"{begin + step} say stderr {step} 0 170"]
    if code is not None:
        for stream in ("stdout", "stderr"):
            data = said(stream, steps, attempt)
            lines.append(f"{begin + steps} sum {stream} {len(data)} {md5(data).hexdigest()}")
        lines.append(f"{begin + steps} end {code}")
    return "\n".join([*lines, extra]).strip()


def said(stream: str, steps: int = 2, attempt: int = 1) -> bytes:
    filling = "xxx" if stream == "stdout" else ""
    return "".join(f"7.{attempt}.0 {stream} {step} {filling}\n" for step in range(1, steps + 1)).encode()


def run(text: str, attempt: int = 1, node: str = "node001", job_id: int = 70, rank: int = 0) -> Run:
    return parse(node, f"7.{job_id}.{attempt}.{rank}", text.splitlines())


def part(node: str = "node001", devices: tuple[int, ...] = (0,), rank: int = 0) -> dict[str, Any]:
    return {"rank": rank, "node": node, "devices": list(devices), "state": "ENDED", "exit_code": 0}


def attempt(number: int = 1, failure: str = "", code: int | None = 0, **more: Any) -> dict[str, Any]:
    return {
        "attempt": number,
        "state": "ENDED",
        "created": "2027-01-15T08:00:00Z",
        "end_time": "2027-01-15T08:00:10Z",
        "failure": failure,
        "exit_code": code,
        "reason": "",
        "allocation": [part()],
        **more,
    }


def job(state: str = "COMPLETED", code: int | None = 0, reason: str = "", **more: Any) -> dict[str, Any]:
    return {
        "job_id": 70,
        "name": "chaos-7",
        "state": state,
        "exit_code": code,
        "reason": reason,
        "detail": "",
        "attempts": [attempt(code=code)],
        **more,
    }


def plan(**more: Any) -> JobPlan:
    return JobPlan(**{"serial": 7, "at": 0.0, "kind": "argv", "gpus": 1, "nodes": 1, "steps": 2, "code": 0, **more})


def facts(shown: dict[str, Any], *runs: Run, spool: dict[str, bytes] | None = None, **more: Any) -> Facts:
    """Of one job. `spool`: by stream, else what an undisturbed job of two steps says."""

    def read(_job: int, number: int, _rank: int, stream: str) -> Output:
        return Output((spool or {}).get(stream, said(stream, attempt=number)), True)

    wanted = more.pop("plan", plan())
    return Facts({7: wanted}, [shown], list(runs), more.pop("read", read), **more)


def promises(found: Facts) -> list[str]:
    return [violation.promise for violation in check(found)]


def test_nothing_is_told_of_a_job_that_went_well() -> None:
    client = Ending(7, "submit", 0)
    assert check(facts(job(), run(record()), clients=[client])) == []


def test_nothing_is_told_of_lost_nodes_cancels_and_limits_that_were_caused() -> None:
    outage = Stretch("node001", NOON + 2, NOON + 3)
    lost = attempt(1, "node_lost", None)
    again = job(attempts=[lost, attempt(2)])
    interrupted = run(record(steps=1, code=None))
    spool = {1: said("stdout", 1), 2: said("stdout", attempt=2)}

    def read(_job: int, number: int, _rank: int, stream: str) -> Output:
        return Output(spool[number] if stream == "stdout" else said("stderr", 3 - 2 // number, number), True)

    assert check(facts(again, interrupted, run(record(200, attempt=2), 2), read=read, outages=[outage])) == []
    cut = {"stdout": said("stdout", 1), "stderr": said("stderr", 1)}
    cancelled = job("CANCELLED", None, attempts=[attempt(1, "stopped", 143)])
    stopped = run(record(steps=1, code=None))
    assert check(facts(cancelled, stopped, spool=cut, wished=frozenset({7}), cancelled={7: NOON + 1})) == []
    limited = job("TIMEOUT", None, attempts=[attempt(1, "stopped", 143)])
    assert check(facts(limited, stopped, spool=cut, plan=plan(limit_s=1))) == []
    assert check(facts(job("NODE_FAIL", None, attempts=[lost]), stopped, spool=cut, outages=[outage])) == []
    orphaned = job("FAILED", None, "SupervisorKilled", attempts=[attempt(1, "supervisor", None)])
    assert check(facts(orphaned, stopped, spool=cut, killings=[outage])) == []
    unlaunched = job("FAILED", None, "LaunchFailed", attempts=[attempt(1, "node", None)])
    assert check(facts(unlaunched)) == []


def test_ranks_that_were_kept_apart_are_lost_though_no_node_was_down() -> None:
    """One began, and a cut link kept the other from it: begun it was, and it may be begun anew."""
    both = [part(), part("node002", rank=1)]
    lost = attempt(1, "node_lost", None, allocation=both)
    shown = job(attempts=[lost, attempt(2)])
    began = run(record(steps=1, code=None))
    told = promises(facts(shown, began, run(record(200, attempt=2), 2), plan=plan(nodes=2)))
    assert "truth about nodes" not in told
    second = run(record(steps=1, code=None), node="node002", rank=1)
    told = promises(facts(shown, began, second, run(record(200, attempt=2), 2), plan=plan(nodes=2)))
    assert "truth about nodes" in told, "both began: then a node has to have been down"


TWICE = record() + "\n" + record(150)
BROKEN: dict[str, tuple[Callable[[], Facts], str]] = {
    "two jobs for one request": (
        lambda: Facts({7: plan()}, [job(), job() | {"job_id": 71, "attempts": []}], [run(record())], facts(job()).read),
        "one job a request",
    ),
    "a job that was accepted and forgotten": (
        lambda: Facts({7: plan()}, [], [], facts(job()).read, [Ending(7, "submit", 0)]),
        "no job is lost",
    ),
    "a command that nobody knows of": (lambda: facts(job(), run(record()), run(record(), 9)), "no job is lost"),
    "a command that began twice": (lambda: facts(job(), run(TWICE)), "started once"),
    "a rank on two nodes": (lambda: facts(job(), run(record()), run(record(), node="node002")), "started once"),
    "an attempt after one that began and failed to launch": (
        lambda: facts(
            job(attempts=[attempt(1, "node", None), attempt(2)]), run(record()), run(record(200, attempt=2), 2)
        ),
        "started once",
    ),
    "an srun that ran again after its node was lost": (
        lambda: facts(
            job(attempts=[attempt(1, "node_lost", None), attempt(2)]),
            run(record()),
            run(record(200, attempt=2), 2),
            plan=plan(kind="srun"),
            outages=[Stretch("node001", NOON, NOON + 1)],
        ),
        "started once",
    ),
    "a lost node that was never down": (
        lambda: facts(job(attempts=[attempt(1, "node_lost", None), attempt(2)]), run(record(attempt=2), 2)),
        "truth about nodes",
    ),
    "two attempts at once": (
        lambda: facts(
            job(attempts=[attempt(1, "exit", 1), attempt(2)]),
            run(record(100, code=1)),
            run(record(101, attempt=2), 2),
            plan=plan(retries=1),
        ),
        "one attempt at a time",
    ),
    "other GPUs than were told": (lambda: facts(job(), run(record(gpus="1"))), "truth about places"),
    "a damaged tree": (lambda: facts(job("FAILED", 98, "NonZeroExitCode"), run(record(code=98))), "trees are whole"),
    "a wrong exit code": (lambda: facts(job("FAILED", 3, "NonZeroExitCode"), run(record(code=4))), "exact ends"),
    "a success that was none": (lambda: facts(job(), run(record(steps=2, code=None))), "exact ends"),
    "a success of which only one node knows": (lambda: facts(job(), run(record()), plan=plan(nodes=2)), "exact ends"),
    "a cancel that nobody wished": (
        lambda: facts(job("CANCELLED", None, attempts=[])),
        "exact ends",
    ),
    "a time limit that there was not": (
        lambda: facts(job("TIMEOUT", None, attempts=[attempt(1, "stopped", 143)]), run(record(code=None))),
        "exact ends",
    ),
    "a launch that failed though the command ran": (
        lambda: facts(job("FAILED", None, "LaunchFailed", attempts=[attempt(1, "node", None)]), run(record())),
        "exact ends",
    ),
    "a supervisor that nobody killed": (
        lambda: facts(
            job("FAILED", None, "SupervisorKilled", attempts=[attempt(1, "supervisor", None)]), run(record())
        ),
        "exact ends",
    ),
    "a job that never ends": (lambda: facts(job("RUNNING", None), run(record(code=None))), "every job ends"),
    "an attempt that never ends": (
        lambda: facts(job(attempts=[attempt(state="LOST")]), run(record())),
        "every job ends",
    ),
    "a job that outlives its limit": (
        lambda: facts(
            job("TIMEOUT", None, attempts=[attempt(1, "stopped", 143)]),
            run(record(steps=60, code=None)),
            spool={"stdout": said("stdout", 60), "stderr": said("stderr", 60)},
            plan=plan(limit_s=3),
        ),
        "ends on time",
    ),
    "bytes that were lost": (
        lambda: facts(job(), run(record()), spool={"stdout": said("stdout")[:-1]}),
        "every byte once",
    ),
    "bytes that came twice": (
        lambda: facts(job(), run(record()), spool={"stderr": said("stderr") * 2}),
        "every byte once",
    ),
    "bytes that were changed": (
        lambda: facts(job(), run(record()), spool={"stdout": said("stdout").replace(b"x", b"y")}),
        "every byte once",
    ),
    "bytes lost though the job was killed": (
        lambda: facts(
            job("CANCELLED", None, attempts=[attempt(1, "stopped", 143)]),
            run(record(code=None)),
            spool={"stdout": b""},
            wished=frozenset({7}),
        ),
        "every byte once",
    ),
    "an attempt after the cancel": (
        lambda: facts(job(), run(record()), cancelled={7: NOON - 5}),
        "cancelled is cancelled",
    ),
    "a GPU that an outsider had": (
        lambda: facts(job(), run(record()), outsiders=[Stretch("node001", NOON - 60, NOON + 60, 0)]),
        "outsiders are avoided",
    ),
    "a client that never ends": (
        lambda: facts(job(), run(record()), clients=[Ending(7, "srun", None)], plan=plan(kind="srun")),
        "clients end",
    ),
    "an srun with another code than its job": (
        lambda: facts(
            job(), run(record()), clients=[Ending(7, "srun", 1, stdout=said("stdout"))], plan=plan(kind="srun")
        ),
        "clients end",
    ),
    "an srun that swallowed output": (
        lambda: facts(job(), run(record()), clients=[Ending(7, "srun", 0)], plan=plan(kind="srun")),
        "every byte once",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_told(name: str) -> None:
    make, promise = BROKEN[name]
    assert promise in promises(make())


def test_a_shared_gpu_is_told() -> None:
    other = job() | {"job_id": 71, "name": "chaos-8"}
    both = [run(record(100)), parse("node001", "8.71.1.0", record(101).splitlines())]
    found = Facts({7: plan(), 8: plan(serial=8)}, [job(), other], both, lambda *_: Output(b"", True))
    assert "no GPU is shared" in promises(found)
    apart = [both[0], parse("node001", "8.71.1.0", record(103).splitlines())]
    assert "no GPU is shared" not in promises(Facts(found.plans, found.jobs, apart, found.read))


def test_what_could_not_be_written_is_judged_by_its_file_alone() -> None:
    text = record(extra="102.5 unsaid stdout 2").replace(f"sum stdout {len(said('stdout'))}", "sum stdout 5")
    text = text.replace(md5(said("stdout")).hexdigest(), md5(b"7.1.0").hexdigest())
    assert check(facts(job(), run(text), spool={"stdout": b"7.1.0"})) == []
    assert promises(facts(job(), run(text), spool={"stdout": b"7.1."})) == ["every byte once"]


def test_a_record_with_a_line_that_no_job_writes_is_refused() -> None:
    with pytest.raises(ValueError, match="what is"):
        run("100.0 perhaps 1")
