"""Names that only the master knows. It is asked in passing: none is started, no password is asked for, and what does
not answer within a moment is not waited for."""

from __future__ import annotations

import os
from _signal import SIG_DFL, SIGALRM, setitimer, signal  # type: ignore[import-not-found]  # `signal` is slow

from mgpu.cli.completion.offers import Ask
from mgpu.cli.completion.values import GPU_TYPES, JOBS, NODES, PARTITIONS, USERS
from mgpu.cli.session import Session
from mgpu.client.http import UNREADABLE, MasterError
from mgpu.lean.typing import Any, Iterable, NoReturn

PATIENCE_S = 2.0
MOST = 200  # jobs of each kind, the newest
ITIMER_REAL = 0


class _TooLate(Exception):
    """The master has not answered in time."""


def names(ask: Ask) -> Iterable[tuple[str, str]]:
    """Each with what is said of it."""
    _stand_alone()
    signal(SIGALRM, _too_late)
    setitimer(ITIMER_REAL, PATIENCE_S)
    try:
        return sorted(_FINDERS[ask.kind](Session(**ask.common), ask).items(), key=_in_order)
    except (MasterError, _TooLate, OSError, *UNREADABLE):
        return []
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, SIG_DFL)


def _too_late(_number: int, _frame: object) -> NoReturn:
    raise _TooLate


def _in_order(named: tuple[str, str]) -> tuple[bool, int, str]:
    """Jobs by number, the newest first; names as a dictionary has them."""
    number = named[0].partition("_")[0]
    return (True, -int(number), "") if number.isdigit() and len(number) < 19 else (False, 0, named[0])


def _stand_alone() -> None:
    """Without a terminal, and without windows: whoever pressed Tab is typing, and answers no questions of ssh."""
    os.environ.pop("SSH_ASKPASS", None)
    try:
        os.setsid()
    except OSError:  # we lead a group: a child does not
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        os.setsid()


def _get(session: Session, path: str) -> Any:
    return session.master(start_if_missing=False).call("GET", path)


def _jobs(session: Session, ask: Ask) -> dict[str, str]:
    found: dict[str, str] = {}
    for scope in ("active", "ended") if ask.ended else ("active",):
        sort = "-id" if scope == "active" else "-time"
        for job in _get(session, f"/v1/window?scope={scope}&sort={sort}&limit={MOST}")["jobs"]:
            found[str(job["job_id"])] = f"{job['state']} {job['name']} ({job['user']})"
            array = str(job.get("array_job_id") or "")
            if array:
                found.setdefault(array, "the whole array")
    return found


def _users(session: Session, _ask: Ask) -> dict[str, str]:
    return {str(job["user"]): "" for job in _get(session, f"/v1/window?scope=active&limit={MOST}")["jobs"]}


def _nodes(session: Session, _ask: Ask) -> dict[str, str]:
    found = {}
    for node in _get(session, "/v1/nodes")["nodes"]:
        gpus = node.get("gpus") or []
        free = sum(gpu["state"] == "free" for gpu in gpus)
        found[str(node["node_id"])] = f"{node['state']}, {free} of {len(gpus)} GPUs free"
    return found


def _partitions(session: Session, _ask: Ask) -> dict[str, str]:
    return {str(node["partition"]): "" for node in _get(session, "/v1/nodes")["nodes"] if node.get("partition")}


def _gpu_types(session: Session, _ask: Ask) -> dict[str, str]:
    nodes = _get(session, "/v1/nodes")["nodes"]
    found = {str(node["gpu_type"]): "" for node in nodes if node.get("gpu_type")}
    return found | {"any": "of whatever kinds"}


_FINDERS = {JOBS: _jobs, USERS: _users, NODES: _nodes, PARTITIONS: _partitions, GPU_TYPES: _gpu_types}
