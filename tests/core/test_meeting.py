"""Where ranks meet: who calls whom, at which addresses, and what is made of what came of it."""

from __future__ import annotations

import pytest

from mgpu.core.meeting import (
    ALL_PAIRS,
    LOOPBACK,
    MOST_CANDIDATES,
    OK,
    Call,
    Door,
    Meeting,
    Side,
    candidates,
    is_address,
    one_machine,
    pairs_of,
    parse_door,
    parse_own,
    parse_reached,
    settle,
)
from mgpu.core.model import NodeName

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
LATE = "Connection timed out"


def nodes(count: int) -> list[NodeName]:
    return [NodeName(f"n{number}") for number in range(count)]


@pytest.mark.parametrize("count", range(2, ALL_PAIRS + 1))
def test_of_few_nodes_everybody_calls_everybody(count: int) -> None:
    assert len(set(pairs_of(nodes(count)))) == count * (count - 1)


def test_of_many_a_ring_and_all_ways_from_and_to_the_first() -> None:
    names = nodes(50)
    pairs = pairs_of(names)
    assert len(pairs) == len(set(pairs)) == 2 * 49 + 2 * 50 - 4  # two links of the ring are ways from the first
    assert {(b, a) for a, b in pairs} == set(pairs)
    assert {b for a, b in pairs if a == names[0]} == set(names[1:])


@pytest.mark.parametrize(
    ("side", "own", "one", "there"),
    [
        (Side(A, told="10.1.0.1", reached="192.0.2.1"), ["10.9.9.9"], False, ("10.1.0.1",)),
        (Side(A, told="10.1.0.1", reached="127.0.0.1"), [], True, ("10.1.0.1",)),
        (Side(A, reached="192.0.2.1"), ["192.0.2.1", "10.9.9.9"], False, ("192.0.2.1", "10.9.9.9")),
        (Side(A, reached="127.0.0.1"), ["10.9.9.9"], False, ("10.9.9.9",)),
        (Side(A, reached="::1"), [], False, ()),
        (Side(A, reached="gpu01.behind.jump"), ["10.9.9.9"], False, ("10.9.9.9",)),
        (Side(A, reached="127.0.0.1"), ["10.9.9.9"], True, (LOOPBACK, "10.9.9.9")),
        (Side(A, reached="fd00::5"), [], False, ("fd00::5",)),
        (Side(A), [f"10.0.0.{number}" for number in range(30)], False,
         tuple(f"10.0.0.{number}" for number in range(MOST_CANDIDATES))),
    ],
)  # fmt: skip
def test_where_a_node_may_be_reached(side: Side, own: list[str], one: bool, there: tuple[str, ...]) -> None:
    assert candidates(side, own, one) == there


def test_one_machine_is_one_boot_id() -> None:
    assert one_machine([Side(A, boot_id="x"), Side(B, boot_id="x")])
    assert not one_machine([Side(A, boot_id="x"), Side(B, boot_id="y")])
    assert not one_machine([Side(A), Side(B)])


def call(source: NodeName, target: NodeName, said: str = OK, address: str = "", port: int = 1) -> Call:
    return Call(source, target, address or f"10.0.0.{ord(target)}", port, said)


def well(*names: NodeName) -> list[Call]:
    return [call(*pair) for pair in pairs_of(names)]


def test_all_is_well() -> None:
    assert settle([A, B], well(A, B)) == Meeting(("10.0.0.97", "10.0.0.98"))


@pytest.mark.parametrize(
    ("broken", "blamed", "words"),
    [
        ({(B, A)}, A, "b cannot reach a"),
        ({(A, B)}, B, "a cannot reach b"),
        ({(A, B), (B, A)}, B, "b cannot reach a"),  # whose fault it is cannot be seen
        ({(A, C), (B, C)}, C, "a cannot reach c"),
        ({(C, A), (C, B)}, C, "c cannot reach a"),
        ({(B, A), (C, A), (A, B), (A, C)}, A, "b cannot reach a"),
    ],
)
def test_who_is_better_left_out(broken: set[tuple[NodeName, NodeName]], blamed: NodeName, words: str) -> None:
    names = [A, B, C] if any(C in pair for pair in broken) else [A, B]
    calls = [call(*pair, LATE if pair in broken else OK) for pair in pairs_of(names)]
    meeting = settle(names, calls)
    assert meeting.failed is not None
    assert meeting.blamed == blamed
    assert meeting.failed.words().startswith(f"{words} at 10.0.0.")
    assert meeting.failed.words().endswith("timed out")


def test_the_address_that_all_reach_is_taken() -> None:
    names = [A, B, C]
    usual = [call(*pair) for pair in pairs_of(names) if pair[1] != A]
    first = [call(B, A, LATE, "192.0.2.1"), call(C, A, OK, "192.0.2.1")]
    second = [call(B, A, OK, "10.9.9.9"), call(C, A, OK, "10.9.9.9")]
    assert settle(names, [*usual, *first, *second]).addresses[0] == "10.9.9.9"
    # one that only some have tried is none that all reach
    failed = settle(names, [*usual, *first, second[0]])
    assert failed.failed is not None
    assert failed.blamed == A


def test_a_port_of_the_kernels_choice_counts_too() -> None:
    bad = Call(A, B, "10.0.0.98", 40000, "Connection refused", any_port=True)
    meeting = settle([A, B], [*well(A, B), bad])
    assert meeting.failed == bad
    assert bad.words() == (
        "a cannot reach b at 10.0.0.98:40000 (a port of the kernel's choice, as NCCL and gloo take them): refused"
    )


def test_doubt_speaks_against_nobody() -> None:
    doubt = [Call(A, B, "10.0.0.98", doubt="no tool"), Call(B, A, "10.0.0.97", doubt="no tool")]
    assert settle([A, B], doubt) == Meeting(("10.0.0.97", "10.0.0.98"))
    # what is known of the other way is believed
    half = settle([A, B], [doubt[0], call(B, A, LATE)])
    assert half.failed is not None
    assert settle([A, B], [Call(A, B, "", doubt="no address"), call(B, A)]).addresses == ("10.0.0.97", "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (LATE, "timed out"),
        ("Connection refused", "refused"),
        ("No route to host", "no route"),
        ("Network is unreachable", "no route"),
        ("somebody else answers", "somebody else answers"),
        ("Operation not permitted", "not permitted (a firewall on the node itself)"),
    ],
)
def test_what_went_wrong_in_words(said: str, words: str) -> None:
    assert Call(A, B, "fd00::1", 7, said).words() == f"a cannot reach b at [fd00::1]:7: {words}"


def test_what_a_node_prints_is_read_and_nothing_else() -> None:
    text = "10.0.0.1 80 ok\nfd00::1 81 No route to host\nnoise\n10.0.0.1 x ok\n10.0.0.2 80 \n"
    assert parse_reached(text) == {("10.0.0.1", 80): "ok", ("fd00::1", 81): "No route to host"}
    twice = "10.0.0.1 80 ok\n10.0.0.1 80 Connection timed out\n"
    assert parse_reached(twice) == {("10.0.0.1", 80): "ok"}
    assert parse_door(["listening", "perl", "20007", "40001"]) == Door("perl", 20007, 40001)
    assert parse_door(["listening", "nc", "20007", "-"]) == Door("nc", 20007)
    assert parse_door(["listening", "nc", "much", "-"]) is None
    assert parse_door(["taken"]) is None


FIB = """\
           |-- 10.1.2.3
              /32 host LOCAL
--
           |-- 127.0.0.1
              /32 host LOCAL
--
           |-- 172.17.0.1
              /32 host LOCAL
--
           |-- 169.254.3.4
              /32 host LOCAL
--
           |-- 10.1.2.3
              /32 host LOCAL
00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000000ff000a000001 02 40 20 80     eth0
fd000000000000000000000000000002 02 40 00 80     eth0
"""


def test_the_addresses_that_others_may_use() -> None:
    assert parse_own(FIB) == ("10.1.2.3", "172.17.0.1", "fd00::2")
    assert parse_own("") == ()


@pytest.mark.parametrize(
    ("text", "numeric"),
    [
        *(("10.0.0.1", True), ("::1", True), ("fd00::1:2", True)),
        *(
            ("gpu01", False),
            ("10.0.0.256", False),
            ("10.0.0", False),
            ("", False),
            ("x:y", False),
            ("fe80::1%eth0", False),
        ),
    ],
)
def test_what_is_an_address(text: str, numeric: bool) -> None:
    assert is_address(text) is numeric
