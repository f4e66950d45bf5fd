"""What there is to say of one job: how it stands, why it waits, where it runs, how its tries went, what it used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mgpu.tui.facts import Fact
from mgpu.tui.sparkline import span_words, use_words, utilization
from mgpu.wording.details import attempt_words, launcher_words, shell_words, ship_words, until_words
from mgpu.wording.figures import count, duration, epoch, in_local_time, local_time
from mgpu.wording.jobs import RANK_WORDS, exit_words, idle_words, part_words, prospects, ran_for, told_by_exit_code, why

Json = dict[str, Any]
MOST_NODES, MOST_NAMES, MOST_HOLDERS, MOST_RANKS = 30, 3, 10, 64
TONES = {"PENDING": "wait", "RUNNING": "ours", "COMPLETED": "ok", "CANCELLED": "ended"}  # all others: bad
TIMES = {"submit_time": "submitted", "start_time": "started", "end_time": "ended", "begin": "not before"}


def job_facts(job: Json, reasons: Json | None, use: Json | None, now: float) -> list[Fact]:
    """`reasons`: the answer of why; `use`: that of use. None: not asked, or not answered."""
    return [
        *_standing(job, now),
        *_waiting(reasons if job["state"] == "PENDING" else None),
        *_use(job, use, now),
        *_ranks(job),
        *_wishes(job),
        *_attempts(job),
    ]


def _standing(job: Json, now: float) -> Iterator[Fact]:
    belongs = [f"of {job.get('user')}", f"account {job['account']}" if job.get("account") else ""]
    partition = f"in {job['partition']}" if job.get("partition") else ""
    title = " ".join(filter(None, (f"{job['job_id']} {job.get('name') or ''}", *belongs, partition)))
    yield Fact("job", title, "strong")
    yield Fact("state", f"{job['state']}{_ended_how(job)}", TONES.get(job["state"], "bad"))
    if job["state"] == "RUNNING":
        yield _time_left(job, now)
    elif job["state"] == "PENDING" and (since := epoch(job.get("submit_time"))) is not None:
        yield Fact("waits", f"for {duration(now - since)}{_limit(job)}")
    elif job.get("start_time"):
        yield Fact("ran", f"for {duration(ran_for(job, now))}{_limit(job)}")
    because = "" if told_by_exit_code(job) else why(job)
    if because:
        tone = "wait" if job["state"] == "PENDING" else "bad" if job["state"] != "CANCELLED" else ""
        yield Fact("reason", in_local_time(because), tone)
    if job.get("held"):
        yield Fact("", "held: it starts once it is released", "wait")
    if job.get("stop") and job["state"] == "RUNNING":
        yield Fact("", f"is being ended: {job['stop']}", "wait")


def _ended_how(job: Json) -> str:
    code = job.get("exit_code")
    if code is None or job["state"] not in ("COMPLETED", "FAILED"):
        return ""
    rank = f" (of rank {job['failed_rank']})" if job.get("failed_rank") is not None else ""
    return ", " + exit_words(code, rank, guess=job.get("reason") != "OutOfMemory")


def _time_left(job: Json, now: float) -> Fact:
    ran_s, limit_s = ran_for(job, now), job.get("time_limit_s")
    if limit_s is None:
        return Fact("runs", f"for {duration(ran_s)}, no time limit")
    left_s = limit_s - ran_s
    left = f"{duration(left_s)} left" if left_s > 0 else "its time is over"
    return Fact("runs", f"for {duration(ran_s)} of {duration(limit_s)}, {left}", "" if left_s > 300 else "wait")


def _limit(job: Json) -> str:
    return "" if job.get("time_limit_s") is None else f", time limit {duration(job['time_limit_s'])}"


def _waiting(reasons: Json | None) -> Iterator[Fact]:
    """What each node has against it, who holds what it could use, and what can be expected."""
    if not reasons:
        return
    same: dict[str, list[str]] = {}
    for each in reasons.get("nodes") or ():
        same.setdefault(str(each.get("reason") or ""), []).append(str(each.get("node")))
    for number, (reason, names) in enumerate(same.items()):
        if number == MOST_NODES:
            yield Fact("", f"and {count(len(same) - MOST_NODES, 'further reason')} on other nodes")
            break
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        who = " ".join(names[:MOST_NAMES]) + more
        yield Fact("" if number else "nodes", f"{who}: {in_local_time(reason)}")
    holders = reasons.get("holders") or []
    for number, one in enumerate(holders[:MOST_HOLDERS]):
        whose = f" of {one['user']}" if one.get("user") else ""
        yield Fact("" if number else "held by", f"job {one['job_id']}{whose}, until {until_words(one)}")
    if len(holders) > MOST_HOLDERS:
        yield Fact("", f"and {len(holders) - MOST_HOLDERS} more")
    for number, line in enumerate(prospects(reasons)):
        yield Fact("" if number else "outlook", line.strip())


def _use(job: Json, use: Json | None, now: float) -> Iterator[Fact]:
    if idle := idle_words(job, now):
        yield Fact("idle", f"{idle}: it holds GPUs without using them", "bad")
    if not use:
        return
    points = use.get("points") or []
    values = utilization(points)
    if any(value is not None for value in values):
        span = span_words(points, use.get("step_s"))
        words = "; ".join(filter(None, (use_words(use), f"the last {span}" if span else "")))
        yield Fact("GPU use", words, values=values)
    elif job.get("gpus") and job["state"] == "RUNNING":
        yield Fact("GPU use", "not measured yet", "dim")


def _ranks(job: Json) -> Iterator[Fact]:
    parts = job.get("allocation") or []
    odd = [part for part in parts if part.get("state") == "LOST" or part.get("exit_code")]
    shown = parts if len(parts) <= MOST_RANKS else (odd or parts)[:MOST_RANKS]
    for part in shown:
        yield Fact(f"rank {part['rank']}", f"{_rank_words(part)}: {part_words(part)}", _rank_tone(part))
    if len(parts) > len(shown):
        yield Fact("", f"of {len(parts)} ranks")


def _rank_words(part: Json) -> str:
    if part.get("state") == "LOST":
        since = f" since {local_time(part['lost_since'])}" if part.get("lost_since") else ""
        return f"{RANK_WORDS['LOST']}{since}, it may well run on"
    words = RANK_WORDS.get(part.get("state") or "", str(part.get("state") or ""))
    if part.get("exit_code") is not None:
        words += f" with {exit_words(part['exit_code'], '')}"
    elif part.get("pid") is not None:
        words += f" as pid {part['pid']}"
    return words


def _rank_tone(part: Json) -> str:
    if part.get("state") == "LOST" or part.get("exit_code"):
        return "bad"
    return "ours" if part.get("state") == "RUNNING" else ""


def _wishes(job: Json) -> Iterator[Fact]:
    yield Fact("command", shell_words([str(word) for word in job.get("command") or ()]))
    yield Fact("asked for", f"{count(job.get('gpus') or 0, 'GPU')} on {count(job.get('nodes') or 1, 'node')}")
    array = str(job.get("array") or "")
    if job.get("array_job_id"):
        array = f"task {job.get('array_index')} of {job['array_job_id']}"
    facts = {
        "array": array,
        "depends on": str(job.get("dependency") or ""),
        "launcher": launcher_words(job),
        "shipped": ship_words(job.get("ship")),
        "priority": str(job["priority"]) if job.get("priority") else "",
    }
    yield from (Fact(word, text) for word, text in facts.items() if text)
    yield from (Fact(word, local_time(job[key])) for key, word in TIMES.items() if job.get(key))


def _attempts(job: Json) -> Iterator[Fact]:
    attempts = job.get("attempts") or []
    for each in attempts if len(attempts) > 1 else ():
        yield Fact(f"attempt {each['attempt']}", attempt_words(each), "" if each.get("end_time") else "ours")
