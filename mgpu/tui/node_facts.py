"""What there is to say of one node: its GPUs and who uses them, its health, the machine, its last day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mgpu.tui.facts import Fact
from mgpu.tui.sparkline import utilization
from mgpu.wording.figures import duration, epoch, gib, gpu_label, in_local_time, local_time
from mgpu.wording.nodes import barred, free_words, machine_facts, planned, who

Json = dict[str, Any]
MOST_PROCESSES = 20  # of a GPU
TONES = {"free": "ok", "allocated": "ours", "external": "others", "unused": "dim"}  # all others: bad
NODE_TONES = {"UP": "ok", "DRAINING": "wait", "DRAINED": "wait", "UNKNOWN": "dim"}


def node_facts(node: Json, use: Json | None, now: float) -> list[Fact]:
    """`use`: the answer of use; None = not asked, or not answered."""
    history = {gpu.get("uuid"): gpu.get("points") or [] for gpu in (use or {}).get("gpus") or ()}
    facts = list(_standing(node, now))
    for gpu in node.get("gpus") or ():
        facts += _gpu(gpu, barred(node), history.get(gpu.get("uuid")) or [], float((use or {}).get("step_s") or 0))
    return [*facts, *_machine(node)]


def _standing(node: Json, now: float) -> Iterator[Fact]:
    names = " ".join(dict.fromkeys(filter(None, (node.get("hostname"), node.get("address")))))
    yield Fact("node", " ".join(filter(None, (node["node_id"], f"({names})" if names else ""))), "strong")
    seen = epoch(node.get("last_seen"))
    ago = f"seen {duration(now - seen)} ago" if seen is not None else "never seen"
    yield Fact("state", f"{node['state']}, {free_words(node)}, {ago}", NODE_TONES.get(node["state"], "bad"))
    if node.get("reason"):
        yield Fact("reason", in_local_time(str(node["reason"])), "bad" if node["state"] == "DOWN" else "wait")
    if drain := node.get("drain"):
        yield Fact("drained", _mark_words(drain), "wait")
    for line in planned(node, now):
        yield Fact("planned", line.strip().removeprefix("planned: "), "wait")
    if node.get("partition"):
        yield Fact("partition", str(node["partition"]))


def _mark_words(mark: Json) -> str:
    """Who said it, since when, why."""
    since = f" since {local_time(mark['since'])}" if mark.get("since") else ""
    because = f": {mark['reason']}" if mark.get("reason") else ""
    return f"by {mark.get('by') or 'mgpu'}{since}{because}"


def _gpu(gpu: Json, barred_by: str, points: list[Json], step_s: float) -> Iterator[Fact]:
    state = "unused" if barred_by and gpu["state"] == "free" else gpu["state"]
    used = gpu.get("utilization")
    pieces = [
        state,
        "" if state == "unused" else who(gpu),
        f"{gib(gpu.get('memory_used_mib'))} of {gib(gpu.get('memory_total_mib'))} GiB",
        "" if used is None else f"{used} %",
        "" if gpu.get("temperature_c") is None else f"{gpu['temperature_c']} C",
        "" if gpu.get("power_w") is None else f"{gpu['power_w']} W",
        str(gpu.get("name") or ""),
    ]
    yield Fact(f"GPU {gpu_label(gpu.get('index'))}", ", ".join(filter(None, pieces)), TONES.get(state, "bad"))
    if gpu.get("ecc_errors"):
        yield Fact("", f"{gpu['ecc_errors']} uncorrected ECC errors", "bad")
    if suspect := gpu.get("suspect"):
        yield Fact("", f"suspect, used last: {suspect.get('reason') or ''}", "bad")
    if drain := gpu.get("drain"):
        yield Fact("", f"drained {_mark_words(drain)}", "wait")
    values = utilization(points)
    if measured := [value for value in values if value is not None]:
        span = duration(len(points) * step_s)
        yield Fact("", f"mean {sum(measured) / len(measured):.0f} % in the last {span}", "dim", values)
    yield from _processes(gpu)


def _processes(gpu: Json) -> Iterator[Fact]:
    processes = gpu.get("processes") or []
    for each in processes[:MOST_PROCESSES]:
        memory = "" if each.get("memory_mib") is None else f"{gib(each['memory_mib'])} GiB"
        age = "" if each.get("age_s") is None else f"for {duration(each['age_s'])}"
        words = [f"pid {each.get('pid')}", f"of {each.get('user') or '?'}", memory, age]
        command = str(each.get("command") or "")
        yield Fact("", f"{' '.join(filter(None, words))}: {command}", "" if gpu.get("job_id") else "others")
    if len(processes) > MOST_PROCESSES:
        yield Fact("", f"and {len(processes) - MOST_PROCESSES} more processes")


def _machine(node: Json) -> Iterator[Fact]:
    """Of its GPUs only what their own lines have not."""
    uuids = ((f"GPU {gpu_label(gpu.get('index'))}", str(gpu.get("uuid") or "")) for gpu in node.get("gpus") or ())
    for word, text in machine_facts(node).items():
        if not word.startswith("GPU "):
            yield Fact(word, text, "bad" if word == "XID" and isinstance(node["machine"]["xid"], list) else "")
    yield from (Fact(word, uuid, "dim") for word, uuid in uuids if uuid)
