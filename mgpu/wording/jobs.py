"""How a job stands and how it ended: in words, and as an exit status."""

from __future__ import annotations

from mgpu.lean.typing import Any, Iterable
from mgpu.wording.figures import count, epoch, gpu_label, local_time, ranges, roughly, short_time
from mgpu.wording.letters import clean

CANCELLED_BY_ANOTHER = 143
LONGEST_REST = 30  # of the tasks of an array, in a list
ACTIVE = ("PENDING", "RUNNING")
NAMED = ("DependencyNeverSatisfied", "OutOfMemory", "RequeueLimit")
EXIT_STATUS = {"TIMEOUT": 124, "NODE_FAIL": 70}
# Cancelled by this command: its exit status -> why.
BY_US = {130: "by ^C", 143: "by SIGTERM", 75: "it did not start in time: --immediate"}


def shown_id(job: dict[str, Any]) -> str:
    """`17`, `17_4`, or of an array the tasks that it stands for in a list: `17_[5-99%4]`."""
    rest = job.get("array_rest") or ""
    rest = rest if len(rest) <= LONGEST_REST else rest[:LONGEST_REST] + "..."
    return f"{job['job_id']}_[{rest}]" if rest else str(job["job_id"])


def exit_status(job: dict[str, Any], stopped_by_us: int | None) -> int:
    """`stopped_by_us`: what to answer for a cancellation that this command asked for; None = it asked for none."""
    state = job["state"]
    if state == "COMPLETED":
        return 0
    if state == "CANCELLED":
        return CANCELLED_BY_ANOTHER if stopped_by_us is None else stopped_by_us
    return EXIT_STATUS.get(state) or job.get("exit_code") or 1


def ending(job: dict[str, Any], stopped_by_us: int | None = None) -> str:
    """The last line: says which exit status it was, and of which node."""
    state, code = job["state"], job.get("exit_code")
    text = f"job {job['job_id']} {state}"
    if state == "TIMEOUT":
        text += ended_on(job)
    if state in ("COMPLETED", "FAILED") and code is not None:
        text += f", {exit_words(code, ended_on(job), guess=job.get('reason') != 'OutOfMemory')}"
    because = "" if told_by_exit_code(job) else why(job)
    if state == "CANCELLED" and stopped_by_us is not None:
        because = BY_US.get(stopped_by_us, because)
    return f"{text} ({because})" if because else text


def ended_on(job: dict[str, Any]) -> str:
    """Where a command ended as it should not: " on gpu02", of several ranks which one's end was the job's, and where
    its output is; "" = nothing to say."""
    parts: list[dict[str, Any]] = job.get("allocation") or []
    if not job.get("exit_code"):
        return ""
    if len(parts) == 1:
        return f" on {parts[0]['node']}"
    rank = job.get("failed_rank")
    nodes = [part["node"] for part in parts if part["rank"] == rank]
    return f" on {nodes[0]} (rank {rank}: {its_output(job)})" if nodes else ""


def its_output(job: dict[str, Any]) -> str:
    """How to see what the rank wrote whose end was the job's."""
    return f"mgpu logs {job['job_id']} --rank {job['failed_rank']}"


def told_by_exit_code(job: dict[str, Any]) -> bool:
    """Its exit code, with the node, says all that its detail does."""
    return job.get("reason") == "NonZeroExitCode" and bool(ended_on(job))


# what an exit code of a shell, or the signal that it stands for, often means
GUESSES = {
    126: "it cannot be run: not executable?",
    127: "no such command there?",
    132: "built for another CPU?",
    134: "it aborted itself",
    135: "possibly no room in /dev/shm",
    137: "possibly out of memory",
    139: "a bad memory access",
}


def exit_words(code: int, where: str, guess: bool = True) -> str:
    """The exit code, the signal that it stands for, and a guess where one helps."""
    perhaps = GUESSES.get(code, "") if guess else ""
    number = signal_of(code)
    if number is None:
        return f"exit {code}{where}" + (f" ({perhaps})" if perhaps else "")
    import signal

    name = signal.Signals(number).name
    return f"exit {code}{where}: killed by signal {number} ({name})" + (f", {perhaps}" if perhaps else "")


def signal_of(code: int | None) -> int | None:
    """The signal that an exit code stands for."""
    if code is None or code <= 128:
        return None
    import signal

    return code - 128 if code - 128 in set(signal.Signals) else None


def why(job: dict[str, Any]) -> str:
    """The reason and its detail in words; of a job that ended the words alone say it, but for reasons that people look
    for by name."""
    reason, detail = job.get("reason") or "", job.get("detail") or ""
    if reason == "ContactLost":
        since = [part["lost_since"] for part in job.get("allocation") or () if part.get("lost_since")]
        detail += f" (since {local_time(min(since))})" if since else ""
    if job["state"] not in ACTIVE and reason not in NAMED:
        return detail or reason
    return f"{reason}: {detail}" if reason and detail and detail != reason else reason or detail


def contact_lost(job: dict[str, Any], nodes: list[str]) -> str:
    """What it means to whoever follows the job."""
    since = [part["lost_since"] for part in job["allocation"] if part["node"] in nodes and part.get("lost_since")]
    when = f" since {local_time(min(since))}" if since else ""
    return (
        f"no contact with {' '.join(nodes)}{when}: job {job['job_id']} stays there; what it writes comes once there is"
        " contact again"
    )


def where(job: dict[str, Any]) -> list[str]:
    """Where it really runs: node, its own name and address, GPUs by index and UUID; a line for each of several."""
    parts = [part_words(part) for part in job.get("allocation") or ()]
    return [f"{_runs_on(job)} {parts[0] if parts else ''}"] if len(parts) < 2 else [where_in_short(job), *parts]


def where_in_short(job: dict[str, Any]) -> str:
    parts = job.get("allocation") or ()
    return f"{_runs_on(job)} {f'{len(parts)} nodes: ' if len(parts) > 1 else ''}{placed(job)}"


def tasks_in_short(job: dict[str, Any]) -> str:
    """Where it runs, and what there is to say of ranks that do not simply run."""
    odd = [
        f"rank {part['rank']} on {part['node']}: {RANK_WORDS.get(part['state'], part['state'])}"
        + (f" with exit {part['exit_code']}" if part.get("exit_code") is not None else "")
        for part in job.get("allocation") or ()
        if part["state"] != "RUNNING"
    ]
    return "; ".join([where_in_short(job), *odd])


# how the rank of a job stands, by its state
RANK_WORDS = {
    "STARTING": "about to begin", "RUNNING": "runs", "STOPPING": "being ended", "LOST": "contact lost",
    "ENDED": "ended",
}  # fmt: skip


def _runs_on(job: dict[str, Any]) -> str:
    again = f" (attempt {job['attempt']})" if (job.get("attempt") or 0) > 1 else ""
    return f"job {job['job_id']}{again} runs on"


def part_words(part: dict[str, Any]) -> str:
    names = ", ".join(dict.fromkeys(filter(None, (part.get("hostname"), part.get("address")))))
    devices = part.get("devices") or []
    gpus = f"GPU {','.join(map(gpu_label, devices))} [{' '.join(part.get('uuids') or [])}]" if devices else "no GPU"
    return f"{part['node']} ({names}), {gpus}" if names else f"{part['node']}, {gpus}"


def placed(job: dict[str, Any]) -> str:
    """node:GPUs of each part, in short."""
    return expected_on(job.get("allocation") or ())


def expected_on(parts: Iterable[dict[str, Any]]) -> str:
    return " ".join(
        f"{part['node']}:{ranges(part['devices'])}" if part.get("devices") else str(part["node"]) for part in parts
    )


def prospects(answer: dict[str, Any]) -> list[str]:
    """When it is expected to start, and with what it would start now."""
    lines = []
    if answer.get("ahead"):
        lines.append(f"{count(answer['ahead'], 'job')} before it in the queue")
    if answer.get("expected_start") and not answer.get("now"):
        place = expected_on(answer.get("expected_on") or ())
        lines.append(f"expected to start {local_time(answer['expected_start'])} on {place}")
    if answer.get("sooner"):
        lines.append("it would start now with:")
        lines += [f"  {clean(words)}" for words in answer["sooner"]]
    return lines


def queue_place(answer: dict[str, Any], now: float) -> str:
    """How many stand before it, and when and where it is expected to start, in few words."""
    ahead, start = answer.get("ahead"), short_time(answer.get("expected_start"), now)
    words = [] if ahead is None else [f"{ahead} before it" if ahead else "next in line"]
    if start:
        words.append(f"expected {start} on {expected_on(answer.get('expected_on') or ())}")
    return ", ".join(words)


def ran_for(job: dict[str, Any], now: float) -> float:
    """Seconds; 0 of a job that has not begun."""
    start = epoch(job.get("start_time"))
    return (epoch(job.get("end_time")) or now) - start if start is not None else 0.0


def elapsed(job: dict[str, Any], now: float) -> float:
    """Seconds; of one that ended without anybody knowing when, 0."""
    return max(ran_for(job, now if job["state"] in ACTIVE else 0.0), 0.0)


def waited_for(job: dict[str, Any], now: float) -> float | None:
    """Seconds from its submission, or the end of its attempt before (`waits_since`), to its start; of one that never
    began, to its end. None = it is not known."""
    since = epoch(job.get("waits_since") or job.get("submit_time"))
    until = epoch(job.get("start_time") or job.get("end_time")) or now
    return None if since is None else max(until - since, 0.0)


def ended_state(job: dict[str, Any]) -> str:
    """What stands for the tasks of an array that never began were cancelled, however the others ended."""
    waits = job["state"] in ACTIVE
    return "CANCELLED" if job.get("array_rest") and not waits else str(job["state"])


def idle_words(job: dict[str, Any], now: float) -> str:
    """Of one that holds GPUs and does nothing with them: `idle 43 min`; "" = nobody says that."""
    since = epoch(job.get("idle_since"))
    return "" if since is None else f"idle {roughly(now - since)}"


def place_or_reason(job: dict[str, Any]) -> str:
    place = "" if job["state"] == "PENDING" else placed(job)
    reason = "" if told_by_exit_code(job) else why(job)
    return " ".join(filter(None, (place, f"({reason})" if reason else "")))
