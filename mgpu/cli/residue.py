"""mgpu doctor --residue and mgpu node clean: what is left of us on nodes, and its removal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from mgpu.cli.session import Session, node_path
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say, table
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any
from mgpu.wording.figures import duration
from mgpu.wording.letters import clean as shown

AT_ONCE = 16  # nodes asked; the master has as many threads for it
HEADERS = ("WHAT", "DATABASE", "STATE", "KiB", "AGE", "NOTE")
CLEAN_EXAMPLES = """
Examples:
  mgpu node clean gpu01          what is over and collected
  mgpu node clean gpu01 --all    also of other databases, if none of it lives
"""


def show_residue(session: Session, names: tuple[str, ...]) -> int:
    """Of these nodes or of all: run directories of every database, whether something of them still lives, and the lease
    directories of GPUs."""
    if names:
        wanted = [session.call("GET", node_path(name))["node_id"] for name in dict.fromkeys(names)]
    else:
        wanted = [node["node_id"] for node in session.call("GET", "/v1/nodes")["nodes"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda name: residue_of(session, name), wanted))
    if session.json:
        session.print_json({"nodes": found})
    else:
        session.print_lines([line for node in found for line in node_lines(node)])
    return int(any(node["error"] for node in found))


def residue_of(session: Session, name: str) -> dict[str, Any]:
    """`error` says why a node did not answer."""
    try:
        answer: dict[str, Any] = session.call("GET", f"{node_path(name)}/residue")
    except MasterError as error:
        if error.code == "not_allowed":
            raise
        return {"node_id": name, "error": error.as_json()}
    return {**answer, "error": None}


def node_lines(node: dict[str, Any]) -> list[str]:
    if node["error"]:
        said = shown(node["error"]["message"])
        name = shown(node["node_id"])
        return [said if said.startswith(f"{name}:") else f"{name}: {said}"]
    rows = [row(item) for item in (*node["run_directories"], *node["events"], *node.get("trees", ()), *node["leases"])]
    size = sum(item["size_kib"] for item in node["run_directories"])
    alive = sum(item["alive"] for item in node["run_directories"])
    count = len(node["run_directories"])
    head = f"{shown(node['node_id'])}  {count} run directories, {alive} alive, {size} KiB  {shown(node['path'])}"
    apart = node.get("run_as") == "submitter"
    theirs = ["  under mgpu's own login alone: what jobs leave is in their users' ~/.mgpu"] if apart else []
    return [head, *(table(HEADERS, rows, right=(3, 4), indent="  ") if rows else ()), *theirs]


def row(item: dict[str, Any]) -> tuple[str, ...]:
    age = duration(item["age_s"])
    if item["kind"] == "lease":
        return (f"lease {item['uuid']}", "", "held" if item["held"] else "free", "", age, f"made by {item['owner']}")
    size = str(item["size_kib"])
    if item["kind"] == "events":
        return (f"events of {item['node']}", database(item), "", size, age, "")
    if item["kind"] == "tree":
        return (what(item), database(item), "", size, age, f"on {item['node']}")
    collected = {True: "collected", False: "not collected", None: ""}[item["collected"]]
    note = ", ".join(
        filter(None, (f"on {item['node']}", f"job {item['job_state']}" if item["job_state"] else "", collected))
    )
    return (what(item), database(item), item["condition"], size, age, note)


def what(item: dict[str, Any]) -> str:
    if item["kind"] == "tree":
        return f"shipped tree {item['digest'][:12]}"
    return f"lease {item['uuid']}" if item["kind"] == "lease" else f"job {item['job_id']}.{item['attempt']}"


def database(item: dict[str, Any]) -> str:
    return "this" if item["this_database"] else item["database"][:8]


@command(
    Argument("name"),
    Option("--all", "", "Also what other databases of this account left.", key="everything"),
    Option("--yes", "", "Do not ask."),
    examples=CLEAN_EXAMPLES,
)
def clean(session: Session, /, name: str, everything: bool, yes: bool) -> int:
    """Remove what is left on a node of jobs that have ended and whose output is collected, and leases nobody holds.

    Trees that jobs brought along (--ship) go too: who needs one gets it again. What lives stays, and what is not
    collected. With --all, what other databases of the same account left goes too, where nothing lives; whether their
    output was collected is not known here.
    """
    from mgpu.cli.node import confirmed

    path = node_path(name)
    if everything and not yes:
        found = session.call("GET", f"{path}/residue")["run_directories"]
        strange = [item for item in found if not item["this_database"] and not item["alive"]]
        whole = sum(item["condition"] != "tombstone" for item in strange)
        if strange and not confirmed(
            f"{len(strange)} run directories of other databases may go, {whole} of them with output that perhaps "
            "nobody has collected. Remove them?"
        ):
            say("nothing removed")
            return 1
    answer = session.call("POST", f"{path}/clean", {"all": everything})
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(clean_lines(answer))
    return 0


def clean_lines(answer: dict[str, Any]) -> list[str]:
    """What was removed in a line, and a line for each reason to leave something."""
    size = sum(item.get("size_kib", 0) for item in answer["removed"])
    left: dict[str, list[dict[str, Any]]] = {}
    for item in answer["left"]:
        left.setdefault(item["why"], []).append(item)
    name = shown(answer["node_id"])
    lines = [f"{name}: removed {len(answer['removed'])}, {size} KiB{listed(answer['removed'])}"]
    return lines + [f"{name}: left {len(items)}, {shown(why)}{listed(items)}" for why, items in left.items()]


def listed(items: list[dict[str, Any]], most: int = 10) -> str:
    names = [shown(what(item)) for item in items]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f": {', '.join(names[:most])}{more}" if names else ""
