"""Policies: orders over candidates, and what a site's own function may get wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from cluster import node

from mgpu.core.plan import DeviceState
from mgpu.core.policies import POLICIES, Candidate, Policy, PolicyError, ordered


def candidates(**free: str) -> list[Candidate]:
    views = [node(name, gpus) for name, gpus in free.items()]
    return [Candidate(v, "a100", tuple(d for d in v.devices if d.state is DeviceState.FREE)) for v in views]


@pytest.mark.parametrize(
    ("policy", "need", "order"),
    [
        ("fill_first", 1, "bdac"),
        ("fill_first", 2, "dacb"),
        ("fill_first", 3, "acdb"),
        ("fill_first", 9, "acdb"),
        ("spread", 1, "acdb"),
        ("spread", 2, "acdb"),
        # No GPUs wanted: fewest jobs first (a and c have none).
        ("fill_first", 0, "acbd"),
        ("spread", 0, "acbd"),
    ],
)
def test_order(policy: str, need: int, order: str) -> None:
    given = candidates(a="....", b="hhh.", c="....", d="hh..")
    assert "".join(c.node.name for c in ordered(POLICIES[policy], need, given)) == order


def test_a_policy_may_leave_nodes_out() -> None:
    given = candidates(a="....", b="....")
    assert ordered(lambda need, all_: all_[1:], 1, given) == given[1:]


def raising(need: int, all_: Sequence[Candidate]) -> Sequence[Candidate]:
    raise ZeroDivisionError("by me\nsecond line")


def answering(answer: Any) -> Policy:
    return lambda need, all_: answer(all_)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (raising, "ZeroDivisionError: by me"),
        (answering(lambda all_: None), "TypeError"),
        (answering(lambda all_: [all_[0], all_[0]]), "twice"),
        (answering(lambda all_: ["a"]), "not given"),
    ],
)
def test_what_goes_wrong_is_contained(policy: Policy, words: str) -> None:
    with pytest.raises(PolicyError, match=words) as caught:
        ordered(policy, 1, candidates(a="...."))
    assert "\n" not in str(caught.value)
