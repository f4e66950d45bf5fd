"""What the records of a run directory, and the lines of the events file, mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.lifecycle import News, PartEvent
from mgpu.core.model import AttemptState, FailureClass, JobId, Part, PartKey
from mgpu.core.reconcile import (
    ANY_RANK,
    NodeAnswer,
    PartAnswer,
    ask_told,
    event_news,
    left_behind,
    limit_of,
    news_of,
)
from tests.core.trial import BOOT, TOKEN, part

OTHER_BOOT = BOOT.replace("1", "2")
GATE = f"321:5000:{BOOT}:{TOKEN}"
RAN = {"pid": GATE, "started": "330:90.00:-"}
OVER = {"exit": "0:95.00", "clean": "96.00"}
E = PartEvent


def answer(records: dict[str, str] | None, alive: bool = True, boot: str = BOOT) -> NodeAnswer:
    """At our time 1000 the node is up for 100 s."""
    found = {} if records is None else {"7.1": PartAnswer(records, alive)}
    return NodeAnswer(found, 100.0, boot, 1000.0)


def told(records: dict[str, str] | None, of: Part | None = None, **more: Any) -> list[News]:
    return news_of(of or part(), TOKEN, answer(records, **more))


@pytest.mark.parametrize(
    ("records", "more", "events"),
    [
        (None, {}, [E.FOUND_ABSENT]),
        ({}, {}, [E.FOUND_ABSENT]),
        ({"exit": "0:1"}, {}, [E.FOUND_ABSENT]),
        ({"pid": "fenced"}, {}, [E.FENCED]),
        ({"pid": GATE}, {}, [E.BEGUN]),
        ({"pid": GATE}, {"alive": False}, [E.ORPHANED]),
        ({"pid": GATE, "ready": "90.00"}, {}, [E.READY]),
        (RAN, {}, [E.STARTED]),
        ({**RAN, "ready": "89.00"}, {}, [E.STARTED]),
        (RAN, {"alive": False}, [E.STARTED, E.ORPHANED]),
        ({**RAN, "exit": "0:95.00"}, {}, [E.STARTED]),  # not yet clean: it still holds its devices
        ({**RAN, "exit": "0:95.00"}, {"alive": False}, [E.STARTED, E.ORPHANED]),
        ({**RAN, **OVER}, {"alive": False}, [E.STARTED, E.EXITED]),
        ({**RAN, **OVER, "stuck": "77"}, {}, [E.STARTED, E.EXITED]),
        ({**RAN, "stuck": "77 "}, {}, [E.STARTED, E.STUCK]),
        ({**RAN, "stop": "TIMEOUT"}, {}, [E.STOP_WANTED, E.STARTED]),
        ({**RAN, **OVER, "stop": "TIMEOUT"}, {}, [E.STOP_WANTED, E.STARTED, E.EXITED]),
        ({**RAN, **OVER, "stop": "TIMEOUT", "clean": "96.00:own"}, {}, [E.STARTED, E.EXITED]),
        ({"pid": GATE, "exit": "fail:node:no home:95", "clean": "96"}, {"alive": False}, [E.LAUNCH_FAILED]),
        ({"pid": f"321:5000:{BOOT}:other"}, {}, [E.LAUNCH_FAILED]),
        ({"pid": GATE}, {"alive": False, "boot": OTHER_BOOT}, [E.REBOOTED]),
        (RAN, {"alive": False, "boot": OTHER_BOOT}, [E.STARTED, E.REBOOTED]),  # it ran, though nobody heard of it
        ({**RAN, **OVER}, {"boot": OTHER_BOOT}, [E.STARTED, E.EXITED]),
        ({**RAN, "exit": "4:95.00"}, {"boot": OTHER_BOOT}, [E.STARTED, E.EXITED]),
    ],
)
def test_records_and_their_news(records: dict[str, str], more: dict[str, Any], events: list[PartEvent]) -> None:
    assert [news.event for news in told(records, **more)] == events


@pytest.mark.parametrize(
    ("records", "ended_by"),
    [
        ({}, None),
        ({"stop": "CANCEL"}, "CANCEL"),
        ({"clean": "96.00:own"}, ""),
        ({"stop": "CANCEL", "clean": "96.00:own"}, ""),
    ],
)
def test_what_ended_the_command(records: dict[str, str], ended_by: str | None) -> None:
    """Where the node does not tell, what the master wanted counts."""
    *_, exited = told({**RAN, **OVER, **records})
    assert exited.ended_by == ended_by


def test_a_reboot_of_a_known_boot() -> None:
    known = part(boot_id=BOOT)
    assert [news.event for news in told(None, known, boot=OTHER_BOOT)] == [E.REBOOTED]
    assert [news.event for news in told(RAN, known, boot=OTHER_BOOT)] == [E.STARTED, E.REBOOTED]
    stopped = {**RAN, "stop": "TIMEOUT", "exit": "4:95.00"}
    *before, news = told(stopped, known, boot=OTHER_BOOT)
    assert [other.event for other in before] == [E.STOP_WANTED, E.STARTED]
    assert (news.event, news.exit_code) == (E.EXITED, 4)


def test_what_the_news_hold() -> None:
    started, exited = told({**RAN, "started": "330:90.50:home", **OVER})
    assert (started.pid, started.start_ticks, started.boot_id, started.notice) == (321, 5000, BOOT, "home")
    assert (started.at, exited.at) == (990.5, 995.0)
    stopped = part(state=AttemptState.STOPPING, stop="CANCEL")
    assert [news.event for news in told({**RAN, "stop": "CANCEL"}, stopped)] == [E.STARTED]
    unwatched, orphaned = told({"pid": f"0:0:{BOOT}:{TOKEN}", "started": "0:90:-"}, alive=False)
    assert (unwatched.pid, orphaned.event) == (None, E.ORPHANED)


@pytest.mark.parametrize(
    ("record", "event", "failure", "code", "reason"),
    [
        ("0:95", E.EXITED, FailureClass.NONE, 0, ""),
        ("255:95", E.EXITED, FailureClass.NONE, 255, ""),
        (
            "fail:node:lock path /tmp/x is obstructed:95",
            E.LAUNCH_FAILED,
            FailureClass.NODE,
            None,
            "lock path /tmp/x is obstructed",
        ),
        ("fail:directory:a:b: c:95", E.LAUNCH_FAILED, FailureClass.DIRECTORY, None, "a:b: c"),
        ("fail:newcomer:held:95", E.LAUNCH_FAILED, FailureClass.NEWCOMER, None, "held"),
        ("fail:aborted:stopped:95", E.LAUNCH_FAILED, FailureClass.STOPPED, None, "stopped"),
        ("fail:supervisor:killed:95", E.EXITED, FailureClass.SUPERVISOR, None, "killed"),
        ("fail:unheard of:text:95", E.LAUNCH_FAILED, FailureClass.NODE, None, "text"),
        ("", E.EXITED, FailureClass.SUPERVISOR, None, "its exit code was not recorded"),
        ("x:95", E.EXITED, FailureClass.SUPERVISOR, None, "its exit code was not recorded"),
        ("-1:95", E.EXITED, FailureClass.SUPERVISOR, None, "its exit code was not recorded"),
        ("256:95", E.EXITED, FailureClass.SUPERVISOR, None, "its exit code was not recorded"),
        ("9" * 20 + ":95", E.EXITED, FailureClass.SUPERVISOR, None, "its exit code was not recorded"),
    ],
)
def test_exit_records(record: str, event: PartEvent, failure: FailureClass, code: int | None, reason: str) -> None:
    """A record that cannot be read is never taken for a success."""
    *_, news = told({**RAN, "exit": record, "clean": "96"})
    assert (news.event, news.failure, news.exit_code, news.reason) == (event, failure, code, reason)


KEY = PartKey(JobId(7), 1, ANY_RANK)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("7.1 started 90.5 - 321:5000:boot", [News(KEY, E.STARTED, 90.5, 321, 5000, "boot")]),
        ("7.1 started 90.5 home 321:5000:boot", [News(KEY, E.STARTED, 90.5, 321, 5000, "boot", notice="home")]),
        ("7.1 ready 90.5 321:5000:boot", [News(KEY, E.READY, 90.5, 321, 5000, "boot")]),
        ("7.1 ended - 5,2, 3:95.5", [News(KEY, E.EXITED, 95.5, exit_code=3, sizes=(5, 2))]),
        ("7.1 ended - - 3:95.5", [News(KEY, E.EXITED, 95.5, exit_code=3)]),
        (
            "7.1 ended TIMEOUT 5,2, 143:95.5",
            [
                News(KEY, E.STOP_WANTED, 95.5, stop="TIMEOUT"),
                News(KEY, E.EXITED, 95.5, exit_code=143, ended_by="TIMEOUT", sizes=(5, 2)),
            ],
        ),
        ("7.1 ended = 5,2, 3:95.5", [News(KEY, E.EXITED, 95.5, exit_code=3, ended_by="", sizes=(5, 2))]),
        (
            "7.1 ended - 0,0, fail:node:a b: c:95.5",
            [News(KEY, E.LAUNCH_FAILED, 95.5, failure=FailureClass.NODE, reason="a b: c", sizes=(0, 0))],
        ),
        ("7.1 requeue", [News(KEY, E.STOP_WANTED, 100.0, stop="REQUEUE")]),
        ("7.1 ended - 5,2, ", []),
        ("7.1 ended", []),
        ("7.1 leftover 12 13", []),
        ("7 started 90.5 - 321:5000:boot", []),
        ("7.x started 90.5 - 321:5000:boot", []),
        ("tail: events: file truncated", []),
        ("", []),
    ],
)
def test_event_lines(line: str, wanted: list[News]) -> None:
    assert event_news(line, lambda uptime: float(uptime or 100.0)) == tuple(wanted)


def test_what_a_command_left_behind_is_counted() -> None:
    assert left_behind("7.1 leftover 12 13 ") == (PartKey(JobId(7), 1, ANY_RANK), 2)
    for line in ("7.1 leftover", "7.1 leftover ", "7.x leftover 12", "7 leftover 12", "7.1 ended 12", " ", ""):
        assert left_behind(line) is None


def test_times_are_ours_whatever_the_node_writes() -> None:
    found = answer({})
    assert found.when("90") == 990.0
    assert found.when("150") == 1000.0  # later than the look itself: not believed
    for word in ("yesterday", "", "nan", "-inf", "inf", "-1e300", "1e300", "9" * 5000, "-5"):
        assert found.when(word) == 1000.0


def test_numbers_that_no_kernel_gives() -> None:
    """They come from files that a job can write, and a database holds 64 bits."""
    for many in (20, 5000):
        number = "9" * many
        assert event_news(f"7.1 started 90 - {number}:{number}:b", float) == (News(KEY, E.STARTED, 90.0, boot_id="b"),)
        assert event_news(f"7.1 ended - 0,0, {number}:95", float) == ()  # the record itself may be readable
        (ended,) = event_news(f"7.1 ended - {number},0, 3:95", float)
        assert (ended.exit_code, ended.sizes) == (3, None)
        assert event_news(f"{number}.1 started 90 - 1:1:b", float) == ()


WORDS = st.text("0123456789:-fail nodest\x00\u00e9", max_size=20) | st.integers(0).map("{}:1".format)


@given(
    st.dictionaries(st.sampled_from(["pid", "ready", "started", "stop", "exit", "clean", "stuck", "go"]), WORDS),
    st.booleans(),
    st.text(max_size=40),
)
def test_whatever_a_node_says_is_survived(records: dict[str, str], alive: bool, line: str) -> None:
    for known in (part(), replace(part(), boot_id=OTHER_BOOT)):
        for news in [*told(records, known, alive=alive), *event_news(line, answer({}).when)]:
            assert news.event is not PartEvent.EXITED or news.exit_code is not None or news.failure
            assert all(0 <= (number or 0) < 2**63 for number in (news.pid, news.start_ticks, news.exit_code))
            assert 900.0 <= news.at <= 1000.0  # since the node's boot


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("7.1 ask 12.3456", (PartKey(JobId(7), 1, ANY_RANK), "12.3456", False)),
        ("7.1 worked 12.3456", (PartKey(JobId(7), 1, ANY_RANK), "12.3456", True)),
        ("7.1 ask", None),
        ("7.1 ask 12", None),
        ("7.1 ask ../../12.3", None),
        ("7.1 ask 12.3 4", None),
        ("7.1 ask 12.\u0663", None),
        ("7.1 ask " + "1" * 11 + ".1", None),
        ("x.1 ask 12.3", None),
        ("7.1 started 12.3", None),
        ("", None),
    ],
)
def test_what_a_line_tells_of_asks(line: str, told: tuple[PartKey, str, bool] | None) -> None:
    assert ask_told(line) == told
    assert event_news(line, float) == ()


def test_of_what_is_known_to_run_only_its_end_is_news() -> None:
    known = part(started=90.0, pid=321, start_ticks=5000, boot_id=BOOT)
    assert told(RAN, known) == []
    assert [news.event for news in told({**RAN, **OVER}, known, alive=False)] == [E.EXITED]
    assert [news.event for news in told(RAN, replace(known, state=AttemptState.LOST))] == [E.STARTED]


@given(uptime=st.decimals(0, 10**9, places=2), limit=st.integers(1, 10**9))
def test_the_limit_that_a_node_knows(uptime: Any, limit: int) -> None:
    """As job/runner.sh and quick/runner.pl write it down."""
    started = {"started": f"330:{uptime}:-"}
    assert limit_of(PartAnswer({**started, "deadline": f"{int(uptime) + limit + 1}"})) == limit
    assert limit_of(PartAnswer(started)) is None
    assert limit_of(PartAnswer({**started, "deadline": "soon"})) is None
    assert limit_of(PartAnswer({"deadline": "17"})) is None


@pytest.mark.parametrize(("clean", "sizes"), [({}, None), ({"clean": "96.00:own"}, (3, 0))])
def test_of_what_has_left_nothing_a_look_knows_how_much_was_written(clean: dict[str, str], sizes: Any) -> None:
    found = PartAnswer({**RAN, "exit": "0:95.00", **clean}, alive=False, sizes=(3, 0))
    [*_, last] = news_of(part(), TOKEN, NodeAnswer({"7.1": found}, 100.0, BOOT, 1000.0))
    assert (last.event, last.sizes) == (E.EXITED if clean else E.ORPHANED, sizes)
