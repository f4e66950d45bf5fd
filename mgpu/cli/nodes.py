"""mgpu nodes: each node in a line, and under it a row per GPU."""

from __future__ import annotations

from mgpu import clock
from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import colourful, painted, table, terminal_columns
from mgpu.cli.watch import EVERY, WATCH, look
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any
from mgpu.wording.figures import count, duration, epoch, gib, gpu_label
from mgpu.wording.letters import clean
from mgpu.wording.nodes import COUNTED, barred, counts, free_words, machine_facts, planned, who

EXAMPLES = """
Examples:
  mgpu nodes
  mgpu nodes gpu[01-16]      these alone
  mgpu nodes -s              a line for each node, and their sum
  mgpu nodes -s -i 5         the same again every five seconds, until ^C
  mgpu nodes --json
"""
ROOMY_COLUMNS = 100
HEADERS = ("GPU", "NAME", "MEMORY GiB", "UTIL", "STATE", "WHO / WHY")


@command(
    Argument("names", "[NODE]...", "*"),
    Option("-s --summarize", "", "A line for each node, and their sum."),
    WATCH,
    EVERY,
    examples=EXAMPLES,
)
def nodes(session: Session, /, names: tuple[str, ...], summarize: bool, **given: Any) -> int:
    """List the nodes and their GPUs, or those named: what is free, what is taken, and by whom."""
    missing: list[MasterError] = []
    watched = given["watch"] or given["iterate"]

    def chosen(answer: dict[str, Any]) -> dict[str, Any]:
        if not names:
            return answer
        from mgpu.cli.meant import only

        there, wrong = only(answer["nodes"], names)
        if wrong and not (there or session.json):
            raise wrong
        missing[:] = [wrong] if wrong else []
        return {**answer, "nodes": there}

    def lines(answer: dict[str, Any]) -> list[str]:
        told = ["", clean(missing[0].message)] if missing and watched else []
        return [*(summarized if summarize else node_lines)(answer["nodes"]), *told]

    status = look(session, "/v1/nodes", lines, given, chosen)
    if missing and not status:
        session.print_error(missing[0])
        return missing[0].exit_code
    return status


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
    """What else is known of the node, a fact a line."""
    facts = machine_facts(node)
    width = max(map(len, facts), default=0)
    return [f"  {name:{width}}  {value}" for name, value in facts.items()]
