"""A master of another version, as commands see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import mgpu as package
from mgpu.client import http
from tests.cli.conftest import Ran
from tests.client.peer import Peer

Command = Callable[..., Ran]
OTHER = {"X-Mgpu-Version": "9.0"}


@pytest.fixture(autouse=True)
def nobody_met() -> Iterator[None]:
    http.other_versions.clear()
    yield
    http.other_versions.clear()


def test_an_answer_that_cannot_be_read_is_a_line(peer: Peer, mgpu: Command) -> None:
    peer.answers["GET", "/v1/jobs"] = (200, {"tasks": []}, OTHER)
    done = mgpu("queue")
    assert (done.status, done.out) == (69, "")
    assert done.err == (
        f"mgpu: the answer of the master, which is mgpu 9.0, cannot be read by this {package.__version__} "
        "(KeyError: 'jobs'): install the same version; then mgpu restart, jobs run on\n"
    )


@pytest.mark.parametrize("answer", [[], None, {"job_id": 1, "state": "PENDING", "submit_time": 1e999}])
def test_whatever_it_is(peer: Peer, mgpu: Command, answer: object) -> None:
    peer.answers["GET", "/v1/jobs/1"] = (200, answer, OTHER)
    done = mgpu("show", "job", "1")
    assert (done.status, done.out) == (69, "")
    assert "cannot be read by this" in done.err


def test_of_the_same_version_it_is_a_fault_that_is_shown_whole(peer: Peer, mgpu: Command) -> None:
    peer.answers["GET", "/v1/jobs"] = {"tasks": []}
    with pytest.raises(KeyError):
        mgpu("queue")


def test_what_the_master_refuses_for_that(peer: Peer, mgpu: Command) -> None:
    error = {"code": "other_version", "message": "the master is mgpu 9.0", "hint": "install that"}
    peer.answers["GET", "/v1/jobs"] = (409, {"error": error}, OTHER)
    done = mgpu("queue")
    assert (done.status, done.err) == (69, "mgpu: the master is mgpu 9.0: install that\n")
