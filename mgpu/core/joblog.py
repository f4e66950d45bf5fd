"""Job logs -> LoggedJob: the Standard Workload Format, and CSV with a header.

SWF: 18 numbers a line, `;` begins a comment, -1 = not known (Feitelson, Parallel Workloads Archive,
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html). A processor there counts as a GPU here.

CSV: submit_time, duration, gpus, and where known job_id, nodes, gpus_per_node, user, vc, requested_time; in any
order, with other columns passed over. Times in seconds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from mgpu.core.model import JobId, Request
from mgpu.core.replay import LoggedJob

NEEDED = ("submit_time", "duration", "gpus")
_SWF_FIELDS = 18
_MOST = 1e12  # seconds


class JobLogError(ValueError):
    """A line that cannot be read, with its number."""


def read_log(lines: Iterable[str]) -> list[LoggedJob]:
    """By submission, ties in the order of the log; those too that never ran (`LoggedJob.ran`). A job is cut at its
    limit. Raises JobLogError."""
    rows = iter(lines)
    first = next((line for line in rows if line.strip()), "")
    whole = chain([first], rows)
    if first.lstrip().startswith(";") or ((first[:1].isspace() or first[:1].isdigit()) and "," not in first):
        found = _swf(whole)
    else:
        found = _csv(whole)
    return sorted(found, key=lambda job: job.submit)


def _swf(lines: Iterable[str]) -> Iterator[LoggedJob]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        fields = line.split()
        try:
            values = [float(field) for field in fields]
        except ValueError:
            raise JobLogError(f"line {number}: not all of it are numbers") from None
        if len(values) != _SWF_FIELDS:
            raise JobLogError(f"line {number}: {len(values)} fields, SWF has {_SWF_FIELDS}")
        used, asked = int(values[4]), int(values[7])
        processors = used if used > 0 else max(asked, 0)
        limit = values[8] if values[8] > 0 else None
        user, queue = (str(int(values[at])) if values[at] >= 0 else "" for at in (11, 14))
        job = _job(number, values[1], values[3], Request(gpus=processors), user, queue, limit)
        yield job._replace(name=fields[0])


def _csv(lines: Iterable[str]) -> Iterator[LoggedJob]:
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    if missing := [name for name in NEEDED if name not in names]:
        raise JobLogError(f"neither SWF nor CSV with the columns {', '.join(NEEDED)}: {', '.join(missing)} is missing")
    for number, row in enumerate(rows, 2):
        try:
            submit, duration = float(row["submit_time"]), float(row["duration"])
            limit = float(row["requested_time"]) if row.get("requested_time") else None
            request = _request(row)
        except (TypeError, ValueError):
            raise JobLogError(f"line {number}: not a job: {','.join(filter(None, row.values()))[:80]}") from None
        job = _job(number - 1, submit, duration, request, row.get("user") or "", row.get("vc") or "", limit)
        yield job._replace(name=row.get("job_id") or str(number - 1))


def _request(row: Mapping[str, str]) -> Request:
    nodes, each = row.get("nodes"), row.get("gpus_per_node")
    if nodes and each:
        return Request(gpus=int(nodes) * int(each), nodes=int(nodes), gpus_per_node=int(each))
    return Request(gpus=int(row["gpus"]))


def _job(
    number: int, submit: float, duration: float, request: Request, user: str, queue: str, limit: float | None
) -> LoggedJob:
    if not all(0 <= value <= _MOST for value in (submit, max(duration, 0.0), 0.0 if limit is None else limit)):
        raise JobLogError(f"job {number}: times are seconds, from 0 to {_MOST:g}")
    ran = duration if limit is None else min(duration, limit)
    return LoggedJob(JobId(number), submit, ran, request, user, limit, queue)
