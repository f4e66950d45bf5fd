"""The stand-ins behave as the real thing, and nobody but click meets them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mgpu
from mgpu.cli.spare import StandIn, cleandoc

TEXTS = ["", "\n", "one", "  one\n", "one\n    two\n      three\n", "\n  a\n\n  b\n   \n", "\ta\n\tb", "a\n  \n b\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_cleandoc_is_inspects(text: str) -> None:
    assert cleandoc(text) == inspect.cleandoc(text)


@given(st.text(alphabet="ab \t\n", max_size=40))
def test_cleandoc_is_inspects_on_any_text(text: str) -> None:
    assert cleandoc(text) == inspect.cleandoc(text)


def ask(code: str) -> list[str]:
    paths = os.pathsep.join([str(Path(mgpu.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environ = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def test_others_get_the_real_modules() -> None:
    code = "import mgpu.cli, inspect, uuid; print(inspect.signature(len), uuid.UUID(int=1))"
    assert ask(code) == ["(obj,", "/)", "00000000-0000-0000-0000-000000000001"]


def test_a_module_that_is_there_stays() -> None:
    code = "import sys, inspect, mgpu.cli, click.core; print(click.core.inspect is inspect is sys.modules['inspect'])"
    assert ask(code) == ["True"]


def test_what_a_stand_in_lacks_is_the_real_modules() -> None:
    stand_in = StandIn("inspect", {"cleandoc": cleandoc})
    assert stand_in.signature is inspect.signature
    with pytest.raises(AttributeError):
        _ = stand_in.nothing_of_that_name


def test_asked_while_in_place_it_makes_way() -> None:
    code = (
        "import sys; from mgpu.cli.spare import StandIn; s = sys.modules['bisect'] = StandIn('bisect', {});"
        "import bisect; print(bisect.bisect.__name__, sys.modules['bisect'] is s)"
    )
    assert ask(code) == ["bisect_right", "False"]
