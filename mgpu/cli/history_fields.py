"""What can be told of a job that ended: a row for each column of `mgpu history --format`, by the names that sacct has
for it."""

from __future__ import annotations

import time

from mgpu.cli.csv_text import csv_text
from mgpu.cli.session import bad_request
from mgpu.lean.typing import Any, Callable, NamedTuple, Sequence
from mgpu.wording.figures import epoch, in_local_time
from mgpu.wording.jobs import elapsed, ended_state, placed, shown_id, signal_of, waited_for, why
from mgpu.wording.letters import clean, cut, width_of

Row = dict[str, Any]


class Field(NamedTuple):
    """`told`: of the job as the master tells it, at that moment. `right`: aligned so."""

    name: str
    help: str
    told: Callable[[Row, float], str]
    right: bool = False
    of_use: bool = False  # of what it made of its GPUs, which is asked for only when somebody wants to know


class Column(NamedTuple):
    """One that was asked for. `width` 0 = as wide as what stands in it."""

    field: Field
    width: int
    left: bool


def span(seconds: float | None) -> str:
    """As sacct writes it: [D-]HH:MM:SS."""
    if seconds is None:
        return ""
    minutes, second = divmod(max(int(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02}:{minute:02}:{second:02}"


def stamp(text: str | None) -> str:
    """A moment by the clock here, as sacct writes it."""
    when = epoch(text)
    return "Unknown" if when is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(when))


def exit_words(job: Row) -> str:
    """Code and signal, as sacct writes them."""
    code = job.get("exit_code")
    if code is None:
        return ""
    number = signal_of(code)
    return f"{code}:0" if number is None else f"0:{number}"


def node_list(job: Row) -> str:
    names = list(dict.fromkeys(str(part["node"]) for part in job.get("allocation") or ()))
    if not names:
        return "None assigned"
    from mgpu.core.hostlist import fold

    return fold(names)


def gpu_hours(job: Row, now: float) -> str:
    return f"{(job.get('gpus') or 0) * elapsed(job, now) / 3600:.2f}"


def tres(job: Row, _now: float) -> str:
    return f"gres/gpu={job.get('gpus') or 0},node={job.get('nodes') or 1}"


def memory(job: Row, _now: float) -> str:
    return f"{job['mem_mib']}M" if job.get("mem_mib") else ""


def utilization(job: Row, _now: float) -> str:
    mean = (job.get("use") or {}).get("utilization")
    return "" if mean is None else f"{mean:.1f}"


def memory_peak(job: Row, _now: float) -> str:
    most = (job.get("use") or {}).get("memory_peak_mib")
    return "" if most is None else f"{most}M"


def idle_hours(job: Row, _now: float) -> str:
    return f"{job['use']['idle_gpu_hours']:.2f}" if job.get("use") else ""


def _plain(key: str) -> Callable[[Row, float], str]:
    return lambda job, _now: "" if job.get(key) is None else str(job[key])


# A row a column.
FIELDS = [
    Field("JobID", "17, or 20_3 of an array", lambda job, _: shown_id(job), right=True),
    Field("JobIDRaw", "the number of its files", lambda job, _: str(job.get("number", job["job_id"])), right=True),
    Field("JobName", "its name", _plain("name")),
    Field("User", "whose it is", _plain("user")),
    Field("Account", "what it is counted to", _plain("account")),
    Field("Partition", "where it was queued", _plain("partition")),
    Field("State", "how it ended", lambda job, _: ended_state(job)),
    Field("Reason", "why, in words", lambda job, _: in_local_time(why(job))),
    Field("ExitCode", "exit code:signal", lambda job, _: exit_words(job), right=True),
    Field("Elapsed", "how long it ran, [D-]HH:MM:SS", lambda job, now: span(elapsed(job, now)), right=True),
    Field("ElapsedRaw", "the same in seconds", lambda job, now: str(int(elapsed(job, now))), right=True),
    Field("Timelimit", "how long it might", lambda job, _: span(job.get("time_limit_s")) or "UNLIMITED", right=True),
    Field("GPUs", "how many it had, or asked for", _plain("gpus"), right=True),
    Field("AllocTRES", "GPUs and nodes, as sacct writes them", tres),
    Field("GPUHours", "GPUs times hours", gpu_hours, right=True),
    Field("GPUUtil", "mean utilisation of its GPUs in percent", utilization, right=True, of_use=True),
    Field("GPUMemPeak", "most memory in use on any of them", memory_peak, right=True, of_use=True),
    Field("IdleGPUHours", "GPU-hours in which they did nothing", idle_hours, right=True, of_use=True),
    Field("NNodes", "on how many nodes", _plain("nodes"), right=True),
    Field("NodeList", "on which", lambda job, _: node_list(job)),
    Field("NodeGPUs", "on which, and which GPUs there", lambda job, _: placed(job)),
    Field("Submit", "when it was submitted", lambda job, _: stamp(job.get("submit_time")), right=True),
    Field("Start", "when it started", lambda job, _: stamp(job.get("start_time")), right=True),
    Field("End", "when it ended", lambda job, _: stamp(job.get("end_time")), right=True),
    Field("Planned", "how long it waited", lambda job, now: span(waited_for(job, now)), right=True),
    Field("Attempt", "which try this was, from 1", _plain("attempt"), right=True),
    Field("Restarts", "tries before it", lambda job, _: str(max((job.get("attempt") or 0) - 1, 0)), right=True),
    Field("Priority", "its priority", _plain("priority"), right=True),
    Field("ReqCPUS", "cores for each task", _plain("cpus_per_task"), right=True),
    Field("ReqMem", "memory on each node", memory, right=True),
    Field("SubmitLine", "its command", lambda job, _: " ".join(map(str, job.get("command") or ()))),
]  # fmt: skip
OTHER_NAMES = {
    "reserved": "planned", "wait": "planned", "allocnodes": "nnodes", "id": "jobid", "name": "jobname",
    "exit": "exitcode", "time": "elapsed", "command": "submitline", "ngpus": "gpus",
}  # fmt: skip
BY_NAME = {field.name.lower(): field for field in FIELDS}
OF_CSV = (
    "JobID,JobName,User,Account,Partition,State,ExitCode,Elapsed,ElapsedRaw,GPUs,GPUHours,GPUUtil,GPUMemPeak,NNodes,NodeList,Submit,Start,"
    "End,Planned,Attempt,Reason"
)


def columns_asked(text: str) -> list[Column]:
    """Of `JobID,JobName%20,Elapsed`. Raises MasterError (bad_request)."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise bad_request("--format names no column", "mgpu history --helpformat lists them")
    return [_column(word) for word in words]


def _column(word: str) -> Column:
    name, percent, width = word.partition("%")
    key = name.lower()
    field = BY_NAME.get(OTHER_NAMES.get(key, key))
    if field is None:
        raise _unknown(name)
    digits = width.removeprefix("-")
    if percent and not (digits.isascii() and digits.isdigit() and 0 < len(digits) < 5 and int(digits)):
        raise bad_request(f"--format {word[:40]!r}: {width[:20]!r} is no width", f"write {field.name}%20")
    return Column(field, int(digits) if percent else 0, width.startswith("-") if percent else not field.right)


def _unknown(name: str) -> Exception:
    import difflib

    near = difflib.get_close_matches(name.lower(), [*BY_NAME, *OTHER_NAMES], n=1)
    meant = BY_NAME[OTHER_NAMES.get(near[0], near[0])].name if near else ""
    hint = f"did you mean {meant}?" if meant else "mgpu history --helpformat lists them"
    return bad_request(f"--format knows no column {name[:40]!r}", hint)


def cells(columns: Sequence[Column], jobs: Sequence[Row], now: float) -> list[list[str]]:
    return [[clean(column.field.told(job, now)) for column in columns] for job in jobs]


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]], header: bool) -> list[str]:
    """Lines of a table. Nothing is cut but what was given a width."""
    rows = [[column.field.name for column in columns], *rows] if header else rows
    widths = [
        column.width or max((width_of(row[place]) for row in rows), default=0) for place, column in enumerate(columns)
    ]
    return ["  ".join(map(_padded, columns, row, widths)).rstrip() for row in rows]


def _padded(column: Column, text: str, width: int) -> str:
    shown = cut(text, width)
    gap = " " * (width - width_of(shown))
    return shown + gap if column.left else gap + shown


def parsable(columns: Sequence[Column], rows: Sequence[Sequence[str]], header: bool) -> list[str]:
    """As sacct's --parsable2: what is in a cell is not cut; a `|` in one becomes its escape, or nobody could tell."""
    names = [[column.field.name for column in columns]] if header else []
    return ["|".join(cell.replace("|", "\\x7c") for cell in row) for row in [*names, *rows]]


def csv(columns: Sequence[Column], rows: Sequence[Sequence[str]], header: bool) -> str:
    names = [[column.field.name for column in columns]] if header else []
    return csv_text([*names, *rows])


def help_lines() -> list[str]:
    width = max(len(field.name) for field in FIELDS)
    return [f"{field.name:{width}}  {field.help}" for field in FIELDS]
