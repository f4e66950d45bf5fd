"""Which of the nodes that could take a part is taken first.

A policy is a function from the GPUs that a part needs and the candidates (in the order of the inventory) to the
candidates in order of preference; those it leaves out are not used. Ties keep the order of the inventory. Parts
without GPUs (need 0) fit everywhere equally: they go where the fewest jobs are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mgpu.core.plan import DeviceView, NodeView


class Candidate(NamedTuple):
    """A node with the free devices (of one kind) that a part of the job may get."""

    node: NodeView
    kind: str
    free: tuple[DeviceView, ...]


Policy = Callable[[int, Sequence[Candidate]], Sequence[Candidate]]


class PolicyError(Exception):
    """A policy that raised, or answered with something that it was not given."""


def fill_first(need: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Tightest node first, so that whole nodes stay free; after those that hold all of it, the fullest others."""

    def waste(candidate: Candidate) -> tuple[bool, int]:
        left = len(candidate.free) - need
        return (left < 0, abs(left)) if need else (False, candidate.node.jobs)

    return sorted(candidates, key=waste)


def spread(need: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Most free GPUs first."""
    return sorted(candidates, key=lambda candidate: -len(candidate.free) if need else candidate.node.jobs)


BUILT_IN = (fill_first, spread)
POLICIES: Mapping[str, Policy] = MappingProxyType({"fill_first": fill_first, "spread": spread})


def ordered(policy: Policy, need: int, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The policy's answer, checked: each candidate at most once and none invented. Raises PolicyError."""
    try:
        answer = list(policy(need, tuple(candidates)))
    except Exception as error:  # a site's own function may fail in any way: its jobs wait, the rest goes on
        raise PolicyError(f"{type(error).__name__}: {error}".splitlines()[0]) from error
    given = {id(candidate) for candidate in candidates}
    chosen = [id(candidate) for candidate in answer]
    if len(set(chosen)) < len(chosen) or not given.issuperset(chosen):
        raise PolicyError("it answered with nodes that it was not given, or with one twice")
    return answer
