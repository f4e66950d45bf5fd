"""The master itself: how it is, and that it should end."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress

import mgpu
from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.model import JobState, NodeState
from mgpu.core.plan import DeviceState
from mgpu.endpoint import boot_id
from mgpu.meters import Meters
from mgpu.ops.context import Caller, Context, record, require_operator
from mgpu.ops.render import Json, moment
from mgpu.store.filters import JobFilter
from mgpu.users import user_name

LOGIN_VARIABLES = ("HOME", "PATH", "SSH_AUTH_SOCK")  # what decides where the master gets in; they hold no secret


def config_name(context: Context) -> str:
    """The configuration as the wire names it: an absolute path, "" for none."""
    return str(context.config.path) if context.config.path else ""


def status(context: Context, caller: Caller) -> Json:
    """What troubles a shared master may tell of jobs and files of anybody: its admins hear that alone."""
    all_of_it = context.personal or context.is_operator(caller)
    with context.store.read() as r:
        jobs = r.count_by_state(JobFilter())
        stored = {node.name: node.state for node in r.nodes()}
    nodes = Counter(stored.get(node.name, NodeState.UNKNOWN).value for node in context.config.nodes)
    return {
        "version": mgpu.__version__,
        "pid": os.getpid(),
        "instance": f"{os.getpid()}-{context.started:.6f}",
        "mode": "personal" if context.personal else "shared",
        "boot_id": boot_id(),
        "uid": context.owner_uid,
        "user": user_name(context.owner_uid),
        "database_id": context.store.database_id,
        "config": config_name(context),
        "state_dir": str(context.store.path.parent),
        "started": moment(context.started),
        "uptime_s": int(clock.now() - context.started),
        "queue": {state.value: jobs.get(state, 0) for state in (JobState.PENDING, JobState.RUNNING)},
        "nodes": dict(nodes),
        "gpus": gpus(context.control.meters),
        "tick": _tick(context.control.meters),
        "connections": connections(context.control.meters),
        "disk": disk(context),
        "warnings": list(context.config.warnings),
        "errors": list(context.control.errors()) if all_of_it else [],
        "environment": {name: os.environ.get(name, "") for name in LOGIN_VARIABLES} if all_of_it else None,
    }


def gpus(meters: Meters) -> Json:
    """How many are in which state."""
    states = Counter(device.state for view in meters.views() for device in view.devices)
    return {state.value: states[state] for state in DeviceState}


def connections(meters: Meters) -> Json:
    contacts = meters.contacts().values()
    return {
        "clients": meters.clients(),
        "streams": meters.streams(),
        "ssh": sum(contact.connections for contact in contacts),
        "shells": sum(contact.shells for contact in contacts),
    }


def disk(context: Context) -> Json:
    """Of what the master keeps here; None = the disk does not tell."""
    free = None
    with suppress(OSError):
        found = os.statvfs(context.store.path.parent)
        free = found.f_bavail * found.f_frsize
    return {"database_bytes": context.store.size(), "spool_bytes": context.spool.used(), "free_bytes": free}


def _tick(meters: Meters) -> Json:
    """Of the latest passes: the last one, what half and nearly all of them stayed within; None = there was none."""
    half, most = meters.recent(50, 99) or (None, None)
    since = None if meters.passed_at is None else clock.monotonic() - meters.passed_at
    numbers = {"last_s": meters.last_pass_s, "p50_s": half, "p99_s": most, "since_s": since}
    return {name: None if value is None else round(value, 6) for name, value in numbers.items()}


def stop(context: Context, caller: Caller) -> Json:
    """The answer comes before the end."""
    require_operator(context, caller, "stop the master")
    with suppress(StoreError):  # on a full disk it has to end all the same
        record(context, caller.entry("stop"))
    context.control.stop()
    return {"stopping": True}
