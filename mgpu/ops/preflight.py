"""Whether nodes can run a job together, for whoever asks before the job does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.gputype import accepted_kinds, check_types, kind_of, known_types, parse_types
from mgpu.core.hostlist import expand, fold
from mgpu.core.meeting import Call
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeView
from mgpu.core.preflight import findings
from mgpu.numeral import numeral
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json

_TEXTS = ("nodes", "nodelist", "partition", "gpu_type", "cwd", "virtual_env")


def preflight(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Looks at the nodes that are meant, also at what a start would take from memory. Raises MgpuError."""
    given = {key: payload.get(key) or "" for key in _TEXTS}
    if not all(isinstance(value, str) and value.isprintable() for value in given.values()):
        raise RequestError(f"{', '.join(_TEXTS)} must be text")
    names = _meant(context, given)
    directory = given["cwd"] if given["cwd"].startswith("/") else ""
    seen = context.control.inquire(names, directory, given["virtual_env"], _account(context, caller))
    return {
        "nodes": list(names),
        "findings": [finding.as_json() for finding in findings(seen)],
        "ways": [_way(call) for call in seen.calls],
    }


def _account(context: Context, caller: Caller) -> str:
    """Whose eyes it is looked with: what mgpu's own login sees is not for everybody. Raises NotAllowed."""
    if context.config.run_as == "service":
        return ""
    try:
        return context.config.logins.login_of(caller.user)
    except NotAllowed:
        if context.is_operator(caller):
            return ""
        raise


def _way(call: Call) -> Json:
    result = "untested" if call.doubt else "failed" if call.failed else "ok"
    return {
        "from": call.source,
        "to": call.target,
        "address": call.address,
        "port": call.port or None,
        "result": result,
        "detail": call.doubt or ("" if result == "ok" else call.said),
    }


def _meant(context: Context, given: Mapping[str, str]) -> list[NodeName]:
    """In the order of the inventory, or as they were named. Raises MgpuError."""
    if given["nodelist"]:
        names = list(dict.fromkeys(context.node_config(name).name for name in expand(given["nodelist"])))
        if given["nodes"]:
            raise RequestError("nodes are named or counted, not both", "leave -N or -w out")
    else:
        names = _some(_fitting(context.control.views(), given), given["nodes"])
    if len(names) < 2:
        has = f"only {fold(names)} would do" if names else "none would do"
        raise RequestError(
            f"two nodes are needed to reach each other: {has}", "mgpu nodes lists them with their states"
        )
    return names


def _fitting(views: Sequence[NodeView], given: Mapping[str, str]) -> list[NodeName]:
    wanted = parse_types(given["gpu_type"])[0] if given["gpu_type"] else ()
    if wanted:
        check_types(wanted, views)
    kinds = accepted_kinds(wanted, known_types(views))
    partitions = {name for view in views for name in view.partitions}
    if given["partition"] and given["partition"] not in partitions:
        there = ", ".join(sorted(partitions)) or "none"
        raise RequestError(f"no node is of a partition {given['partition']!r}", f"there is: {there}")
    return [
        view.name
        for view in views
        if view.usable
        and (not given["partition"] or given["partition"] in view.partitions)
        and (kinds is None or any(kind_of(device) in kinds for device in view.devices))
    ]


def _some(names: list[NodeName], count: str) -> list[NodeName]:
    if not count:
        return names
    wanted = numeral(count)
    if wanted is None or wanted < 2:
        raise RequestError(f"--nodes must be a number from 2 on, not {count[:40]!r}")
    if wanted > len(names):
        raise RequestError(f"{wanted} nodes were asked for, {len(names)} would do", "mgpu nodes lists them")
    return names[:wanted]
