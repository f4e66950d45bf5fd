"""What there is to say of one job beyond its line in a list."""

from __future__ import annotations

from mgpu.lean.typing import Any
from mgpu.wording.figures import count, duration, gib, local_time
from mgpu.wording.jobs import placed


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
    changed = " with changes" if tree.get("dirty") else ""
    commit = f"commit {tree['commit'][:10]}{changed}" if tree.get("commit") else "no commit"
    place = f", runs in {tree['directory']}" if tree.get("directory") else ""
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


def use_words(use: dict[str, Any] | None) -> str:
    """What the last attempt made of its GPUs: `mean 78 %, at most 71.2 GiB on one, 0.3 GPU-hours idle`."""
    if not use or use["utilization"] is None:
        return ""
    memory = "" if use["memory_peak_mib"] is None else f"at most {gib(use['memory_peak_mib'])} GiB on one"
    idle = f"{use['idle_gpu_hours']:.3g} GPU-hours idle" if use["idle_gpu_hours"] >= 0.01 else ""
    return ", ".join(filter(None, (f"mean {use['utilization']:.0f} %", memory, idle)))


def until_words(holder: dict[str, Any]) -> str:
    """When the GPUs that it holds come back."""
    if holder.get("gpus_until") is None:
        return "nobody can tell: it is out of sight, or nobody asks how long jobs run"
    until = local_time(holder["gpus_until"])
    limited = holder.get("time_limit_s") is not None
    return f"{until} at the latest" if limited else f"{until} is assumed: it has no limit"


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
