"""An account that was closed after it was seen open: what has not left us begins nothing, all else may have."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mgpu.config.model import NodeConfig, SshSettings
from mgpu.core.lifecycle import PartEvent
from mgpu.core.model import AttemptState, FailureClass, JobId, NodeName, Part
from mgpu.core.plan import NodeFacts
from mgpu.master.inbox import Done, Heard, Inbox, Message, Silent
from mgpu.master.link import Known, NodeLink
from mgpu.remote.errors import RemoteError, Trouble

NODE = NodeName("node001")
PART = Part(JobId(1), 1, 0, NODE, "ann", (0,), (), AttemptState.STARTING)


def told(trouble: Trouble, *, sent: bool, first: bool, whose: tuple[str, ...]) -> list[Message]:
    """What a start that ends so has the master hear."""

    def refuse(*_: Any) -> None:
        error = RemoteError("not let in", trouble)
        error.sent = sent
        raise error

    def at_once(task: Callable[[], None]) -> None:
        task()

    runner: Any = SimpleNamespace(start=refuse, stop=refuse)
    threads: Any = SimpleNamespace(line=lambda name: SimpleNamespace(do=at_once))
    clock: Any = SimpleNamespace(now=lambda: 1000.0)
    inbox = Inbox()
    link = NodeLink(
        NodeConfig(NODE, "ssh", SshSettings("a"), NodeFacts(NODE)), "ann", runner, 45.0, inbox, threads, clock
    )
    link.whose = whose
    launch: Any = None
    link.start(Known(PART, "ab" * 16), launch, first)
    return inbox.take()


@pytest.mark.parametrize("trouble", [Trouble.AUTHENTICATION, Trouble.NO_COMMANDS, Trouble.UNPREPARED])
def test_a_start_that_has_not_left_us_ends_there(trouble: Trouble) -> None:
    heard, done = told(trouble, sent=False, first=True, whose=("ann",))
    assert isinstance(heard, Heard)
    [news] = heard.news
    assert (news.event, news.failure, news.reason) == (PartEvent.LAUNCH_FAILED, FailureClass.LOGIN, "not let in")
    assert isinstance(done, Done)


@pytest.mark.parametrize(
    ("trouble", "how"),
    [
        (Trouble.AUTHENTICATION, {"sent": True}),
        (Trouble.AUTHENTICATION, {"first": False}),  # an earlier request may still be on its way
        (Trouble.UNREACHABLE, {}),  # that is the way there
        (Trouble.AUTHENTICATION, {"whose": ("train", "")}),  # our own login: the probes tell, for all jobs
        (Trouble.AUTHENTICATION, {"whose": ()}),
    ],
)
def test_all_else_is_out_of_sight(trouble: Trouble, how: dict[str, Any]) -> None:
    messages = told(trouble, **{"sent": False, "first": True, "whose": ("ann",), **how})
    assert [type(message) for message in messages] == [Silent, Done]
