"""mgpu show: all about one job or one node."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.filters import job_path
from mgpu.cli.nodes import machine_lines, node_lines
from mgpu.cli.session import Session, bad_request, node_path
from mgpu.cli.syntax import Argument, command
from mgpu.cli.ways import ways
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.details import attempt_words, launcher_words, order_words, plain, shell_words, ship_words, use_words
from mgpu.wording.figures import count, duration, local_time
from mgpu.wording.jobs import idle_words, its_output, part_words, why
from mgpu.wording.letters import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = """
Examples:
  mgpu show job 17             or only: mgpu show 17
  mgpu show 20_4               a task of an array
  mgpu show node gpu01 --json  or only: mgpu show gpu01
"""
TIMES = {"submit_time": "submitted", "start_time": "started", "end_time": "ended"}


@command(Argument("kind", "job|node"), Argument("name", "ID|NAME", "?"), examples=EXAMPLES)
def show(session: Session, /, kind: str, name: str | None) -> None:
    """Show all about a job or a node."""
    if name is None and kind not in ("job", "node"):
        kind, name = "job" if kind[:1].isdigit() else "node", kind
    if name is None or kind not in ("job", "node"):
        asked = " ".join(filter(None, ("show", kind, name)))
        raise bad_request(f"{asked}: of what?", "mgpu show job ID, or mgpu show node NAME")
    path = job_path(name) if kind == "job" else node_path(name)
    answer = session.call("GET", path + "?ways=1" * (kind == "job"))
    if session.json:
        session.print_json(answer)
    elif kind == "job":
        head = session.head()
        reached = head is not None or not session.elsewhere()  # with a token nobody says that there is a login
        session.print_lines(job_lines(answer, ways(answer.get("logins") or (), head) if reached else ()))
    else:
        session.print_lines([*node_lines([answer]), *machine_lines(answer)])


def job_lines(job: dict[str, Any], to_it: Sequence[tuple[str, str]] = ()) -> list[str]:
    """A line per fact: those that people ask for first, then all others that the master sent. `to_it`: ways there."""
    because, code = why(job), job.get("exit_code")
    idle = idle_words(job, clock.now())
    facts: list[tuple[str, Any]] = [
        ("job", f"{job['job_id']} {job.get('name') or ''}"),
        ("user", job.get("user")),
        ("state", job["state"] + (f" ({because})" if because else "")),
        ("exit code", code),
        ("decided by", f"rank {job['failed_rank']}: {its_output(job)}" if job.get("failed_rank") is not None else ""),
        ("command", shell_words(job.get("command") or [])),
        ("asked for", f"{count(job['gpus'], 'GPU')} on {count(job['nodes'], 'node')}"),
        ("launcher", launcher_words(job)),
        *((word, local_time(job[key])) for key, word in TIMES.items() if job.get(key)),
        ("idle", f"{idle.removeprefix('idle ')}, since {local_time(job['idle_since'])}" if idle else ""),
        ("GPU use", use_words(job.get("use"))),
        ("time limit", "" if job.get("time_limit_s") is None else duration(job["time_limit_s"])),
        ("order", order_words(job)),
        ("shipped", ship_words(job.get("ship"))),
        ("attempt", job.get("attempt") or ""),
    ]
    for part in job.get("allocation") or ():
        state = " ".join(f"{key} {part[key]}" for key in ("pid", "exit_code") if part.get(key) is not None)
        facts.append((f"rank {part['rank']}", f"{part_words(part)} {part.get('state') or ''} {state}".rstrip()))
    facts += to_it
    attempts = job.get("attempts") or []
    if len(attempts) > 1:
        facts += [(f"attempt {each['attempt']}", attempt_words(each)) for each in attempts]
    told = {"job_id", "name", "user", "state", "reason", "detail", "exit_code", "command", "gpus", "nodes", "attempt"}
    told |= {*TIMES, "time_limit_s", "allocation", "attempts", "array_rest", "order", "ship", "logins", "failed_rank"}
    told |= {"launcher", "ntasks_per_node", "idle_since", "use"}
    others = {key: value for key, value in job.items() if key not in told}
    facts += [(key.replace("_", " "), plain(value)) for key, value in others.items()]
    shown = [(word, value) for word, value in facts if value not in (None, "", [], {})]
    width = max(len(word) for word, _ in shown)
    return [f"{clean(word):{width}}  {clean(value)}" for word, value in shown]
