"""Which nodes are meant."""

from __future__ import annotations

from mgpu.cli.session import Session, check_name, refusal
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any


def nodes_meant(session: Session, names: tuple[str, ...], everywhere: bool) -> list[str]:
    """Each once, with `gpu[01-16]` written out; `everywhere` all of the inventory. Raises MasterError."""
    if everywhere:
        return [node["node_id"] for node in session.call("GET", "/v1/nodes")["nodes"]]
    return written_out(names)


def written_out(names: tuple[str, ...]) -> list[str]:
    """Raises MasterError."""
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand

    try:
        return list(dict.fromkeys(each for name in names for each in expand(check_name(name))))
    except RequestError as error:
        raise refusal(error) from error


def only(nodes: list[dict[str, Any]], names: tuple[str, ...]) -> tuple[list[dict[str, Any]], MasterError | None]:
    """Those with these names, and what is wrong with the other names. Raises MasterError."""
    from mgpu.core.hostlist import fold

    there = {node["node_id"]: node for node in nodes}
    wanted = written_out(names)
    missing = [name for name in wanted if name not in there]
    error = MasterError("not_found", f"there is no node {fold(missing)!r}", "mgpu nodes lists them")
    return [there[name] for name in wanted if name in there], error if missing else None
