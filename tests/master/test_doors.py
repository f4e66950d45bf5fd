"""Whether an account can be entered: asked before a start, believed for a moment, tried again now and then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core.logins import Logins
from mgpu.core.model import NodeName
from mgpu.core.plan import Barred, Batch, NodeFacts, Owner, Shut, Snapshot
from mgpu.master.doors import AGAIN_S, FRESH_S, PATIENCE_S, SOON_S, Doors
from mgpu.master.links import Links
from mgpu.remote.errors import RemoteError, Trouble
from tests.core.cluster import job, snapshot

A, B = NodeName("a"), NodeName("b")
NOT_ENROLLED = "ann is not enrolled: ann runs `mgpu enroll` once"


@dataclass
class Bench:
    """Clock, threads, accounts: what `shut` names cannot be entered; who knocks is answered when the test says so."""

    run_as: Literal["service", "submitter"] = "submitter"
    at: float = 1000.0
    shut: dict[tuple[str, str], RemoteError] = field(default_factory=dict)
    begun: list[Callable[[], None]] = field(default_factory=list)
    entered: list[tuple[str, str]] = field(default_factory=list)
    woken: int = 0

    def __post_init__(self) -> None:
        own = {name: self.link(name, "gpuq") for name in (A, B)}
        links = Links(own, self.link, wake=self.wake)
        nodes = tuple(NodeConfig(name, "ssh", SshSettings(name), NodeFacts(name)) for name in (A, B))
        logins = Logins({"eve": "none"})
        config = replace(Config(None, nodes), run_as=self.run_as, logins=logins)
        threads: Any = self
        self.doors = Doors(links, config, threads, threads)

    def link(self, name: NodeName, account: str) -> Any:
        def enter(*_: object) -> None:
            self.entered.append((name, account))
            if error := self.shut.get((name, account)):
                raise error

        config = SimpleNamespace(connection="ssh")
        return SimpleNamespace(
            account=account, whose=(account,), config=config, runner=SimpleNamespace(look=enter, enter=enter)
        )

    def wake(self) -> None:
        self.woken += 1

    def monotonic(self) -> float:
        return self.at

    def spawn(self, name: str, task: Callable[[], None]) -> None:
        self.begun.append(task)

    def together(self, tasks: list[Callable[[], str]], limit_s: float) -> list[str]:
        return [task() for task in tasks]

    def answer(self) -> None:
        self.begun.pop(0)()

    def seen(self, user: str = "ann", *owing: Any) -> dict[str, str]:
        plain: Snapshot = snapshot([], job(1)._replace(owner=Owner(user)))
        board: Any = SimpleNamespace(parts=lambda: [(None, part) for part in owing])
        [batch] = self.doors.close(plain, board).batches
        assert isinstance(batch, Batch)
        assert all(shut.barred is Barred.LOGIN for _, shut in batch.closed)
        return {name: shut.reason for name, shut in batch.closed}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refuse(bench: Bench, *names: NodeName, trouble: Trouble = Trouble.AUTHENTICATION) -> None:
    for name in names:
        bench.shut[name, "ann"] = RemoteError("none accepted", trouble)


def test_a_start_is_given_out_once_its_door_was_seen_open(bench: Bench) -> None:
    assert bench.doors.unsure("ann", [A]) == [A]
    assert bench.doors.unsure("ann", [A]) == [A]
    assert len(bench.begun) == 1  # it is under way
    bench.answer()
    assert bench.woken == 1
    assert bench.doors.unsure("ann", [A]) == []
    bench.at += FRESH_S + 0.1
    assert bench.doors.unsure("ann", [A]) == [A]
    assert bench.seen() == {}


def test_a_door_that_is_shut_is_shut_to_that_user_alone(bench: Bench) -> None:
    refuse(bench, A)
    bench.doors.unsure("ann", [A])
    bench.answer()
    assert bench.seen() == {A: NOT_ENROLLED}
    assert bench.seen("bob") == {}


def test_it_is_tried_again_less_and_less_often_while_somebody_waits(bench: Bench) -> None:
    refuse(bench, A)
    bench.doors.unsure("ann", [A])
    bench.answer()
    pauses = []
    for _ in range(7):
        pauses.append(bench.doors.retry({"ann"}))
        bench.at += pauses[-1] + 0.1
        assert bench.doors.retry({"bob"}) == AGAIN_S[1]
        assert not bench.begun
        bench.doors.retry({"ann"})
        bench.answer()
    assert pauses == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    bench.shut.clear()
    bench.at += 601
    bench.doors.retry({"ann"})
    bench.answer()
    assert bench.seen() == {}


def test_where_it_was_the_way_there_it_is_tried_again_soon(bench: Bench) -> None:
    refuse(bench, A, trouble=Trouble.UNREACHABLE)
    bench.doors.unsure("ann", [A])
    bench.answer()
    assert bench.doors.retry({"ann"}) == SOON_S
    assert bench.seen() == {A: "mgpu cannot log in as ann: none accepted"}


def test_a_login_that_does_not_end_sends_jobs_elsewhere(bench: Bench) -> None:
    bench.doors.unsure("ann", [A])
    assert bench.seen() == {}
    bench.at += PATIENCE_S + 0.1
    assert bench.seen() == {A: "the login as ann has not been answered yet"}


def test_whom_the_table_refuses_everything_is_shut_to(bench: Bench) -> None:
    assert set(bench.seen("eve")) == {A, B}
    assert bench.doors.retry({"eve"}) == AGAIN_S[1]


def test_what_was_given_up_is_looked_for_before_more_of_that_account_starts(bench: Bench) -> None:
    owing = SimpleNamespace(owes_fence=True, account="ann", node=B)
    assert list(bench.seen("ann", owing)) == [B]
    assert bench.seen("bob", owing) == {}


def test_a_test_tries_anew_and_is_believed(bench: Bench) -> None:
    refuse(bench, A, B)
    assert bench.doors.test("ann", [A, B]) == [NOT_ENROLLED, NOT_ENROLLED]
    assert bench.seen() == {A: NOT_ENROLLED, B: NOT_ENROLLED}
    del bench.shut[B, "ann"]
    assert bench.doors.test("ann", [A, B]) == [NOT_ENROLLED, ""]
    assert bench.seen() == {A: NOT_ENROLLED}
    assert bench.doors.unsure("ann", [B]) == []


def test_where_all_run_under_one_account_nobody_is_asked() -> None:
    bench = Bench("service")
    assert bench.doors.unsure("ann", [A]) == []
    assert bench.doors.account_of("eve", A) == "gpuq"
    assert bench.seen("eve") == {}
    assert not bench.begun


def test_a_reason_keeps_what_closes_the_node_already(bench: Bench) -> None:
    refuse(bench, A)
    bench.doors.test("ann", [A])
    window = (B, Shut("maintenance"))
    plain = snapshot([], job(1)._replace(owner=Owner("ann")))
    closed = replace(plain, batches=tuple([batch._replace(closed=(window,)) for batch in plain.batches]))
    board: Any = SimpleNamespace(parts=list)
    [batch] = bench.doors.close(closed, board).batches
    assert batch.closed == (window, (A, Shut(NOT_ENROLLED, Barred.LOGIN)))
