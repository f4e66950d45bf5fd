"""The configuration as it is now comes into force: another master takes over in the same process.

That is what a restart does (jobs run on, and are found again), so nothing else has to be right. What would leave
something behind is refused.
"""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgpu.config.apart import load
from mgpu.config.model import Config
from mgpu.config.policies import load_policies
from mgpu.core.errors import ConfigError, MgpuError
from mgpu.core.hostlist import fold
from mgpu.ops.context import Caller, Context, record, require_operator
from mgpu.ops.render import Json


class CannotReload(MgpuError):
    code = "bad_config"


def reload(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """What changes of the nodes; the answer comes before the change. `all_nodes`: that all of them go is meant. Raises
    CannotReload with all faults."""
    require_operator(context, caller, "reload the configuration")
    return bring_into_force(context, caller, context.config.path, payload.get("all_nodes") is True)


def bring_into_force(context: Context, caller: Caller, path: Path | None, all_nodes: bool = False) -> Json:
    """The configuration at `path`. Raises CannotReload."""
    try:
        fresh = load(path)
        load_policies(fresh)
    except ConfigError as error:
        raise CannotReload("\n".join(error.faults), "the old configuration stays in force") from error
    before = {node.name: node for node in context.config.nodes}
    after = {node.name: node for node in fresh.nodes}
    if (gone := _all_gone(context.config, fresh)) and not all_nodes and _any_was_seen(context):
        hint = "if that is meant: mgpu config reload --yes; the old configuration stays in force"
        raise CannotReload(f"none of the nodes would be left: {gone}", hint)
    _check(context, fresh, {str(name) for name in before.keys() - after.keys()})
    answer: Json = {
        "reloading": True,
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in after.keys() & before.keys() if after[name] != before[name]),
        "warnings": list(fresh.warnings),
    }
    words = ", ".join(f"{key} {','.join(answer[key])}" for key in ("added", "removed", "changed") if answer[key])
    record(context, caller.entry("reload", detail=words))
    context.control.reload(fresh)
    return answer


def _all_gone(before: Config, after: Config) -> str:
    """The nodes, if none of them is left: as of a file that was emptied by mistake. "" = some are, or there was but
    this machine, which nobody wrote down."""
    names = [str(node.name) for node in before.nodes]
    if before.implied or set(names) & {str(node.name) for node in after.nodes}:
        return ""
    return fold(names)


def _any_was_seen(context: Context) -> bool:
    """What was never reached is no loss: somebody is still at writing the first inventory."""
    with context.store.read() as reader:
        stored = [reader.node(node.name) for node in context.config.nodes]
    return any(node.last_seen is not None for node in stored if node is not None)


def _check(context: Context, fresh: Config, removed: set[str]) -> None:
    if fresh.state_dir != context.config.state_dir:
        raise CannotReload("master.state_dir has changed", "mgpu stop, then any command starts a master there")
    require_of(fresh.socket_group)
    with context.store.read() as reader:
        held = {
            str(part.node): job.job_id
            for job, _, parts in reader.open_attempts()
            for part in parts
            if str(part.node) in removed
        }
    if held:
        jobs = ", ".join(f"{node} (job {job})" for node, job in sorted(held.items()))
        raise CannotReload(f"nodes that are gone from the inventory still have jobs: {jobs}", "cancel them, or wait")


def require_of(group: str) -> None:
    """The master that takes over can give its socket to none but its own groups."""
    if group and os.geteuid() and grp.getgrnam(group).gr_gid not in (os.getegid(), *os.getgroups()):
        hint = f"usermod -aG {group} (its account), then end this master and start it again"
        raise CannotReload(f"master.socket_group: this master is not of the group {group}", hint)
