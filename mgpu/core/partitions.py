"""Which partitions a job may use, and the time limit and priority that they give it.

With -p: those named. Without: every one that is open to the user and long enough for the job, and nodes of none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mgpu.core import payload as read
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.model import Request
from mgpu.core.plan import NodeView, PartitionFacts
from mgpu.core.timelimit import parse_time_limit, render_time_limit


@dataclass(frozen=True, slots=True)
class Admission:
    """`partition` as in Request: names with commas, "" = no restriction."""

    partition: str
    time_limit_s: int | None
    priority: int


def admit(
    request: Request, time: str, nodes: Sequence[NodeView], partitions: Mapping[str, PartitionFacts], user: str
) -> Admission:
    """`time` is -t as typed, "" = not given. Raises RequestError, or NotAllowed for a partition closed to the user."""
    there = {name: PartitionFacts(name) for node in nodes for name in node.partitions} | dict(partitions)
    named = request.partition.split(",") if request.partition else []
    chosen = _named(named, there, user) or [facts for facts in there.values() if _is_open(facts, user)]
    if there and not chosen:
        raise NotAllowed(f"no partition is open to {user}: there are {', '.join(there)}")
    limit = parse_time_limit(time) if time else _default_limit(chosen)
    fitting = [facts for facts in chosen if _is_long_enough(facts, limit)]
    if chosen and not fitting:
        raise _too_long(limit, chosen)
    if named:
        names = ",".join(facts.name for facts in fitting)
        return Admission(names, limit, max(facts.priority for facts in fitting))
    return Admission(_without_name(request, fitting, there, nodes, user), limit, 0)


def new_limit(
    time: str, request: Request, nodes: Sequence[NodeView], partitions: Mapping[str, PartitionFacts], user: str
) -> int | None:
    """The limit that a job which runs on these nodes is to have from now on; `time` as typed. Raises RequestError."""
    limit = parse_time_limit(time)
    wanted = request.partition.split(",") if request.partition else None
    for node in nodes:
        names = [name for name in node.partitions if wanted is None or name in wanted]
        facts = [partitions.get(name, PartitionFacts(name)) for name in names]
        chosen = [one for one in facts if _is_open(one, user)] or facts
        if chosen and not any(_is_long_enough(one, limit) for one in chosen):
            raise _too_long(limit, chosen)
    return limit


def _named(named: Sequence[str], there: Mapping[str, PartitionFacts], user: str) -> list[PartitionFacts]:
    for name in named:
        if name not in there:
            more = read.did_you_mean(name, list(there)) or f": there are {', '.join(there) or 'none'}"
            raise RequestError(f"unknown partition '{read.shown(name)}'{more}")
        if not _is_open(there[name], user):
            raise NotAllowed(f"partition {name} is not open to {user}")
    return [there[name] for name in named]


def _without_name(
    request: Request,
    fitting: Sequence[PartitionFacts],
    there: Mapping[str, PartitionFacts],
    nodes: Sequence[NodeView],
    user: str,
) -> str:
    """The restriction of a job without -p. Nodes that it names may also be in no partition."""
    if len(fitting) == len(there):
        return ""
    names = [facts.name for facts in fitting]
    wanted = {*request.nodelist, *(name for name, _ in request.pins)}
    for node in nodes:
        if node.name in wanted and node.partitions and not set(node.partitions) & set(names):
            closed = not any(_is_open(there[name], user) for name in node.partitions)
            why = f"is not open to {user}" if closed else "has a shorter time limit: give -t"
            raise (NotAllowed if closed else RequestError)(f"{node.name}: its partition {node.partitions[0]} {why}")
    return "" if wanted else ",".join(names)


def _is_open(facts: PartitionFacts, user: str) -> bool:
    return not facts.allow_users or user in facts.allow_users


def _is_long_enough(facts: PartitionFacts, limit: int | None) -> bool:
    return facts.max_time_s is None or (limit is not None and limit <= facts.max_time_s)


def _default_limit(chosen: Sequence[PartitionFacts]) -> int | None:
    """The longest that one of them gives by default: nothing is cut short because another is for short jobs."""
    limits = [facts.max_time_s if facts.default_time_s is None else facts.default_time_s for facts in chosen]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def _too_long(limit: int | None, chosen: Sequence[PartitionFacts]) -> RequestError:
    longest = max(chosen, key=lambda facts: facts.max_time_s or 0)
    most = render_time_limit(longest.max_time_s)
    return RequestError(
        f"time limit {render_time_limit(limit)} is over that of partition {longest.name}: at most {most}"
    )
