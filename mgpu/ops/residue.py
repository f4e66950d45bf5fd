"""What is left of us on a node, of which job it is, and its removal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu.core.errors import RequestError
from mgpu.core.model import AttemptState, JobId, JobState
from mgpu.core.residue import (
    WHY_REFUSED,
    EventsFile,
    LeaseDirectory,
    Residue,
    RunDirectory,
    ShippedTree,
    why_stays,
    why_tree_stays,
)
from mgpu.ops.context import Caller, Context, record, require_operator
from mgpu.ops.render import Json


def residue(context: Context, caller: Caller, name: str) -> Json:
    """Everything of ours under the account of that node. Raises MgpuError when the node does not answer."""
    require_operator(context, caller, "see what is left on nodes")
    config = context.node_config(name)
    found = context.control.residue(config.name)
    ours, states = context.store.database_id, _states(context, found)
    return {
        "node_id": config.name,
        "path": found.base,
        "run_as": context.config.run_as,
        "run_directories": [_run(run, ours, states) for run in found.runs],
        "events": [_events(events, ours) for events in found.events],
        "trees": [_tree(tree, ours) for tree in found.trees],
        "leases": [_lease(lease) for lease in found.leases],
    }


def clean(context: Context, caller: Caller, name: str, payload: Mapping[str, Any]) -> Json:
    """Removes what is over and collected of this database, with `all` also what is dead of others, and free leases.
    Whatever lives stays: the node looks once more before it removes anything."""
    require_operator(context, caller, "clean nodes")
    everything = payload.get("all", False)
    if not isinstance(everything, bool):
        raise RequestError("all must be true or false")
    config = context.node_config(name)
    found = context.control.residue(config.name)
    ours, states = context.store.database_id, _states(context, found)
    runs = {run.place: run for run in found.runs}
    reasons = {
        place: why_stays(run, (ours, str(config.name)), states.get(place, ("", None))[0] or None, everything)
        for place, run in runs.items()
    }
    reasons |= {tree.place: why_tree_stays(tree, (ours, str(config.name)), everything) for tree in found.trees}
    leases = {lease.name: lease for lease in found.leases if not lease.held}
    going = [place for place, reason in reasons.items() if not reason]
    if everything:  # with nothing beside it, the folder of another database goes as well
        going += [f"{events.database}/{events.node}/events" for events in found.events if events.database != ours]
    came_of_it = context.control.remove(config.name, going, list(leases))
    reasons |= {place: WHY_REFUSED[word] for place, word in came_of_it.items() if word in WHY_REFUSED}
    removed = [place for place, word in came_of_it.items() if word == "removed"]
    record(context, caller.entry("node clean", node=config.name, detail=f"{len(removed)} removed"))
    shown = {place: _run(run, ours, states) for place, run in runs.items()}
    shown |= {tree.place: _tree(tree, ours) for tree in found.trees}
    shown |= {key: _lease(lease) for key, lease in leases.items()}
    return {
        "node_id": config.name,
        "removed": [shown[key] for key in shown if key in removed],
        "left": [{**shown[key], "why": reasons[key]} for key in shown if key not in removed]
        + [{**_lease(lease), "why": WHY_REFUSED["held"]} for lease in found.leases if lease.held],
    }


def _states(context: Context, found: Residue) -> dict[str, tuple[str, JobState | None]]:
    """Of the run directories of this database: how far the attempt is there, and the state of the job."""
    states: dict[str, tuple[str, JobState | None]] = {}
    with context.store.read() as r:
        for run in found.runs:
            if run.database != context.store.database_id:
                continue
            job = r.job(JobId(run.job_id))
            part = next((part for part in r.parts(JobId(run.job_id), run.attempt) if part.node == run.node), None)
            if part is not None and job is not None:
                over = "over" if part.collected else "uncollected"
                states[run.place] = (over if part.state is AttemptState.ENDED else "open", job.state)
    return states


def _run(run: RunDirectory, ours: str, states: Mapping[str, tuple[str, JobState | None]]) -> Json:
    progress, state = states.get(run.place, ("", None))
    return {
        "kind": "run_directory",
        "job_id": run.job_id,
        "attempt": run.attempt,
        "database": run.database,
        "this_database": run.database == ours,
        "node": run.node,
        "condition": run.condition,
        "alive": run.condition == "alive",
        "job_state": None if state is None else state.value,
        "collected": progress == "over" if progress else None,
        "size_kib": run.size_kib,
        "age_s": int(run.age_s),
    }


def _events(events: EventsFile, ours: str) -> Json:
    return {
        "kind": "events",
        "database": events.database,
        "this_database": events.database == ours,
        "node": events.node,
        "size_kib": events.size_kib,
        "age_s": int(events.age_s),
    }


def _tree(tree: ShippedTree, ours: str) -> Json:
    return {
        "kind": "tree",
        "digest": tree.digest,
        "database": tree.database,
        "this_database": tree.database == ours,
        "node": tree.node,
        "size_kib": tree.size_kib,
        "age_s": int(tree.age_s),
    }


def _lease(lease: LeaseDirectory) -> Json:
    return {
        "kind": "lease",
        "uuid": lease.name,
        "owner": lease.owner,
        "held": lease.held,
        "age_s": int(lease.age_s),
    }
