"""GPU types: inventory value first, then whole words, plain models before their variants."""

from __future__ import annotations

import pytest
from cluster import A100, down, node

from mgpu.core.errors import RequestError
from mgpu.core.gputype import check_types, known_types, match, parse_types
from mgpu.core.plan import NodeView

R3090, R3090TI, R4090 = "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090"
A10, H100, H100P = "NVIDIA A10", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"


def labelled(name: str, label: str, model: str) -> NodeView:
    plain = node(name, "..", model)
    return plain._replace(devices=tuple(device._replace(kind=label) for device in plain.devices), gpu_type=label)


def meant(wanted: str, *models: str) -> list[str]:
    nodes = [node(f"n{at}", ".", model) for at, model in enumerate(models)]
    return [known.label for known in match(wanted, known_types(nodes))]


@pytest.mark.parametrize(
    ("wanted", "models", "labels"),
    [
        ("A10", [A100], []),
        ("A10", [A10, A100], [A10]),
        ("a100", [A10, A100], [A100]),
        ("A100-SXM4", [A100], [A100]),
        ("NVIDIA A100", [A100], [A100]),
        ("100", [A100], []),
        ("3090", [R3090TI], [R3090TI]),
        ("3090", [R3090TI, R3090], [R3090]),
        ("RTX 3090 ti", [R3090TI, R3090], [R3090TI]),
        ("rtx", [R3090, R4090], [R3090, R4090]),
        ("h100", [H100, H100P], [H100, H100P]),
        ("nvidia", [A100], []),
        # An older driver leaves the maker out: the same kind.
        ("3090", ["GeForce RTX 3090", R3090], ["GeForce RTX 3090"]),
    ],
)
def test_whole_words(wanted: str, models: list[str], labels: list[str]) -> None:
    assert meant(wanted, *models) == labels


def test_the_inventorys_value_comes_first() -> None:
    types = known_types([labelled("n1", "big", A100), node("n2", ".", "ACME big 9000")])
    assert [known.label for known in match("BIG", types)] == ["big"]
    assert [known.label for known in match("a100", types)] == ["big"]


def test_ambiguous_types_are_refused_with_the_candidates() -> None:
    with pytest.raises(RequestError, match=f"ambiguous, it may be: {R3090}, {R4090}") as caught:
        check_types(["rtx"], [node("n1", ".", R3090), node("n2", ".", R4090)])
    assert f"'{R3090}|{R4090}'" in caught.value.hint


def test_unknown_types_are_refused_with_the_types_there_are() -> None:
    nodes = [node("n1", ".", A100), node("n2", ".", R3090)]
    with pytest.raises(RequestError, match=f"no GPU here is of type B200; the types are: {A100}, {R3090}"):
        check_types(["B200"], nodes)
    assert check_types(["B200", "3090"], nodes) == ["no GPU here is of type B200"]
    assert check_types(["A100", "3090"], nodes) == []


def test_a_node_never_seen_may_have_any_type_unless_the_inventory_says_which() -> None:
    assert check_types(["B200"], [node("n1", "."), down("n2", "not seen yet")]) == []
    with pytest.raises(RequestError, match="the types are"):
        check_types(["B200"], [node("n1", "."), down("n2", "not seen yet", gpu_type="H100")])
    assert check_types(["H100"], [node("n1", "."), down("n2", "not seen yet", gpu_type="H100")]) == []


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("A100", (("A100",), False)), (" A100 | H100|A100", (("A100", "H100"), False)), ("Any", ((), True))],
)
def test_parse(text: str, parsed: tuple[tuple[str, ...], bool]) -> None:
    assert parse_types(text) == parsed


@pytest.mark.parametrize("text", ["", "|", "A100|", "any|A100", "A\n100"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(RequestError):
        parse_types(text)
