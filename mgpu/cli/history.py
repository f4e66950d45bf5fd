"""mgpu history: the jobs that ended, as sacct's users expect to see them."""

from __future__ import annotations

import sys

from mgpu import clock
from mgpu.cli.filters import FILTERS, LIMIT, NODE, job_number, query
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import table, terminal_columns
from mgpu.client.http import MasterError, with_query
from mgpu.client.zone import own_zone
from mgpu.lean.typing import Any, Iterator
from mgpu.wording.figures import duration, local_time
from mgpu.wording.jobs import ACTIVE, elapsed, ended_state, place_or_reason, shown_id, waited_for

EXAMPLES = """
Examples:
  mgpu history --me               your own last jobs
  mgpu history 17 '20_[1-3]'      these
  mgpu history -S yesterday --failed
  mgpu history -S 2026-12-01 -E 2027-01-01 --csv > december.csv
  mgpu history -o JobID,JobName%20,State,Elapsed,NodeList
"""
FAILED = "FAILED,TIMEOUT,NODE_FAIL"
NARROW, WIDE = 100, 150  # columns
LAST = 100
MOST = 100_000  # the master gives no more at once
OPTIONS: list[Argument | Option] = [
    Argument("ids", "[ID]...", nargs="*"),
    Option("-j --jobs", "IDS", "These jobs, with commas between."),
    *FILTERS,
    NODE,
    Option("-S --since --starttime", "TIME", "Ended since: 2h, 7days, 08:00, 2026-12-01.", key="since"),
    Option("-E --until --endtime", "TIME", "Ended before that; the same forms.", key="until"),
    Option("--failed", "", "FAILED, TIMEOUT and NODE_FAIL alone."),
    LIMIT,
    Option("-D --attempts --duplicates", "", "A row for each attempt.", key="attempts"),
    Option("-o --format", "LIST", "These columns: JobID,JobName%20,Elapsed."),
    Option("-e --helpformat", "", "List the columns that there are."),
    Option("--csv", "", "Comma-separated, for a spreadsheet."),
    Option("-P --parsable2", "", "With | between the columns."),
    Option("--no-header --noheader", "", "Without the columns' names.", key="no_header"),
    Option("-X --allocations", "", "As sacct has it; there are no steps to leave out."),
]


@command(*OPTIONS, examples=EXAMPLES)
def history(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """List the jobs that ended, the latest last; those that are named also before they have."""
    if given["helpformat"]:
        from mgpu.cli.history_fields import help_lines

        session.print_lines(help_lines())
        return 0
    check(session, given)
    names = [*ids, *split_names(given.pop("jobs") or "")]
    numbers = [str(job_number(name)) for name in names]
    columns = columns_wanted(given)  # a mistake in it is told before anybody is asked
    use = session.json or any(column.field.of_use for column in columns)
    wanted = {**asked_of(numbers, given), "use": "1" if use else ""}
    answer = session.call("GET", with_query("/v1/jobs", **wanted))
    missing = unknown(numbers, wanted, answer["jobs"])
    if session.json:
        session.print_json(answer)
    elif answer["jobs"] or not missing:
        show(session, answer["jobs"], columns, given)
    if missing:
        session.print_error(missing)
        return missing.exit_code
    return 0


def check(session: Session, given: dict[str, Any]) -> None:
    """Raises MasterError (bad_request)."""
    if given["csv"] and given["parsable2"]:
        raise bad_request("--csv and -P are two forms", "give one of them")
    if session.json and (given["csv"] or given["parsable2"] or given["format"] is not None):
        raise bad_request("--json always tells all, in its own form", "leave out --format, --csv and -P")
    if given["failed"] and given["states"]:
        raise bad_request(f"--failed means --states {FAILED}", "give one of them")


def split_names(text: str) -> list[str]:
    """`17,20_[1,3]` has a comma between two names, and one within the second."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [name.strip() for name in found if name.strip()]


def asked_of(numbers: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """What the master is asked for. Without a moment or names the last ones are meant, else all."""
    filters = query({key: given[key] for key in ("user", "me", "partition", "states", "name", "node")})
    if given["failed"]:
        filters["states"] = FAILED
    moments = {key: given[key] for key in ("since", "until") if given[key]}
    everything = bool(numbers or moments)
    active = set(filters.get("states", "").split(",")) & set(ACTIVE)
    return {
        "scope": "all" if numbers or active else "ended",
        "limit": given["limit"] or (MOST if everything else LAST),
        **filters,
        **moments,
        "zone": own_zone() if moments else "",
        "ids": ",".join(numbers),
        "attempts": "1" if given["attempts"] else "",
    }


def unknown(numbers: list[str], wanted: dict[str, Any], jobs: list[dict[str, Any]]) -> MasterError | None:
    """Of jobs that were named and are not there; where there are filters too, they may have been left out by these."""
    if set(wanted) - {"scope", "limit", "zone", "ids", "attempts", "use"}:
        return None
    there = {str(job["job_id"]).partition("_")[0] for job in jobs} | {str(job.get("number")) for job in jobs}
    missing = [number for number in numbers if number.partition("_")[0] not in there]
    what = "there is no job" if len(missing) == 1 else "there are no jobs"
    return (
        MasterError("not_found", f"{what} {', '.join(missing)}", "mgpu history lists those that ended")
        if missing
        else None
    )


def columns_wanted(given: dict[str, Any]) -> list[Any]:
    """Empty = the table that is for looking at."""
    if given["format"] is None and not (given["csv"] or given["parsable2"]):
        return []
    from mgpu.cli.history_fields import OF_CSV, columns_asked

    return columns_asked(OF_CSV if given["format"] is None else given["format"])


def show(session: Session, jobs: list[dict[str, Any]], columns: list[Any], given: dict[str, Any]) -> None:
    rows = [row for job in jobs for row in attempts_of(job)] if given["attempts"] else jobs
    header = not given["no_header"]
    if not columns:
        lines = history_lines(rows, given["attempts"])
        session.print_lines(lines if header else lines[1:])
        return
    from mgpu.cli import history_fields as fields

    cells = fields.cells(columns, rows, clock.now())
    if given["csv"]:
        sys.stdout.write(fields.csv(columns, cells, header))
    else:
        lines = (fields.parsable if given["parsable2"] else fields.aligned)(columns, cells, header)
        print(*lines, sep="\n", end="\n" if lines else "")


def attempts_of(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The job as it was in each of its attempts; one that never began as it is."""
    attempts = job.get("attempts") or []
    before = job.get("submit_time")
    waits = job["state"] == "PENDING"  # again, or still
    for one in attempts if waits else attempts[:-1]:
        yield {
            **job, **{key: one[key] for key in ("attempt", "start_time", "end_time", "exit_code", "allocation")},
            "use": one.get("use"),
            "state": "REQUEUED", "reason": "", "detail": one["reason"], "waits_since": before,
        }  # fmt: skip
        before = one["end_time"] or before
    yield {**job, "waits_since": before, "attempt": None if waits else job["attempt"]}


def history_lines(jobs: list[dict[str, Any]], attempts: bool) -> list[str]:
    """As much as there is room for: when it started and how long it had waited on wide terminals alone."""
    room = terminal_columns()
    narrow, wide = 0 < room < NARROW, room == 0 or room >= WIDE
    headers = ["JOBID", "NAME", "USER", "STATE", "EXIT", "TIME", "GPUS", "ENDED", "NODE:GPU (REASON)"]
    rows = [history_row(job, narrow) for job in jobs]
    if wide:
        headers[7:7] = ["WAITED", "STARTED"]
        for job, row in zip(jobs, rows, strict=True):
            waited = waited_for(job, clock.now())
            row[7:7] = ["-" if waited is None else duration(waited), local_time(job.get("start_time"))]
    if attempts:
        headers.insert(1, "TRY")
        for job, row in zip(jobs, rows, strict=True):
            row.insert(1, str(job.get("attempt") or "-"))
    right = [place for place, name in enumerate(headers) if name in ("JOBID", "TRY", "EXIT", "TIME", "GPUS", "WAITED")]
    name, place, user = headers.index("NAME"), len(headers) - 1, headers.index("USER")
    return table(headers, rows, right=right, shrink=((name, 12), (place, 12), (user, 6)))


def history_row(job: dict[str, Any], narrow: bool) -> list[str]:
    """`narrow`: the time of its end without year and seconds."""
    code, ended = job.get("exit_code"), local_time(job.get("end_time"))
    return [
        shown_id(job),
        job.get("name") or "",
        job.get("user") or "",
        ended_state(job),
        "-" if code is None else str(code),
        duration(elapsed(job, clock.now())),
        str(job.get("gpus", "")),
        ended[5:16] if narrow and len(ended) > 16 else ended,
        "(cancelled before they began)"
        if job.get("array_rest") and job["state"] not in ACTIVE
        else place_or_reason(job),
    ]
