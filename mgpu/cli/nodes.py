"""mgpu nodes: each node in a line, and under it a row per GPU."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import (
    clean,
    colourful,
    count,
    duration,
    epoch,
    gib,
    gpu_label,
    local_time,
    painted,
    table,
    terminal_columns,
)
from mgpu.lean_typing import Any

EXAMPLES = """
Examples:
  mgpu nodes
  mgpu nodes gpu[01-16]      these alone
  mgpu nodes -s              a line for each node, and their sum
  mgpu nodes --json
"""
CLOCK_OFFSET_TOLD_S = 2.0
IDLE_LOAD = 1.0  # what a machine has to do for itself
COUNTED = ("GPUS", "FREE", "JOBS", "OTHERS", "NOT USABLE")
ROOMY_COLUMNS = 100
HEADERS = ("GPU", "NAME", "MEMORY GiB", "UTIL", "STATE", "WHO / WHY")


@command(
    Argument("names", "[NODE]...", "*"),
    Option("-s --summarize", "", "A line for each node, and their sum."),
    examples=EXAMPLES,
)
def nodes(session: Session, /, names: tuple[str, ...], summarize: bool) -> int:
    """List the nodes and their GPUs, or those named: what is free, what is taken, and by whom."""
    answer = session.call("GET", "/v1/nodes")
    wrong = None
    if names:
        from mgpu.cli.meant import only

        answer["nodes"], wrong = only(answer["nodes"], names)
    if session.json:
        session.print_json(answer)
    elif answer["nodes"] or not wrong:
        session.print_lines((summarized if summarize else node_lines)(answer["nodes"]))
    if wrong:
        session.print_error(wrong)
    return wrong.exit_code if wrong else 0


def summarized(all_nodes: list[dict[str, Any]]) -> list[str]:
    """What of the GPUs is free, and what not, in figures."""
    figures = [counts(node) for node in all_nodes]
    rows = [
        (node["node_id"], node["state"], *map(str, row), node.get("gpu_type") or "", node.get("reason") or "")
        for node, row in zip(all_nodes, figures, strict=True)
    ]
    sums = [sum(row[column] for row in figures) for column in range(len(COUNTED))]
    rows.append((count(len(rows), "node"), "", *map(str, sums if rows else [""] * len(sums)), "", ""))
    headers = ("NODE", "STATE", *COUNTED, "GPU TYPE", "REASON")
    return table(headers, rows, right=range(2, 2 + len(COUNTED)), shrink=((len(headers) - 1, 12),))


def counts(node: dict[str, Any]) -> tuple[int, ...]:
    """As COUNTED has it; what is free on a node that takes no jobs is of no use either."""
    gpus = node.get("gpus") or []
    states = ["unused" if gpu["state"] == "free" and barred(node) else gpu["state"] for gpu in gpus]
    free, jobs, others = (states.count(state) for state in ("free", "allocated", "external"))
    return len(gpus), free, jobs, others, len(gpus) - free - jobs - others


def node_lines(all_nodes: list[dict[str, Any]]) -> list[str]:
    """The columns of all nodes stand under each other."""
    now = clock.now()
    rows = [gpu_row(gpu, barred(node)) for node in all_nodes for gpu in node.get("gpus") or ()]
    if 0 < terminal_columns() < ROOMY_COLUMNS:  # who is there says more than what all names begin with
        rows = [(index, name.removeprefix("NVIDIA "), *others) for index, name, *others in rows]
    header, *body = table(HEADERS, rows, right=(0, 2, 3), shrink=((5, 16), (1, 10)), indent="  ")
    lines: list[str] = []
    for node in all_nodes:
        lines.append(summary(node, now))
        if node.get("reason"):
            lines.append("  " + clean(node["reason"].removeprefix(f"node is {node['state'].lower()}: ")))
        lines += planned(node, now)
        number = len(node.get("gpus") or ())
        if number:
            lines += [header, *body[:number]]
            body = body[number:]
    return lines


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
    because = f": {window['reason']}" if window["reason"] else ""
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


def summary(node: dict[str, Any], now: float) -> str:
    """One line: name, state, what is free, where it is."""
    gpus = node.get("gpus") or []
    state = clean(node["state"])
    seen = epoch(node.get("last_seen"))
    names = dict.fromkeys(filter(None, (node.get("hostname"), node.get("address"))))
    pieces = [
        painted(state, state) if colourful() else state,
        free_words(node),
        "" if any(gpu.get("name") == node.get("gpu_type") for gpu in gpus) else clean(node.get("gpu_type")),
        f"partition {clean(node['partition'])}" if node.get("partition") else "",
        clean(" ".join(names)),
        f"seen {duration(now - seen)} ago" if seen is not None else "never seen",
    ]
    return f"{clean(node['node_id'])}  " + "  ".join(filter(None, pieces))


def gpu_row(gpu: dict[str, Any], barred: str = "") -> tuple[str, ...]:
    """`barred`: what keeps all jobs from its node; nothing is free there."""
    used, utilization = gpu.get("memory_used_mib"), gpu.get("utilization")
    return (
        gpu_label(gpu.get("index")),
        gpu.get("name") or "",
        f"{gib(used)}/{gib(gpu.get('memory_total_mib'))}",
        "-" if utilization is None else f"{utilization}%",
        "unused" if barred and gpu["state"] == "free" else gpu["state"],
        "" if barred and gpu["state"] == "free" else who(gpu),
    )


def machine_lines(node: dict[str, Any]) -> list[str]:
    """What else is known of the node, a fact a line; of its GPUs what the table has no room for."""
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
    shown_facts = {name: value for name, value in facts.items() if value not in (None, "")}
    width = max(map(len, shown_facts), default=0)
    return [f"  {name:{width}}  {clean(value)}" for name, value in shown_facts.items()]


def who(gpu: dict[str, Any]) -> str:
    """The job that holds it; else what keeps it from being free."""
    job = f"job {gpu['job_id']}" if gpu.get("job_id") is not None else ""
    reason = (gpu.get("reason") or "").removeprefix(f"held by {job}").removeprefix(f"{gpu['state']}: ").lstrip("; ")
    if gpu["state"] == "external":
        reason = reason.removeprefix("external (").removesuffix(")")
    if job and gpu.get("user"):
        job = f"{gpu['user']} {job}"
    return "; ".join(filter(None, (job, reason)))
