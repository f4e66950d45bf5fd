"""mgpu queue: jobs that wait or run, as a table."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.filters import FILTERS, NODE, query
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import table
from mgpu.cli.watch import EVERY, WATCH, look
from mgpu.client.http import with_query
from mgpu.lean.typing import Any
from mgpu.wording.figures import duration, local_time
from mgpu.wording.jobs import ACTIVE, expected_on, idle_words, place_or_reason, ran_for, shown_id

EXAMPLES = """
Examples:
  mgpu queue --me                 your own jobs
  mgpu queue --states PENDING     those that wait; the last column says why
  mgpu queue --start              when and where those that wait will start
  mgpu queue --watch -u ann       again every two seconds, until ^C
  mgpu queue --with-nodes         and what each node has free
  mgpu queue -w gpu01 --json
"""
START = Option("--start", "", "When and where waiting jobs are expected to start.")
WITH_NODES = Option("--with-nodes", "", "The nodes too, under the jobs: total, free, busy.")


@command(*FILTERS, NODE, START, WITH_NODES, WATCH, EVERY, examples=EXAMPLES)
def queue(session: Session, /, start: bool, with_nodes: bool, **given: Any) -> int:
    """List the jobs that wait or run; --start tells who is next."""
    wanted = query(given)
    if not session.json:
        wanted["brief"] = "1"
    lines = expected_lines if start else queue_lines
    if start:
        path = with_query("/v1/jobs", scope="active", start="1", **{**wanted, "states": "PENDING"})
    else:
        ended = set(wanted.get("states", "").split(",")) - {*ACTIVE, ""}
        path = with_query("/v1/jobs", scope="all" if ended else "active", **wanted)
    if not with_nodes:
        return look(session, path, lines, given)
    if given["watch"] or given["iterate"]:
        raise bad_request("--with-nodes is one look at both", "leave --watch out; mgpu top shows both all the time")
    return look(
        session,
        path,
        lambda answer: [*lines(answer), "", *node_sums(answer["nodes"])],
        given,
        lambda answer: {**answer, "nodes": session.call("GET", "/v1/nodes")["nodes"]},
    )


def node_sums(nodes: list[dict[str, Any]]) -> list[str]:
    from mgpu.cli.nodes import summarized

    return summarized(nodes)


def queue_lines(answer: dict[str, Any]) -> list[str]:
    now = clock.now()
    words: dict[tuple[Any, Any], str] = {}  # of thousands that wait, few say something else
    jobs = answer["jobs"]
    if any(isinstance(job["job_id"], str) for job in jobs):  # tasks: they come in the order in which they began
        jobs = sorted(jobs, key=lambda job: int(str(job["job_id"]).partition("_")[0]))
    rows = [waiting_row(job, words) if only_waits(job) else queue_row(job, now) for job in jobs]
    headers = ("JOBID", "NAME", "USER", "STATE", "TIME", "GPUS", "NODE:GPU (REASON)")
    return table(headers, rows, right=(0, 4, 5), shrink=((1, 12), (6, 12), (1, 6)))


def only_waits(job: dict[str, Any]) -> bool:
    """One that never began and is no array: all that there is to say follows from why it waits."""
    if job["state"] != "PENDING" or job.get("allocation"):
        return False
    return not (job.get("array_rest") or job.get("start_time") or job.get("idle_since"))


def waiting_row(job: dict[str, Any], words: dict[tuple[Any, Any], str]) -> tuple[str, ...]:
    """As `queue_row`. `words`: what was found for others with the same reason and detail."""
    alike = job.get("reason"), job.get("detail")
    why = words.get(alike)
    if why is None:
        why = words[alike] = place_or_reason(job)
    name, user = job.get("name") or "", job.get("user") or ""
    return (str(job["job_id"]), name, user, "PENDING", "0:00", str(job.get("gpus", "")), why)


def expected_lines(answer: dict[str, Any]) -> list[str]:
    """Those that wait, the next to start first. If nobody comes or ends early: so the plan is now."""
    jobs = sorted(answer["jobs"], key=lambda job: job["expected_start"] or "~")  # else by number
    headers = ("JOBID", "NAME", "USER", "GPUS", "START", "NODE:GPU (REASON)")
    rows = [
        (
            *(shown_id(job), job.get("name") or "", job.get("user") or "", str(job["gpus"])),
            local_time(job["expected_start"]),
            expected_on(job["expected_on"]) or place_or_reason(job),
        )
        for job in jobs
    ]
    return table(headers, rows, right=(0, 3), shrink=((1, 12), (5, 12), (1, 6)))


def queue_row(job: dict[str, Any], now: float) -> tuple[str, ...]:
    return (
        shown_id(job),
        job.get("name") or "",
        job.get("user") or "",
        job["state"],
        duration(ran_for(job, now)),
        str(job.get("gpus", "")),
        " ".join(filter(None, (place_or_reason(job), f"({idle})" if (idle := idle_words(job, now)) else ""))),
    )
