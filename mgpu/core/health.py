"""What a probe's outcome means for the node. Pure.

One failure is not yet a dead node: sshd drops logins at random when many come at once, links blink. So a node that was
seen goes DOWN after `unhealthy_after` failures in a row (probed faster meanwhile), one that was never seen at once, and
one whose trouble cannot pass by itself (host key, authentication) at once too. It comes back with the first good probe.

What an operator drained stays drained whatever the probes say, until the operator's next word: DRAINING while jobs run
there, then DRAINED. Contact with it counts like with any other, so its jobs are looked after to their end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mgpu.core.errors import InvalidTransition
from mgpu.core.lifecycle import NODE_TABLE
from mgpu.core.model import NodeState
from mgpu.core.observation import Node, Observation

_FIRST_RETRY_S = 1.0
_REST = 2.0  # times what nvidia-smi took
_LONGEST_REST_S = 600.0  # from one that hangs
_DRAINS = (NodeState.DRAINING, NodeState.DRAINED)


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """`lasting`: it does not pass without somebody's help."""

    reason: str
    lasting: bool = False


def seen(node: Node, observation: Observation, now: float) -> Node:
    """A good answer (which may still say that the GPUs cannot be read)."""
    node = replace(node, observation=observation, last_seen=observation.at, failures=0, reason=observation.fault)
    return node if node.state in _DRAINS else _move(node, NodeState.UP, now)


def unseen(node: Node, failure: ProbeFailure, now: float, unhealthy_after: int) -> Node:
    node = replace(node, failures=node.failures + 1, reason=failure.reason)
    if node.state in _DRAINS:
        return node
    if node.state is NodeState.UNKNOWN or failure.lasting or node.failures >= unhealthy_after:
        return _move(node, NodeState.DOWN, now)
    return node


def in_contact(node: Node, unhealthy_after: int) -> bool:
    """It answers, or did so just now: what runs there can be looked after."""
    if node.state in _DRAINS:
        return node.observation is not None and node.failures < unhealthy_after
    return node.state is NodeState.UP


def drain(node: Node, now: float) -> Node:
    """Nothing new starts there; see `ebb`."""
    return node if node.state in _DRAINS else _move(node, NodeState.DRAINING, now)


def ebb(node: Node, jobs: int, now: float) -> Node:
    """A node that is drained is done once the last of its jobs has ended."""
    return _move(node, NodeState.DRAINED, now) if node.state is NodeState.DRAINING and not jobs else node


def resume(node: Node, unhealthy_after: int, now: float) -> Node:
    """It becomes what it would be if nobody had drained it."""
    if node.state not in _DRAINS:
        return node
    if in_contact(node, unhealthy_after):
        return _move(node, NodeState.UP, now)
    return _move(node, NodeState.DOWN if node.failures else NodeState.UNKNOWN, now)


def _move(node: Node, state: NodeState, now: float) -> Node:
    if node.state is state:
        return node
    if state not in NODE_TABLE[node.state]:
        raise InvalidTransition(f"node {node.name} is {node.state} and cannot become {state}")
    return replace(node, state=state, since=now)


def next_probe_in(node: Node, heartbeat_s: float, jitter: float) -> float:
    """Seconds until the next regular probe; `jitter` in [0, 1). After failures soon, then ever more rarely; and a
    nvidia-smi that is slow is left alone for longer than it was busy with us, one that hangs ever longer."""
    if node.failures == 0:
        busy_s, hangs = (node.observation.smi_took_s, node.observation.hangs) if node.observation else (0, 0)
        rest = max(heartbeat_s, _REST * busy_s)
        if hangs > 1:
            rest = max(rest, min(rest * 2.0 ** min(hangs - 1, 12), _LONGEST_REST_S))
        return rest * (0.9 + 0.2 * jitter)
    pause: float = _FIRST_RETRY_S * 2.0 ** min(node.failures - 1, 12)
    return min(pause, max(heartbeat_s, 30.0)) * (0.75 + 0.5 * jitter)
