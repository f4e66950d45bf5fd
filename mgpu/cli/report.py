"""mgpu report: what came of the GPUs."""

from __future__ import annotations

import sys

from mgpu import clock
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import table
from mgpu.client.http import with_query
from mgpu.client.zone import own_zone
from mgpu.lean.typing import Any, Sequence
from mgpu.wording.figures import count, gib, local_time
from mgpu.wording.jobs import idle_words, placed, shown_id
from mgpu.wording.letters import clean

EXAMPLES = """
Examples:
  mgpu report                     the last week, by user
  mgpu report --day --by node
  mgpu report --since 2026-11-01 --until 2026-12-01 --by account
  mgpu report --month --csv > november.csv
"""
STRETCHES = {"day": "1d", "week": "7d", "month": "30d"}
MOST_IDLE = 10  # jobs that are shown
OF_CSV = (
    "name", "gpu_hours", "share", "measured_gpu_hours", "utilization", "idle_gpu_hours", "memory_peak_mib", "jobs",
    "completed", "failed", "cancelled", "success", "wait_median_s", "wait_p90_s",
)  # fmt: skip


@command(
    Option("--day", "", "Of the last 24 hours."),
    Option("--week", "", "Of the last 7 days (default)."),
    Option("--month", "", "Of the last 30 days."),
    Option("-S --since", "TIME", "From then on: 2h, 7d, yesterday, 2026-12-01.", key="since"),
    Option("-E --until", "TIME", "Until before that; the same forms.", key="until"),
    Option("--by", "user|node|account", "A row for each of these (user)."),
    Option("--csv", "", "Comma-separated, for a spreadsheet."),
    examples=EXAMPLES,
)
def report(session: Session, /, **given: Any) -> None:
    """Tell what came of the GPUs: hours, utilisation, waits, successes; nodes; and who holds GPUs idle now."""
    if session.json and given["csv"]:
        raise bad_request("--json always tells all, in its own form", "leave out --csv")
    since = since_when(given)
    wanted = {"since": since, "until": given["until"], "by": given["by"]}
    asked = {key: value for key, value in wanted.items() if value}
    answer = session.call("GET", with_query("/v1/report", **asked, zone=own_zone()))
    if session.json:
        session.print_json(answer)
    elif given["csv"]:
        sys.stdout.write(csv_of(answer))
    else:
        session.print_lines(report_lines(answer, clock.now()))


def since_when(given: dict[str, Any]) -> str:
    """Raises MasterError (bad_request)."""
    named = [word for word in STRETCHES if given[word]]
    asked = [*(f"--{word}" for word in named), *(["--since"] if given["since"] else [])]
    if len(asked) > 1:
        raise bad_request(f"{' and '.join(asked)} each say since when", "give one of them")
    if named and given["until"]:
        raise bad_request(f"--{named[0]} is until now", "give --since and --until")
    return given["since"] or STRETCHES[named[0] if named else "week"]


def csv_of(answer: dict[str, Any]) -> str:
    from mgpu.cli.csv_text import csv_text

    cells = [["" if row[key] is None else clean(row[key]) for key in OF_CSV] for row in answer["rows"]]
    return csv_text([[answer["by"], *OF_CSV[1:]], *cells])


def report_lines(answer: dict[str, Any], now: float) -> list[str]:
    lines = [f"{local_time(answer['since'])[:16]} to {local_time(answer['until'])[:16]}, by {answer['by']}"]
    if answer["rows"]:
        rows = [use_row(row) for row in (*answer["rows"], answer["total"])]
        headers = (answer["by"].upper(), "GPU-H", "SHARE", "UTIL", "IDLE-H", "GIB", "JOBS", "OK", "WAIT", "P90")
        lines += ["", *table(headers, rows, right=range(1, 10), shrink=((0, 8),))]
        if not answer["total"]["measured_gpu_hours"]:
            lines.append("nothing was measured: no node told how busy its GPUs were")
    else:
        lines += ["", "no job ran"]
    nodes = [node_row(node) for node in answer["nodes"]]
    headers_of_nodes = ("NODE", "UP", "WENT DOWN", "JOBS FAILED BY IT", "SUSPECT GPUS")
    lines += ["", *table(headers_of_nodes, nodes, right=range(1, 5), shrink=((0, 12),))]
    return [*lines, "", *idle_lines(answer["idle"], now)]


def use_row(row: dict[str, Any]) -> tuple[str, ...]:
    """`-`: nothing to say it from."""
    measured = bool(row["measured_gpu_hours"])
    return (
        row["name"] or "(none)",
        hours(row["gpu_hours"]),
        percent(row["share"]),
        "-" if row["utilization"] is None else f"{row['utilization']:.0f} %",
        hours(row["idle_gpu_hours"]) if measured else "-",
        "-" if row["memory_peak_mib"] is None else gib(row["memory_peak_mib"]),
        str(row["jobs"]),
        percent(row["success"]),
        wait(row["wait_median_s"]),
        wait(row["wait_p90_s"]),
    )


def wait(seconds: float | None) -> str:
    """In a few letters: the table has to fit."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return (
        f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
        if seconds < 2 * 86_400
        else f"{seconds / 86_400:.1f} d"
    )


def hours(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def node_row(node: dict[str, Any]) -> tuple[str, ...]:
    up = node["up"]
    # 99.97 % is not all of the time
    shown = "-" if up is None else "100 %" if up == 1 else f"{min(100 * up, 99.99):.2f} %"
    return (node["node_id"], shown, str(node["downs"]), str(node["job_failures"]), str(node["suspect"]))


def idle_lines(jobs: Sequence[dict[str, Any]], now: float) -> list[str]:
    if not jobs:
        return ["no job is idle now"]
    gpus = sum(job["gpus"] for job in jobs)
    rows = [
        (
            *(shown_id(job), job.get("name") or "", job.get("user") or "", str(job["gpus"])),
            idle_words(job, now).removeprefix("idle "),
            placed(job),
        )
        for job in jobs[:MOST_IDLE]
    ]
    lines = [f"idle now: {count(len(jobs), 'job')} on {count(gpus, 'GPU')}"]
    lines += table(("JOBID", "NAME", "USER", "GPUS", "IDLE", "NODE:GPU"), rows, right=(0, 3), shrink=((1, 12), (5, 12)))
    return [*lines, f"and {len(jobs) - MOST_IDLE} more"] if len(jobs) > MOST_IDLE else lines
