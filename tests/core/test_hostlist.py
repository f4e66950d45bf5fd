"""Hostlists: the table of forms, the refusals, and the round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.errors import RequestError
from mgpu.core.hostlist import MAX_NAMES, expand, fold, in_step


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("login1", ["login1"]),
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("b,a,b", ["b", "a", "b"]),
        ("gpu[001-003,007],login1", ["gpu001", "gpu002", "gpu003", "gpu007", "login1"]),
        ("rack[1-2]n[1-3]", ["rack1n1", "rack1n2", "rack1n3", "rack2n1", "rack2n2", "rack2n3"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[09-11]", ["n09", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[001-12]", [f"n{i:03}" for i in range(1, 13)]),
        ("n[0-1]", ["n0", "n1"]),
        ("n[5]", ["n5"]),
        ("n[ 1 - 2 ]".replace(" - ", "-"), ["n1", "n2"]),
        ("10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]),
        ("[1-2].example.org", ["1.example.org", "2.example.org"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,,b", "an empty name between commas"),
        ("a,", "an empty name between commas"),
        ("n[1-2", "a bracket without its partner"),
        ("n1-2]", "a bracket without its partner"),
        ("n[1-[2]]", "a bracket without its partner"),
        ("n[]", "'' is no number"),
        ("n[a-b]", "'a-b' is no number"),
        ("n[1-2,]", "'' is no number"),
        ("n[-2]", "'-2' is no number"),
        ("n[1-2-3]", "'1-2-3' is no number"),
        ("n[٣]", "'٣' is no number"),
        ("n[3-1]", "runs backwards"),
        ("n[1-02]", "same number of digits"),
        ("a b", "a blank inside a name"),
        ("n[1-9999999999999999999]", "too long"),
        (f"n[1-{MAX_NAMES + 1}]", f"more than {MAX_NAMES} names"),
        ("n[1-1000]m[1-1000]", f"more than {MAX_NAMES} names"),
        (f"n[1-{MAX_NAMES}],m", f"more than {MAX_NAMES} names"),
    ],
)
def test_bad_hostlists_are_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        expand(text)
    assert why in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["login1"], "login1"),
        (["gpu001", "gpu002", "gpu003", "gpu007", "login1"], "gpu[001-003,007],login1"),
        (["n1.example.org", "n2.example.org"], "n[1-2].example.org"),
        (["n9", "n10"], "n[9-10]"),
        (["n09", "n10"], "n[09-10]"),
        (["n1", "n01"], "n[1,01]"),
        (["n2", "n1"], "n[2,1]"),
        (["a", "a"], "a,a"),
        (["a", "a0", "a1"], "a,a[0-1]"),
        (["rack1n1", "rack1n2", "rack2n1"], "rack1n[1-2],rack2n1"),
    ],
)
def test_fold(names: list[str], text: str) -> None:
    assert fold(names) == text


_NAME = st.one_of(
    st.from_regex(r"[a-z]{0,2}[0-9]{1,3}(\.[a-z0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[^\[\],\s]{1,25}", fullmatch=True),
    st.builds("n{:0{}}".format, st.integers(0, 120), st.integers(1, 4)),
)


@given(st.lists(_NAME, max_size=30))
def test_a_folded_list_expands_to_itself(names: list[str]) -> None:
    assert expand(fold(names)) == names


@given(st.integers(0, 1000), st.integers(1, 200), st.integers(1, 5))
def test_a_padded_run_folds_to_one_range(low: int, count: int, width: int) -> None:
    names = [f"gpu{number:0{width}}" for number in range(low, low + count)]
    assert fold(names).count("-") == (count > 1)
    assert expand(fold(names)) == names


def test_fields_run_in_step() -> None:
    assert in_step("10.0.0.[11-12]", 2) == ["10.0.0.11", "10.0.0.12"]
    with pytest.raises(RequestError, match="stands for 1 name, the node_id beside it for 4 names"):
        in_step("gpu001.example.org", 4)
