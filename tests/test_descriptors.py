"""How many files may be open: more for the master, and no more for jobs of its machine."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from mgpu.descriptors import MOST, as_before, room
from mgpu.remote.channel import LocalConnection

FEW = 1000


@pytest.fixture
def hard() -> Iterator[int]:
    """Where the soft limit is FEW."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, limits[1]))
    try:
        yield limits[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def soft() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def limit_of_a_job() -> str:
    channel = LocalConnection().open_channel("ulimit -S -n")
    try:
        return channel.receive(15.0).decode().strip()
    finally:
        channel.close()


def test_the_master_may_have_many_open_and_jobs_as_many_as_before(hard: int) -> None:
    with room():
        assert soft() == (MOST if hard == resource.RLIM_INFINITY else min(MOST, hard))
        assert limit_of_a_job() == str(FEW)
    assert (soft(), as_before()) == (FEW, "")
    assert limit_of_a_job() == str(FEW)


def test_who_has_enough_keeps_what_there_is(hard: int) -> None:
    if hard not in (resource.RLIM_INFINITY,) and hard <= MOST:
        pytest.skip("no more than that may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST + 1, hard))
    with room():
        assert (soft(), as_before()) == (MOST + 1, "")
