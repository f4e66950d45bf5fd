"""How users let the master run their jobs under their own accounts: the line for their authorized_keys, and whether it
works."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from mgpu.config.model import NodeConfig
from mgpu.core.errors import NotFound, RequestError
from mgpu.core.hostlist import expand
from mgpu.ops import login
from mgpu.ops.context import Caller, Context, record
from mgpu.ops.render import Json

LINE = "restrict {key} mgpu@{head}"  # the first word: no terminal, no forwarding, nothing but commands
LATE = "it did not answer in time"


def enrolment(context: Context, caller: Caller, nodes: str) -> Json:
    """What is to be put where. `line` "" = nothing, since the master does not log in as users. Raises MgpuError."""
    found = _meant(context, nodes)
    account = context.config.logins.login_of(caller.user)
    by_key = context.config.via == "login" and any(node.connection == "ssh" for node in context.config.nodes)
    key = context.control.own_key() if by_key else ""
    return {
        "user": caller.user,
        "via": context.config.via,
        "line": LINE.format(key=key, head=socket.gethostname()) if key else "",
        "nodes": [{**login.login(login.under(node, account)), "login": account} for node in found],
    }


def enroll(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Whether jobs of the caller can start on these nodes: each is tried now, and those that wait for it go on. Raises
    MgpuError."""
    found = _meant(context, payload.get("nodes", ""))
    account = context.config.logins.login_of(caller.user)
    answers = context.control.enter(caller.user, [node.name for node in found])
    told = [LATE if why is None else why for why in answers]
    well = sum(not why for why in told)
    record(context, caller.entry("enroll", detail=f"{well} of {len(found)} nodes can be entered"))
    rows = zip(found, told, strict=True)
    return {"nodes": [{"node": node.name, "login": account, "ok": not why, "why": why} for node, why in rows]}


def _meant(context: Context, nodes: object) -> Sequence[NodeConfig]:
    """All, or those of a hostlist."""
    if context.config.run_as == "service":
        hint = "`master: {run_as: submitter}` would run them under the accounts of their users"
        raise RequestError("nobody has to enroll here: all jobs run under mgpu's own account", hint)
    if not isinstance(nodes, str) or not nodes.isprintable():
        raise RequestError("nodes must be text, like gpu[01-04]")
    if not nodes:
        return context.config.nodes
    found = [context.node_config(name) for name in dict.fromkeys(expand(nodes))]
    if not found:
        raise NotFound(f"{nodes!r} names no node", "mgpu nodes lists them")
    return found
