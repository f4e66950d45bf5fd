"""What the planner and the views say of jobs, with tasks of arrays as people call them: those know a task by the number
of its row alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mgpu.core.array import task_name
from mgpu.core.model import JobId
from mgpu.ops.context import Context
from mgpu.ops.render import Json

_JOB = re.compile(r"\bjob (\d{1,18})(?![\d_])", re.ASCII)


def call_by_name(context: Context, rows: Iterable[Json], *keys: str) -> None:
    """Changes the texts at these keys."""
    found = [(row, key) for row in rows for key in keys if "job " in (row.get(key) or "")]
    ids = {JobId(int(number)) for row, key in found for number in _JOB.findall(row[key])}
    if not ids:
        return
    with context.store.read() as r:
        tasks = {str(job_id): task_name(array_id, index) for job_id, (array_id, index) in r.task_ids(ids).items()}
    for row, key in found if tasks else ():
        row[key] = _JOB.sub(lambda word: f"job {tasks.get(word[1], word[1])}", row[key])
