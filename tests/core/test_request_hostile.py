"""Submissions that no client of ours makes: wrong types, sizes, bytes. Refused in a line, never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_request import parsed, refusal

from mgpu.core.errors import MgpuError
from mgpu.core.shape import shape_of

HOSTILE: list[dict[str, Any]] = [
    {"kind": "other"},
    {"kind": None},
    {"kind": ["srun"]},
    {"command": None},
    {"command": "x"},
    {"command": {"form": "argv", "words": "x"}},
    {"command": {"form": "argv", "words": ["x", 1]}},
    {"command": {"form": "argv", "words": ["x\0y"]}},
    {"command": {"form": "argv", "words": ["\ud800"]}},
    {"command": {"form": "argv", "words": ["x" * (128 << 10)]}},
    {"command": {"form": "argv", "words": ["x" * 100_000] * 11}},
    {"command": {"form": "argv", "words": ["x"] * 600_000}},
    {"command": {"form": "shell", "words": ["a", "b"]}},
    {"command": {"form": "script", "script": "x" * (4 << 20) + "x"}},
    {"command": {"form": "argv", "words": ["x"], "shell": True}},
    {"options": []},
    {"options": {"gpus": 2}},
    {"options": {"gpus": True}},
    {"options": {"exclusive": "yes"}},
    {"options": {"unheard": "1"}},
    {"options": {"job_name": "a\nb"}},
    {"options": {"job_name": "a" * 256}},
    {"options": {"time": "soon"}},
    {"options": {"retries": "-1"}},
    {"options": {"output": "\0"}},
    {"env": {"A": 1}},
    {"env": {"A": "x\0"}},
    {"env": {"A": "x" * (1 << 20)}},
    {"env": ["A=1"]},
    {"cwd": "relative"},
    {"cwd": 7},
    {"virtual_env": "venv"},
    {"more": 1},
]


@pytest.mark.parametrize("top", HOSTILE, ids=range(len(HOSTILE)))
def test_wrong_types_and_sizes_are_refused(top: dict[str, Any]) -> None:
    assert len(refusal(**top)) < 250


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["gpus", "nodes", "nodelist", "gpu_ids", "node_gpu_ids", "gpu_type", "gpu_mem", "time", "exclusive"]
)
TYPED = st.text("0123,;:-[]noded|GM ", max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, TYPED | JSON, max_size=3))
def test_options_are_understood_or_refused_but_never_crash(options: dict[str, Any]) -> None:
    try:
        spec = parsed(options)
    except MgpuError as error:
        assert error.message and "\n" not in error.message
    else:
        assert shape_of(spec.request).total <= 12
