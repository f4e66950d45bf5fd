"""This cluster's own past as a job log, and its nodes as a cluster to replay it on."""

from __future__ import annotations

from mgpu.cli.session import Session, bad_request
from mgpu.client.http import with_query
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.figures import epoch

if TYPE_CHECKING:
    from mgpu.core.replay import LoggedJob

MOST_JOBS = 100_000


def past_jobs(session: Session) -> list[LoggedJob]:
    """Those that began and have ended, on GPUs, by submission; what stands in the history to the second."""
    answer = session.call("GET", with_query("/v1/jobs", scope="ended", limit=MOST_JOBS))
    found = [made for number, job in enumerate(answer["jobs"], 1) if (made := _logged(number, job)) is not None]
    if not found:
        raise bad_request("the history holds no job that ran on GPUs", "mgpu history shows it")
    return sorted(found, key=lambda job: job.submit)


def _logged(number: int, job: dict[str, Any]) -> LoggedJob | None:
    from mgpu.core.model import JobId, Request
    from mgpu.core.replay import LoggedJob

    submit, start, end = (epoch(job.get(key)) for key in ("submit_time", "start_time", "end_time"))
    sizes = [len(part["devices"]) for part in job.get("allocation") or ()]
    if submit is None or start is None or end is None or not sum(sizes):
        return None
    end = max(start, end)  # the clock may have been set
    request = Request(gpus=sum(sizes))
    if len(sizes) > 1:
        request = Request(gpus=sum(sizes), nodes=len(sizes))
    limit = job.get("time_limit_s")
    user, queue = job.get("user") or "", job.get("partition") or ""
    limit = limit and max(limit, end - start)
    return LoggedJob(JobId(number), submit, end - start, request, user, limit, queue, str(job["job_id"]))


def present_nodes(session: Session) -> str:
    """As --nodes would say it."""
    sizes = [len(node["gpus"]) for node in session.call("GET", "/v1/nodes")["nodes"] if node["gpus"]]
    if not sizes:
        raise bad_request("no node of the cluster has GPUs now", "say which cluster: --nodes 8x8")
    return ",".join(f"{sizes.count(size)}x{size}" for size in dict.fromkeys(sizes))
