"""mgpu show: all about one job or one node."""

from __future__ import annotations

from mgpu.cli.filters import job_path
from mgpu.cli.nodes import machine_lines, node_lines
from mgpu.cli.session import Session, bad_request, node_path
from mgpu.cli.syntax import Argument, command
from mgpu.cli.ways import ways
from mgpu.lean_typing import TYPE_CHECKING, Any
from mgpu.wording.figures import count, duration, local_time
from mgpu.wording.jobs import its_output, part_words, placed, why
from mgpu.wording.letters import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = """
Examples:
  mgpu show job 17             or only: mgpu show 17
  mgpu show 20_4               a task of an array
  mgpu show node gpu01 --json
"""
TIMES = {"submit_time": "submitted", "start_time": "started", "end_time": "ended"}


@command(Argument("kind", "job|node"), Argument("name", "ID|NAME", "?"), examples=EXAMPLES)
def show(session: Session, /, kind: str, name: str | None) -> None:
    """Show all about a job or a node."""
    if name is None and kind[:1].isdigit():
        kind, name = "job", kind
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
        ("time limit", "" if job.get("time_limit_s") is None else duration(job["time_limit_s"])),
        ("order", order_words(job)),
        ("shipped", ship_words(job.get("ship"))),
        ("attempt", job.get("attempt")),
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
    told |= {"launcher", "ntasks_per_node"}
    others = {key: value for key, value in job.items() if key not in told}
    facts += [(key.replace("_", " "), plain(value)) for key, value in others.items()]
    shown = [(word, value) for word, value in facts if value not in (None, "", [], {})]
    width = max(len(word) for word, _ in shown)
    return [f"{clean(word):{width}}  {clean(value)}" for word, value in shown]


def launcher_words(job: dict[str, Any]) -> str:
    """What starts its processes, where that is more than the command once on each node."""
    named = "" if job.get("launcher") == "none" else job.get("launcher") or ""
    each = job.get("ntasks_per_node")
    tasks = f"{count(each, 'slot' if named else 'task')} on each node" if each else ""
    return ", ".join(filter(None, (named, tasks)))


def order_words(job: dict[str, Any]) -> str:
    """Its place among those of its priority, and what that follows from."""
    order = job.get("order")
    if not order:
        return ""
    if order["first"]:
        return f"by submission: it has waited for {duration(order['wait_s'])}"
    used = f"{job.get('user')}: {order['user_gpu_hours']:.4g} GPU-hours, {order['user_use']:.3g} times the average"
    if order["account_use"]:
        used += f"; account {job.get('account')}: {order['account_use']:.3g} times its share"
    wait = f"wait {duration(order['wait_s'])} / {duration(order['planned_s'])} planned"
    factors = f"{wait} x sqrt({count(order['gpus'] or 1, 'GPU')}) x fair share {order['fair_share']:.3g} ({used})"
    return f"score {order['score']:.4g} = {factors}"


def ship_words(tree: dict[str, Any] | None) -> str:
    """The working tree that goes along."""
    if not tree:
        return ""
    changed = " with changes" if tree["dirty"] else ""
    commit = f"commit {tree['commit'][:10]}{changed}" if tree["commit"] else "no commit"
    place = f", runs in {tree['directory']}" if tree["directory"] else ""
    return f"{commit}: {count(tree['files'], 'file')}, {size_words(tree['size'])}{place}"


def size_words(size: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.1f} {unit}"
    return count(size, "byte")


def attempt_words(attempt: dict[str, Any]) -> str:
    """One try in a line: when, how it ended, where it was."""
    code = attempt.get("exit_code")
    pieces = [
        attempt["state"],
        "" if code is None else f"exit {code}",
        f"({attempt['reason']})" if attempt.get("reason") else "",
        f"on {placed(attempt)}" if attempt.get("allocation") else "",
        f"{local_time(attempt.get('start_time'))} to {local_time(attempt.get('end_time'))}",
    ]
    return " ".join(filter(None, pieces))


def plain(value: Any) -> Any:
    """Lists and mappings in a line."""
    if isinstance(value, dict):
        return " ".join(f"{key}={plain(each)}" for key, each in value.items() if each not in (None, "", [], {}))
    return "; ".join(str(plain(each)) for each in value) if isinstance(value, list) else value


def shell_words(words: list[str]) -> str:
    """The command so that it could be typed again."""
    if len(words) == 1:
        return words[0]
    import shlex

    return shlex.join(words)
