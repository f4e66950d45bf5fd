"""mgpu nodes: each node in a line, and under it a row per GPU."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.session import Session
from mgpu.cli.syntax import command
from mgpu.cli.text import clean, colourful, duration, epoch, gib, painted, table
from mgpu.lean_typing import Any

EXAMPLES = """
Examples:
  mgpu nodes
  mgpu nodes --json
"""
HEADERS = ("GPU", "NAME", "MEMORY GiB", "UTIL", "STATE", "WHO / WHY")


@command(examples=EXAMPLES)
def nodes(session: Session, /) -> None:
    """List the nodes and their GPUs: what is free, what is taken, and by whom."""
    answer = session.call("GET", "/v1/nodes")
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(node_lines(answer["nodes"]))


def node_lines(all_nodes: list[dict[str, Any]]) -> list[str]:
    """The columns of all nodes stand under each other."""
    now = clock.now()
    rows = [gpu_row(gpu) for node in all_nodes for gpu in node.get("gpus") or ()]
    header, *body = table(HEADERS, rows, right=(0, 2, 3), shrink=((5, 16), (1, 10)), indent="  ")
    lines: list[str] = []
    for node in all_nodes:
        lines.append(summary(node, now))
        if node.get("reason"):
            lines.append("  " + clean(node["reason"].removeprefix(f"node is {node['state'].lower()}: ")))
        count = len(node.get("gpus") or ())
        if count:
            lines += [header, *body[:count]]
            body = body[count:]
    return lines


def summary(node: dict[str, Any], now: float) -> str:
    """One line: name, state, what is free, where it is."""
    gpus = node.get("gpus") or []
    free = sum(gpu.get("state") == "free" for gpu in gpus)
    state = clean(node["state"])
    seen = epoch(node.get("last_seen"))
    names = dict.fromkeys(filter(None, (node.get("hostname"), node.get("address"))))
    pieces = [
        painted(state, state) if colourful() else state,
        f"{free} of {len(gpus)} GPUs free" if gpus else "no GPUs seen" if seen is None else "no GPUs",
        "" if any(gpu.get("name") == node.get("gpu_type") for gpu in gpus) else clean(node.get("gpu_type")),
        f"partition {clean(node['partition'])}" if node.get("partition") else "",
        clean(" ".join(names)),
        f"seen {duration(now - seen)} ago" if seen is not None else "never seen",
    ]
    return f"{clean(node['node_id'])}  " + "  ".join(filter(None, pieces))


def gpu_row(gpu: dict[str, Any]) -> tuple[str, ...]:
    index, used, utilization = gpu.get("index"), gpu.get("memory_used_mib"), gpu.get("utilization")
    return (
        "?" if index is None else str(index),
        gpu.get("name") or "",
        f"{gib(used)}/{gib(gpu.get('memory_total_mib'))}",
        "-" if utilization is None else f"{utilization}%",
        gpu["state"],
        who(gpu),
    )


def who(gpu: dict[str, Any]) -> str:
    """The job that holds it; else what keeps it from being free."""
    job = f"job {gpu['job_id']}" if gpu.get("job_id") is not None else ""
    processes = "" if job else ", ".join(map(process_words, gpu.get("processes") or ()))
    reason = (gpu.get("reason") or "").removeprefix(f"held by {job}").removeprefix(f"{gpu['state']}: ").lstrip("; ")
    if job and gpu.get("user"):
        job = f"{gpu['user']} {job}"
    return "; ".join(filter(None, (job, processes or reason if gpu["state"] == "external" else reason)))


def process_words(process: dict[str, Any]) -> str:
    memory, age = process.get("memory_mib"), process.get("age_s")
    pieces = [
        process.get("user") or "?",
        f"pid {process.get('pid')}",
        process.get("command") or "",
        "" if memory is None else f"{gib(memory)} GiB",
        "" if age is None else f"for {duration(age)}",
    ]
    return " ".join(filter(None, pieces))
