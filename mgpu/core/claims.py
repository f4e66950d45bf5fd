"""Cores and host memory: what a job claims of its nodes, and what is left of them.

They are counted, so that jobs which say what they need are not put where it is not; nothing holds a job to it. What it
asks for (-c, --mem) is meant on each of its nodes. One that does not ask claims with each GPU an equal share of the
node, so that such jobs always find room beside each other; one without GPUs claims nothing. What a node does not tell
is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from mgpu.core.amounts import gib
from mgpu.core.model import JobId, Request


class Claim(NamedTuple):
    """Cores, and host memory in MiB. In what is left, None = not counted."""

    cpus: int | None
    memory_mib: int | None


Claims = tuple[tuple[JobId, Claim], ...]
NOT_COUNTED = Claim(None, None)


class Host(Protocol):
    """A node, as far as it is counted here."""

    @property
    def there(self) -> Claim: ...
    @property
    def share(self) -> Claim: ...
    @property
    def claims(self) -> Claims: ...


def share_of(there: Claim, gpus: int) -> Claim:
    """What goes with each of a node's GPUs."""
    return Claim(*(None if amount is None else amount // max(1, gpus) for amount in there))


def claim_of(request: Request, gpus: int, share: Claim) -> Claim:
    """What a part with so many GPUs claims of a node."""
    return Claim(
        (share.cpus or 0) * gpus if request.cpus is None else request.cpus,
        (share.memory_mib or 0) * gpus if request.host_memory_mib is None else request.host_memory_mib,
    )


def left(node: Host) -> Claim:
    """Below 0 where more was given out than there is: an inventory, or a machine, that has become smaller."""
    return NOT_COUNTED if node.there == NOT_COUNTED else minus(node.there, (claim for _, claim in node.claims))


def minus(there: Claim, given: Iterable[Claim]) -> Claim:
    cpus, memory = there
    for claim in given:
        cpus = None if cpus is None else cpus - (claim.cpus or 0)
        memory = None if memory is None else memory - (claim.memory_mib or 0)
    return Claim(cpus, memory)


def least(one: Claim, other: Claim) -> Claim:
    """Of each the lesser; both count the same."""
    return Claim(*(None if a is None or b is None else min(a, b) for a, b in zip(one, other, strict=True)))


def gpus_within(rest: Claim, request: Request, share: Claim) -> int | None:
    """The most GPUs that a part may have there for the sake of what is left, `rest`; None = as many as there are. Below
    0: not even a part without any."""
    most: int | None = None
    for amount, asked, each in zip(rest, (request.cpus, request.host_memory_mib), share, strict=True):
        if amount is None:
            continue
        if asked is not None:
            if asked > max(0, amount):
                return -1
        elif each:
            room = max(0, amount) // each
            most = room if most is None else min(most, room)
    return most


# --- words ----------------------------------------------------------------------------------------------------------


def never(there: Claim, request: Request) -> str:
    """Why a node with so much could never do; "" = it could."""
    if there.cpus is not None and (request.cpus or 0) > there.cpus:
        return f"has {_cores(there.cpus)}, {request.cpus} asked"
    if there.memory_mib is not None and (request.host_memory_mib or 0) > there.memory_mib:
        return f"has {gib(there.memory_mib)} of memory, {gib(request.host_memory_mib or 0)} asked"
    return ""


def short(node: Host, request: Request, gpus: int) -> str:
    """What is missing for a part with so many GPUs, and who has it."""
    need, rest = claim_of(request, gpus, node.share), left(node)
    if rest.cpus is not None and (need.cpus or 0) > rest.cpus:
        holders = ", ".join(f"job {job_id} has {claim.cpus}" for job_id, claim in node.claims if claim.cpus)
        return f"needs {_cores(need.cpus or 0)}, {max(0, rest.cpus)} of {node.there.cpus} are left: {holders}"
    wanted, spare = gib(need.memory_mib or 0), gib(max(0, rest.memory_mib or 0))
    holders = ", ".join(
        f"job {job_id} has {gib(claim.memory_mib)}" for job_id, claim in node.claims if claim.memory_mib
    )
    return f"needs {wanted} of memory, {spare} of {gib(node.there.memory_mib or 0)} are left: {holders}"


def _cores(count: int) -> str:
    return f"{count} core{'' if count == 1 else 's'}"
