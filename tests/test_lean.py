"""What stands for modules of Python's in short commands does as they do."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.lean import context
from mgpu.lean import json as lean

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_it_writes_and_reads_is_json(value: Any) -> None:
    text = lean.dumps(value)
    assert text == json.dumps(value)
    assert lean.loads(text) == lean.loads(text.encode()) == lean.loads(f" \r\n{text}\t ") == value
    assert lean.indented(value) == json.dumps(value, indent=2)


BROKEN = ["", " ", "{", "[1,]", "1 2", '"\x01"', "tru", "{'a': 1}", '{"a" 1}', '"\\x"', "[1", "\ufeff1", "nan", "01"]


@pytest.mark.parametrize("text", [*BROKEN, "NaN", "-Infinity", "1e999", '{"a": 1, "a": 2}', '"\\ud800"'])
def test_it_refuses_what_json_refuses(text: str) -> None:
    try:
        value = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            lean.loads(text)
    else:
        assert repr(lean.loads(text)) == repr(value)
    with pytest.raises(ValueError):
        lean.loads(b'"\xff"')


def test_what_is_no_json_is_not_written() -> None:
    for value in (object(), {(1,): 2}, {1, 2}):
        with pytest.raises(TypeError):
            lean.dumps(value)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        lean.dumps(endless)
    with pytest.raises(RecursionError):
        lean.loads("[" * 100_000)


@pytest.mark.parametrize("missing", [None, ModuleType("_json")])
def test_without_the_half_in_c_it_is_json_itself(missing: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_json", missing)
    monkeypatch.delitem(sys.modules, "mgpu.lean.json")
    assert import_module("mgpu.lean.json").loads is json.loads


@pytest.mark.parametrize("made", [context, contextlib], ids=["ours", "Python's"])
class TestContexts:
    def test_errors_of_these_kinds_end_the_block(self, made: Any) -> None:
        with made.suppress(OSError, ValueError):
            raise FileNotFoundError
        with pytest.raises(KeyError), made.suppress(OSError):
            raise KeyError

    def test_what_stands_behind_the_yield_happens_at_the_end(self, made: Any) -> None:
        said = []

        @made.contextmanager
        def entered(value: int, *, other: int = 0) -> Iterator[int]:
            said.append("in")
            try:
                yield value + other
            finally:
                said.append("out")

        with entered(1, other=2) as value:
            said.append(f"{value}")
        with pytest.raises(KeyError), entered(0):
            raise KeyError
        for _ in range(2):
            with entered(0):
                break
        assert said == ["in", "3", "out", "in", "out", "in", "out"]

    def test_an_error_may_be_swallowed_or_become_another(self, made: Any) -> None:
        @made.contextmanager
        def translating() -> Iterator[None]:
            try:
                yield
            except OSError:
                pass
            except KeyError as error:
                raise ValueError("as it is told") from error

        with translating():
            raise OSError
        with pytest.raises(ValueError, match="told") as told, translating():
            raise KeyError
        assert isinstance(told.value.__cause__, KeyError)
        with pytest.raises(IndexError), translating():
            raise IndexError
        with pytest.raises(StopIteration), translating():
            raise StopIteration

    def test_one_that_goes_on_is_a_mistake(self, made: Any) -> None:
        @made.contextmanager
        def twice() -> Iterator[None]:
            yield
            yield

        with pytest.raises(RuntimeError), twice():
            pass
