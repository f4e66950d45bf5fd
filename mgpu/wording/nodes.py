"""Nodes and their GPUs in words."""

from __future__ import annotations

from mgpu.lean.typing import Any
from mgpu.wording.figures import count, epoch, gib, gpu_label, local_time
from mgpu.wording.letters import clean

CLOCK_OFFSET_TOLD_S = 2.0
IDLE_LOAD = 1.0  # what a machine has to do for itself
COUNTED = ("GPUS", "FREE", "JOBS", "OTHERS", "NOT USABLE")


def counts(node: dict[str, Any]) -> tuple[int, ...]:
    """As COUNTED has it; what is free on a node that takes no jobs is of no use either."""
    gpus = node.get("gpus") or []
    states = ["unused" if gpu["state"] == "free" and barred(node) else gpu["state"] for gpu in gpus]
    free, jobs, others = (states.count(state) for state in ("free", "allocated", "external"))
    return len(gpus), free, jobs, others, len(gpus) - free - jobs - others


def barred(node: dict[str, Any]) -> str:
    """What keeps all jobs from a node that answers, in a word; "" = nothing."""
    if node.get("barred") == "NodeDrained":
        return "drained" if node["state"].startswith("DRAIN") else "withheld"
    return "maintenance" if node.get("barred") == "Maintenance" else ""


def planned(node: dict[str, Any], now: float) -> list[str]:
    """The next window of maintenance; that of one which is under way is the node's reason."""
    ahead = [each for each in node.get("maintenance") or () if (epoch(each["from"]) or 0) > now]
    if not ahead:
        return []
    first = min(ahead, key=lambda each: epoch(each["from"]) or 0)
    return [f"  planned: {window_words(first)}" + (f" (and {len(ahead) - 1} more)" if len(ahead) > 1 else "")]


def window_words(window: dict[str, Any]) -> str:
    because = f": {window['reason']}" if window.get("reason") else ""
    return clean(f"maintenance {local_time(window['from'])} to {local_time(window['to'])}{because}")


def free_words(node: dict[str, Any]) -> str:
    """What of its GPUs jobs may have."""
    gpus = node.get("gpus") or []
    if not gpus:
        return "no GPUs seen" if node.get("last_seen") is None or node.get("reason") else "no GPUs"
    why = barred(node)
    if why:
        return f"{count(len(gpus), 'GPU')}, none for jobs: {why}"
    return f"{sum(gpu.get('state') == 'free' for gpu in gpus)} of {len(gpus)} GPUs free"


def machine_facts(node: dict[str, Any]) -> dict[str, str]:
    """What else is known of the node, by name; of its GPUs what a table has no room for."""
    told = dict(node.get("machine") or {})
    facts = {name: told.get(name) for name in ("driver", "cuda", "cpus", "load")}
    if claimed := told.get("cpus_claimed"):
        facts["cpus"] = f"{told.get('cpus', '?')}, jobs claim {claimed}"
        if (told.get("load") or 0) > claimed + IDLE_LOAD:
            facts["load"] = f"{told['load']}: more runs than the cores that jobs claim"
    for name in ("memory", "disk"):
        amounts = [gib(told[key]) for key in (f"{name}_free_mib", f"{name}_available_mib") if told.get(key) is not None]
        total = told.get(f"{name}_total_mib")
        if amounts:
            facts[name] = f"{amounts[0]} GiB free" + (f" of {gib(total)} GiB" if total else "")
    if claimed := told.get("memory_claimed_mib"):
        used = (told.get("memory_total_mib") or 0) - (told.get("memory_available_mib") or 0)
        over = f", and {gib(used)} GiB are in use" if used > claimed else ""
        facts["memory"] = f"{facts.get('memory', '?')}, jobs claim {gib(claimed)} GiB{over}"
    if abs(told.get("clock_offset_s") or 0) >= CLOCK_OFFSET_TOLD_S:
        facts["clock"] = f"{told['clock_offset_s']:+g} s against ours"
    facts["windows"] = "; ".join(window_words(each) for each in node.get("maintenance") or ())
    facts["NVLink"] = ", ".join(told.get("nvlink") or ())
    xid = told.get("xid")
    facts["XID"] = "the kernel's log may not be read there" if isinstance(xid, str) else "; ".join(xid or ())
    for gpu in node.get("gpus") or ():
        details = {"temperature_c": "{} C", "power_w": "{} W", "ecc_errors": "{} uncorrected ECC errors"}
        shown = [
            text.format(gpu[key])
            for key, text in details.items()
            if gpu.get(key) or (key == "power_w" and gpu.get(key) == 0)
        ]
        # the table cuts it where the terminal is narrow
        shown += filter(None, [gpu.get("uuid"), who(gpu)])
        facts[f"GPU {gpu_label(gpu.get('index'))}"] = ", ".join(shown)
    for number, note in enumerate(node.get("notes") or (), 1):
        facts[f"note {number}"] = note
    return {name: clean(value) for name, value in facts.items() if value not in (None, "")}


def who(gpu: dict[str, Any]) -> str:
    """The job that holds it; else what keeps it from being free."""
    job = f"job {gpu['job_id']}" if gpu.get("job_id") is not None else ""
    reason = (gpu.get("reason") or "").removeprefix(f"held by {job}").removeprefix(f"{gpu['state']}: ").lstrip("; ")
    if gpu["state"] == "external":
        reason = reason.removeprefix("external (").removesuffix(")")
    if job and gpu.get("user"):
        job = f"{gpu['user']} {job}"
    return "; ".join(filter(None, (job, reason)))
