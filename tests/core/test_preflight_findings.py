"""What is made of all that nodes told: each finding by an example of what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mgpu.core.finding import FAILURE, Finding
from mgpu.core.launch import NodeWorld
from mgpu.core.meeting import Call, Side, pairs_of
from mgpu.core.model import NodeName
from mgpu.core.nodefacts import Facts, Wanted, parse_facts, question
from mgpu.core.preflight import NodeTold, Together, findings

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
AT = {A: "10.0.0.1", B: "10.0.0.2", C: "10.0.0.3"}
PORTS = (20000, 29999)
OPEN = (
    "a firewall: open ports 20000-29999 and those that the kernel hands out (32768-60999) between the nodes; or name "
    "another network by network.address in the inventory"
)
WORDS = "this directory (/d)"


def facts(name: NodeName, over: str = "eth0") -> Facts:
    return Facts(
        hostname=name,
        resolves=AT[name],
        interfaces=(("lo", "127.0.0.1"), (over, AT[name]), ("docker0", "172.17.0.1"), (over, "fe80::1")),
        routes={address: (over, AT[name]) for other, address in AT.items() if other != name},
        python="3.11.7",
        torch="2.5.1+cu124",
        torch_cuda="12.4",
        nccl="2.21.5",
        directories={0: "none" if name == A else "seen", 1: "other"},
    )


def told(name: NodeName, over: str = "eth0") -> NodeTold:
    side = Side(name, reached=AT[name], boot_id=f"boot-{name}")
    return NodeTold(side, driver="550.54", cuda="12.4", facts=facts(name, over), clock_s=(0.001, 0.002))


def calls(*names: NodeName) -> list[Call]:
    return [Call(a, b, AT[b], 20007, "ok") for a, b in pairs_of(names)]


def lines(*nodes: NodeTold, made: Sequence[Call] | None = None, directory: bool = False) -> list[str]:
    used = calls(*(node.name for node in nodes)) if made is None else made
    directories = [("this directory", "/scratch", True)] if directory else []
    return [line(each) for each in findings(Together(nodes, used, PORTS, directories))]


def line(finding: Finding) -> str:
    hint = f" -> {finding.hint}" if finding.hint else ""
    return f"{finding.status} {finding.check}: {finding.text}{hint}"


def of(found: list[str], check: str) -> list[str]:
    return [each for each in found if each.split(" ")[1] == f"{check}:"]


def test_all_is_well_and_names_may_differ() -> None:
    """Interfaces that are called differently are no trouble: each node has its own."""
    found = lines(told(A), told(B, "eno1"))
    assert all(each.startswith("ok ") for each in found)
    assert "ok way: a is reached by b at 10.0.0.1 (where the master reaches it too), port 20007" in found
    assert of(found, "interface") == ["ok interface: a goes to b over eth0", "ok interface: b goes to a over eno1"]
    assert "ok torch: PyTorch 2.5.1+cu124 (CUDA 12.4) on all" in found


def test_a_wall_is_told_once_a_way_and_says_what_to_open() -> None:
    bad = [Call(B, A, AT[A], 20007, "Connection timed out"), Call(B, A, AT[A], 41000, "Connection timed out", "", True)]
    found = of(lines(told(A), told(B), made=[Call(A, B, AT[B], 20007, "ok"), *bad]), "way")
    assert found == [
        f"failure way: b cannot reach a at 10.0.0.1:20007: timed out -> {OPEN}",
        "ok way: b is reached by a at 10.0.0.2 (where the master reaches it too), port 20007",
    ]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("No route to host", "no way to"),
        ("somebody else answers", "another machine's"),
        ("Connection refused", "a firewall"),
    ],
)
def test_what_to_do_depends_on_what_went_wrong(said: str, advice: str) -> None:
    made = [Call(A, B, AT[B], 20007, "ok"), Call(B, A, AT[A], 20007, said)]
    assert advice in of(lines(told(A), told(B), made=made), "way")[0]


def test_what_could_not_be_tried_is_skipped() -> None:
    made = [Call(A, B, AT[B], 20007, "ok"), Call(B, A, AT[A], doubt="b: no perl, python3, socat or nc there")]
    found = of(lines(told(A), told(B), made=made), "way")
    assert found[0] == "skipped way: who reaches a could not be tried: b: no perl, python3, socat or nc there"
    assert "skipped node: b: it did not answer in time" in lines(told(A), silent(B))


def test_a_loopback_as_network_address_leads_nowhere() -> None:
    made = [Call(A, B, AT[B], 20007, "ok"), Call(B, A, "127.0.0.1", 20007, "Connection refused")]
    hint = "127.0.0.1 leads every node to itself: network.address of a names one that others reach"
    assert of(lines(told(A), told(B), made=made), "way")[0].endswith(f" -> {hint}")


def silent(name: NodeName) -> NodeTold:
    return replace(told(name), facts=None, trouble="it did not answer in time", clock_s=None)


def test_nothing_is_made_up_of_a_node_that_is_down() -> None:
    """It has no other Python, and shares no directory; that it is down is a failure."""
    dead = [Call(A, B, AT[B], doubt="b: it did not answer in time"), Call(B, A, AT[A], doubt="b: it did not answer")]
    found = lines(told(A), silent(B), made=dead, directory=True)
    assert [each.split(" ")[1] for each in found if not each.startswith("skipped ")] == ["node:", "interface:"]
    assert "failure node: b: it did not answer in time -> mgpu doctor b says more" in found


def test_of_three_those_two_are_compared_that_told_something() -> None:
    found = lines(told(A), told(B), silent(C), made=calls(A, B), directory=True)
    assert of(found, "python") == ["ok python: Python 3.11.7 on a and b"]
    assert of(found, "node")[0].startswith("failure node: c: ")
    assert of(found, "directory")[0].startswith("warning directory: this directory (/scratch) is not on a -> ")
    first = findings(Together([silent(A), told(B), told(C)], calls(B, C), PORTS, [("this directory", "/d", False)]))
    assert (
        line(first[-1])
        == f"skipped directory: {WORDS} could not be looked at on a: whether it is one for all is not known"
    )


@pytest.mark.parametrize(
    ("side", "address", "why"),
    [
        (Side(A, told="10.0.0.1", reached="192.0.2.1"), "10.0.0.1", "network.address in the inventory"),
        (Side(A, reached="127.0.0.1"), "127.0.0.1", "all are this one machine"),
        (
            Side(A, reached="127.0.0.1"),
            "10.0.0.1",
            "found there; 127.0.0.1, by which the master knows it,",
        ),
    ],
)
def test_why_this_address(side: Side, address: str, why: str) -> None:
    made = [Call(A, B, AT[B], 20007, "ok"), Call(B, A, address, 20007, "ok")]
    assert why in of(lines(replace(told(A), side=side), told(B), made=made), "way")[0]


def test_the_inventory_names_an_interface_that_is_not_there() -> None:
    found = of(lines(replace(told(A), interface="ib0"), told(B)), "interface")
    assert found[0] == (
        "failure interface: a has no interface ib0 with an address -> it has docker0 and eth0: mend network.interface "
        "of a in the inventory"
    )


def test_the_inventory_names_an_interface_that_has_not_that_address() -> None:
    node = replace(told(A), interface="docker0", side=Side(A, told=AT[A]))
    assert of(lines(node, told(B)), "interface")[0].startswith(
        "failure interface: docker0 of a has 172.17.0.1, and not 10.0.0.1, its network.address"
    )


def test_the_way_goes_over_another_interface_than_the_inventory_says() -> None:
    node = told(A)
    assert node.facts is not None
    both = replace(node.facts, interfaces=(*node.facts.interfaces, ("ib0", "10.9.0.1")))
    found = of(lines(replace(node, facts=both, interface="ib0"), told(B)), "interface")
    assert found[0].startswith("warning interface: a goes to b over eth0, and the inventory says ib0")
    # where it says nothing, it had better
    found = of(lines(replace(node, facts=both), told(B)), "interface")
    assert found[1] == (
        "warning interface: a has ib0 beside eth0: NCCL and gloo may take either -> network: {interface: eth0} in the "
        "inventory tells them"
    )


@pytest.mark.parametrize(("over", "word"), [("docker0", "warning"), ("virbr0", "warning"), ("lo", "failure")])
def test_a_way_that_leads_out_of_no_machine(over: str, word: str) -> None:
    node = told(A)
    assert node.facts is not None
    inner = replace(node.facts, routes={AT[B]: (over, "")})
    found = of(lines(replace(node, facts=inner), told(B)), "interface")
    assert found[0].startswith(f"{word} interface: a goes to b over {over}")


def test_a_node_that_takes_its_name_for_a_loopback() -> None:
    node = told(A)
    assert node.facts is not None
    lost = replace(node, facts=replace(node.facts, resolves="127.0.1.1"))
    (found,) = of(lines(lost, told(B)), "name")
    assert found == (
        "warning name: a takes its own name, a, for 127.0.1.1: nobody reaches gloo there -> network: {interface: eth0} "
        "in the inventory; MASTER_ADDR is right without it"
    )
    assert not of(lines(replace(lost, interface="eth0"), told(B)), "name")


def test_versions_that_differ() -> None:
    other = told(C)
    assert other.facts is not None
    other = replace(other, driver="535.1", facts=replace(other.facts, torch="", torch_cuda="", python="3.10.1"))
    found = lines(told(A), told(B), other)
    assert of(found, "driver")[0].startswith("warning driver: NVIDIA driver differs: 550.54 on a and b; 535.1 on c -> ")
    assert of(found, "python")[0].startswith("warning python: Python differs: 3.11.7 on a and b; 3.10.1 on c -> ")
    assert "none on c" in of(found, "torch")[0]
    assert of(found, "cuda") == ["ok cuda: CUDA of the driver 12.4 on all"]


def test_what_none_has_is_not_spoken_of() -> None:
    bare = [replace(told(name), driver="", cuda="", facts=Facts()) for name in (A, B)]
    found = lines(*bare)
    assert {each.split(" ")[1] for each in found} == {"way:", "clock:"}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((0.0, 0.01), (0.02, 0.01), "ok clock: the clocks differ by 0.02 s at most"),
        ((0.0, 0.01), (40.0, 0.01), "warning clock: the clock of b is 40.0 s ahead of that of a -> run chrony"),
        ((-0.6, 0.5), (0.6, 0.5), "ok clock: the clocks differ by 1.20 s at most"),  # so much may be wrong
    ],
)
def test_clocks(first: tuple[float, float], second: tuple[float, float], said: str) -> None:
    (found,) = of(lines(replace(told(A), clock_s=first), replace(told(B), clock_s=second)), "clock")
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("words", "made", "said"),
    [
        (("seen", "seen", "seen"), True, f"ok directory: {WORDS} is one directory for all"),
        (("seen", "other", "other"), True, f"ok directory: {WORDS} is not shared: what is made there on a"),
        (("seen", "seen", "other"), True, f"warning directory: {WORDS} is one directory for a and b, and another on c"),
        (("seen", "none", "seen"), True, f"warning directory: {WORDS} is not on b -> -D names"),
        (("none", "none", "none"), False, f"ok directory: {WORDS} is on none of them"),
        (("other", "other", "other"), False, f"skipped directory: {WORDS} cannot be written on a"),
    ],
)  # fmt: skip
def test_directories(words: tuple[str, ...], made: bool, said: str) -> None:
    nodes = []
    for name, word in zip((A, B, C), words, strict=True):
        node = told(name)
        assert node.facts is not None
        nodes.append(replace(node, facts=replace(node.facts, directories={0: word})))
    seen = Together(nodes, calls(A, B, C), PORTS, [("this directory", "/d", made)])
    (found,) = of([line(each) for each in findings(seen)], "directory")
    assert found.startswith(said)


def test_only_what_keeps_a_job_from_running_is_a_failure() -> None:
    other = replace(told(B), driver="1", cuda="2", clock_s=(99.0, 0.0), facts=Facts())
    assert not any(each.status == FAILURE for each in findings(Together([told(A), other], calls(A, B), PORTS)))


# --- what nodes print -----------------------------------------------------------------------------------------------

PRINTED = """\
hostname gpu01
resolves 127.0.1.1       STREAM gpu01
addr 1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
addr 2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global dynamic eth0\\       valid_lft 80000sec
addr 3: ib0    inet6 fd00::1/64 scope global \\       valid_lft forever preferred_lft forever
route 10.0.0.2 10.0.0.2 dev eth0 src 10.0.0.1 uid 1000 \\    cache
route 10.5.0.2 10.5.0.2 via 10.0.0.254 dev eth0 src 10.0.0.1 uid 1000 \\    cache
route 10.0.0.1 local 10.0.0.1 dev lo src 10.0.0.1 uid 1000 \\    cache <local>
route 10.6.0.1 RTNETLINK answers: Network is unreachable
directory 0 seen
directory 1 none
python 3.11.7
torch 2.5.1+cu124 12.4
nccl 2.21.5
"""


def test_what_a_node_prints_is_read() -> None:
    assert parse_facts(PRINTED, []) == Facts(
        hostname="gpu01",
        resolves="127.0.1.1",
        interfaces=(("lo", "127.0.0.1"), ("eth0", "10.0.0.1"), ("ib0", "fd00::1")),
        routes={"10.0.0.2": ("eth0", "10.0.0.1"), "10.5.0.2": ("eth0", "10.0.0.1"), "10.0.0.1": ("lo", "10.0.0.1")},
        python="3.11.7",
        torch="2.5.1+cu124",
        torch_cuda="12.4",
        nccl="2.21.5",
        directories={0: "seen", 1: "none"},
    )
    assert parse_facts("", []) == Facts()
    assert parse_facts("addr x\nroute\ndirectory x y z\ntorch -\npython\n", []) == Facts()


TABLE = """\
table Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
table eth0	00000000	FE00000A	0003	0	0	0	00000000	0	0	0
table ib0	0000090A	00000000	0001	0	0	0	0000FFFF	0	0	0
"""


def test_without_the_program_the_kernels_table_is_read() -> None:
    found = parse_facts(TABLE, ["10.9.3.4", "192.0.2.1", "fd00::1"])
    assert found.routes == {"10.9.3.4": ("ib0", ""), "192.0.2.1": ("eth0", "")}


def test_nothing_of_the_question_is_left_unquoted() -> None:
    world = NodeWorld(setup="conda activate 'x'", env={"A": "it's"})
    text, shell = question(world, Wanted(["10.0.0.1"], ["~/a b", "/x'; rm -rf /"], "abc", "/venv's"))
    assert shell == "bash"
    assert "\"$HOME\"'/a b'" in text
    assert "'/x'\\''; rm -rf /'" in text
    assert question(NodeWorld(), Wanted([], [], "abc"))[1] == "sh"


def test_of_many_nodes_the_names_are_folded() -> None:
    names = [NodeName(f"n{number:02}") for number in range(12)]
    AT.update({name: f"10.0.1.{number}" for number, name in enumerate(names)})
    found = lines(*map(told, names), directory=True)
    assert "ok way: n00 is reached by n[01-11] at 10.0.1.0 (where the master reaches it too), port 20007" in found
    assert of(found, "interface")[0] == "ok interface: n00 goes to n[01-11] over eth0"
