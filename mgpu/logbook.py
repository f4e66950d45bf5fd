"""The log: one place that says how a line looks, as text for people or as JSON for programs, from the same call.

A line that concerns a job or a node says so with `extra=about(...)`, not in its text: in text it begins with their
names, in JSON they are keys of their own. What happens to jobs and nodes is an audit row; each is a line here, once it
is stored. Nothing that somebody else named (a job, a node's answer) can begin a line or reach a terminal's controls.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from mgpu.core.array import shown_id
from mgpu.core.lifecycle.milestones import WHO, Happening
from mgpu.core.model import Job, PartKey

Format = Literal["text", "json"]
SYSLOG = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
GRAVE = ("node DOWN", "output incomplete", "GPU suspect")

_FIELDS = "mgpu_fields"
_LONGEST = 4000  # characters of a message
LOG_MAX = 32 << 20  # bytes

log = logging.getLogger("mgpu.happened")


def about(
    key: PartKey | None = None, node: str | None = None, job_id: int | None = None, event: str | None = None
) -> dict[str, Any]:
    """For `extra=` of a log call: what the line concerns."""
    part = {} if key is None else {"job_id": key.job_id, "attempt": key.attempt, "rank": key.rank}
    found = {"event": event, "job_id": job_id, **part, "node": node}
    return {_FIELDS: {name: value for name, value in found.items() if value is not None}}


def happened(happening: Happening) -> None:
    """A line for what was just stored."""
    entry, job = happening.entry, happening.job
    by = "" if entry.who == WHO else f" by {entry.who}"
    text = ": ".join(filter(None, (f"{entry.what}{by}", entry.result, entry.detail)))
    fields = about(node=entry.node, job_id=entry.job_id, event=entry.what)
    if job is not None:
        fields[_FIELDS] |= _of_job(job)
    if entry.who != WHO:
        fields[_FIELDS] |= {"user": entry.who, "uid": entry.uid}
    level = logging.WARNING if entry.what in GRAVE or entry.result else logging.INFO
    log.log(level, "%s", text, extra=fields)


def _of_job(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {"state": str(job.state)}
    if job.attempt:
        found["attempt"] = job.attempt
    if job.exit_code is not None:
        found["exit_code"] = job.exit_code
    if job.array_id is not None:
        found |= {"job": shown_id(job), "array_job_id": job.array_id, "array_index": job.array_index}
    return found


class Lines(logging.Formatter):
    """`journal`: it is the system's, which knows the time, and reads from its beginning how serious a line is."""

    def __init__(self, form: Format, journal: bool = False) -> None:
        super().__init__()
        self._form = form
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        trouble = self.formatException(record.exc_info) if record.exc_info else ""
        message = _cut(record.getMessage())
        lines = [_json(record, message, trouble)] if self._form == "json" else self._text(record, message, trouble)
        before = f"<{SYSLOG.get(record.levelno, 6)}>" if self._journal else ""
        return "\n".join(before + line for line in lines)

    def _text(self, record: logging.LogRecord, message: str, trouble: str) -> list[str]:
        head = "" if self._journal else f"{_local(int(record.created))} {record.levelname} "
        place = _place(getattr(record, _FIELDS, {}))
        # what goes with it is set in: only a line of ours begins at the edge
        more = [f"    {printable(line)}" for line in trouble.split("\n")] if trouble else []
        return [head + printable(f"{place}{message}"), *more]


@lru_cache(maxsize=1)
def _local(second: int) -> str:
    """By the clock on the wall. Lines come in bursts, and this would be half of what one costs."""
    return f"{datetime.fromtimestamp(second).astimezone():%Y-%m-%d %H:%M:%S}"


def _place(fields: dict[str, Any]) -> str:
    job = fields.get("job", fields.get("job_id"))
    attempt = "" if "rank" not in fields else f".{fields['attempt']} rank {fields['rank']}"
    words = [f"job {job}{attempt}" if job is not None else "", str(fields.get("node", ""))]
    place = " on ".join(filter(None, words))
    return f"{place}: " if place else ""


def _json(record: logging.LogRecord, message: str, trouble: str) -> str:
    when = datetime.fromtimestamp(record.created, timezone.utc)
    line = {
        "time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": message,
        **getattr(record, _FIELDS, {}),
    }
    return json.dumps({**line, "exception": trouble} if trouble else line)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def printable(text: str) -> str:
    """Without what ends a line or moves a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]  # of which Python 3.10 knows nothing
    """Where that is a file, it begins anew each time that it has become long; the one before is kept as FILE.1."""

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Under the handler's lock."""
        super().emit(record)
        with suppress(OSError):
            facts, named = os.fstat(2), self._path.stat()
            if facts.st_size > LOG_MAX and (facts.st_dev, facts.st_ino) == (named.st_dev, named.st_ino):
                self._begin_anew()

    def _begin_anew(self) -> None:
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for number in (1, 2):
            if os.fstat(number).st_size > LOG_MAX:
                os.dup2(fresh, number)
        os.close(fresh)


def to_stderr(path: Path, level: int = logging.INFO) -> None:
    """Everything that is logged from now on; as text, until `write_as` says otherwise. `path`: of the file that stderr
    may be."""
    logging.basicConfig(handlers=[_Stderr(path)], level=max(level, logging.INFO), force=True)
    logging.getLogger("mgpu").setLevel(level)  # the libraries' own details help nobody
    write_as("text")
    # paramiko reports each lost link with a traceback; we tell it in one line ourselves
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def write_as(form: Format, journal: bool = False) -> None:
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Lines(form, journal))
