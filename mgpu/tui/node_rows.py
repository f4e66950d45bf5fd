"""A node as lines: one for itself, and below it a bar per GPU where there is room; else a letter per GPU."""

from __future__ import annotations

from typing import Any

from mgpu.tui import bars
from mgpu.tui.cells import Cell, fitted, line_of, shown, total_width
from mgpu.wording.figures import duration, epoch, gib, gpu_label, in_local_time
from mgpu.wording.nodes import barred, free_words, who

Node = dict[str, Any]

NAME_WIDTH = 14  # of a node, on lines of its own
GPU_WIDTH = 38  # the least that a GPU's bar with its words takes
BAR_WIDTH = 8
MEMORY_WIDTH = 9  # of ` 120/180G`
GPU_TONES = {
    "free": "ok",
    "allocated": "ours",
    "external": "others",
    "unhealthy": "bad",
    "unknown": "wait",
    "unused": "dim",
}
NODE_TONES = {"UP": "ok", "DOWN": "bad", "UNKNOWN": "wait", "DRAINING": "wait", "DRAINED": "wait"}


def per_line(width: int) -> int:
    """GPUs beside each other."""
    return max(width // GPU_WIDTH, 1)


def gpus_of(node: Node) -> list[Node]:
    found: list[Node] = node.get("gpus") or []
    return found


def lines_of(node: Node, width: int) -> int:
    """With bars."""
    beside = per_line(width)
    return 1 + -(-len(gpus_of(node)) // beside)


def state_of(gpu: Node, node: Node) -> str:
    """What is free on a node that takes no jobs is of no use to anybody."""
    state = str(gpu.get("state") or "unknown")
    return "unused" if state == "free" and node.get("barred") else state


def head(node: Node, width: int, age: str, letters_width: int, plain: bool) -> list[Cell]:
    """Name, state, what is free, and whatever is not as it should be. With a `letters_width` a letter per GPU, padded
    to that. `age`: how old its figures are, as `age_words` says it."""
    name = fitted(Cell(str(node.get("node_id")), "strong"), min(NAME_WIDTH, width // 3))
    state = str(node.get("state") or "?")
    cells = [name, Cell(" "), fitted(Cell(state, NODE_TONES.get(state, "")), 8)]
    if letters_width:
        drawn = letters(node, plain)
        cells += [Cell(" "), *drawn, Cell(" " * (letters_width - len(drawn)))]
    reason = reason_of(node)
    free = free_words(node).replace(" GPUs free", " free")
    if reason.startswith(f"{barred(node)} "):
        free = free.removesuffix(f": {barred(node)}")  # the reason says it
    cells.append(Cell(f" {free:11}", "" if state == "UP" and not node.get("barred") else "dim"))
    if age:
        cells.append(Cell(f"  {age}", "wait"))
    if reason:
        cells.append(Cell(f"  {reason}", "bad" if state == "DOWN" else "wait"))
    elif not letters_width:
        cells.append(Cell(f"  {_machine_words(node)}", "dim"))
    else:
        cells += _people(node)
    return line_of(cells, width)


def reason_of(node: Node) -> str:
    state = str(node.get("state") or "")
    reason = str(node.get("reason") or "").removeprefix(f"node is {state.lower()}: ")
    return in_local_time(shown(reason))


def age_words(node: Node, now: float, old_after_s: float) -> str:
    """ "" = it was looked at lately."""
    seen = epoch(node.get("last_seen"))
    if seen is None:
        return "never seen"
    return f"seen {duration(now - seen)} ago" if now - seen > old_after_s else ""


def _machine_words(node: Node) -> str:
    names = {str(gpu.get("name") or "").removeprefix("NVIDIA ") for gpu in gpus_of(node)}
    machine = node.get("machine") or {}
    load = machine.get("load")
    words = [names.pop() if len(names) == 1 else str(node.get("gpu_type") or "")]
    words += [f"load {load:.1f} of {machine['cpus']} cores"] if load is not None and machine.get("cpus") else []
    return ", ".join(filter(None, words))


def letters(node: Node, plain: bool) -> list[Cell]:
    """Each GPU as one letter: how busy it is with a job of ours, else X somebody else's, ! unhealthy, ? unknown."""
    cells = []
    for gpu in gpus_of(node):
        state = state_of(gpu, node)
        cells.append(Cell(bars.letter(state, gpu.get("utilization"), plain), GPU_TONES.get(state, "")))
    return cells


def _people(node: Node) -> list[Cell]:
    """Who is on it, where there is no room for more: those who queued, then those who did not."""
    ours = dict.fromkeys(_whose(gpu) for gpu in gpus_of(node) if gpu.get("state") == "allocated")
    others = dict.fromkeys(_short_external(gpu) for gpu in gpus_of(node) if gpu.get("state") == "external")
    cells = [Cell(f"  {' '.join(ours)}", "ours")] if ours else []
    return cells + ([Cell(f"  {', '.join(others)}", "others")] if others else [])


def _whose(gpu: Node) -> str:
    return f"{gpu.get('user') or '?'}:{gpu.get('job_id')}"


def _short_external(gpu: Node) -> str:
    users = dict.fromkeys(str(process.get("user") or "?") for process in gpu.get("processes") or ())
    return f"external {' '.join(users)}".strip()


def gpu_line(node: Node, line: int, width: int, plain: bool) -> list[Cell]:
    """The bars of one line below the node's own; `line` counts from 0."""
    beside = per_line(width)
    each = width // beside
    cells: list[Cell] = []
    for gpu in gpus_of(node)[line * beside : (line + 1) * beside]:
        cells += gpu_cells(gpu, node, each, plain)
    return line_of(cells, width)


def gpu_cells(gpu: Node, node: Node, width: int, plain: bool) -> list[Cell]:
    """` 3 ██████░░ 62/80G  96% alice 17`"""
    state = state_of(gpu, node)
    tone = GPU_TONES.get(state, "")
    used, total = gpu.get("memory_used_mib"), gpu.get("memory_total_mib")
    drawn = bars.bar(used / total, BAR_WIDTH, plain) if used is not None and total else "?" * BAR_WIDTH
    utilization = gpu.get("utilization")
    cells = [
        fitted(Cell(gpu_label(gpu.get("index")), "dim"), 2, right=True),
        Cell(" "),
        Cell(drawn, tone),
        fitted(Cell(f" {_memory(used, total)}"), MEMORY_WIDTH, right=True),
        fitted(Cell("-" if utilization is None else f"{utilization}%"), 5, right=True),
        Cell(" "),
        Cell(words_of(gpu, state), tone),
    ]
    line = line_of(cells, max(width - 1, 0))
    return [*line, Cell(" " * (width - total_width(line)))]


def _memory(used: int | None, total: int | None) -> str:
    """In GiB: `62/80G`, `0.4/80G`."""
    if not total:
        return "?"
    have = "?" if used is None else gib(used) if 52 <= used < 9.95 * 1024 else f"{used / 1024:.0f}"
    return f"{have}/{total / 1024:.0f}G"


def words_of(gpu: Node, state: str) -> str:
    """Whose it is; who is there that nobody queued; why it is of no use."""
    if state == "allocated":
        job = f"job {gpu.get('job_id')}"
        whose = f"{gpu['user']} {job}" if gpu.get("user") else job
        more = who(gpu).removeprefix(whose).lstrip("; ")
        return (f"{gpu['user']} {gpu.get('job_id')}" if gpu.get("user") else job) + (f" ({more})" if more else "")
    if state in ("free", "unused"):
        return state
    reason = who(gpu)
    return f"{state}{' ' if state == 'external' else ': '}{reason}" if reason else state
