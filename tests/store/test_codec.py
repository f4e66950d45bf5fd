"""Every value comes back as it was, whatever bytes its strings stand for."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core import codec
from mgpu.core.model import Command, CommandForm, JobKind, JobSpec, NodeState, Request
from mgpu.core.observation import GpuProcess, GpuReading, Node, Observation

text = st.text(st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=8)
number = st.integers(0, 2**62)
moment = st.floats(allow_nan=False)


def optional(strategy):
    return st.none() | strategy


def several(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


commands = st.builds(Command, st.sampled_from(CommandForm), several(text), script=text, script_name=text)
requests = st.builds(
    Request,
    gpus=optional(number),
    nodes=optional(number),
    nodelist=several(text),
    gpu_ids=several(number),
    pins=several(st.tuples(text, several(number))),
    mixed=st.booleans(),
)
specs = st.builds(
    JobSpec,
    commands,
    requests,
    name=text,
    kind=st.sampled_from(JobKind),
    time_limit_s=optional(number),
    env=st.dictionaries(text, text, max_size=3),
    chdir=text,
)
readings = st.builds(GpuReading, optional(number), text, text, text, memory_used_mib=optional(number), fault=text)
processes = st.builds(GpuProcess, number, text, user=text, age_s=optional(number), exists=st.booleans())
observations = st.builds(
    Observation, text, moment, text, text, gpus=several(readings), processes=several(processes), notes=several(text)
)
nodes = st.builds(Node, text, st.sampled_from(NodeState), since=optional(moment), observation=optional(observations))


@settings(max_examples=150, deadline=None)
@given(specs | nodes)
def test_round_trip(value):
    stored = codec.dumps(value)
    assert stored.isascii()
    assert codec.loads(type(value), stored) == value


def test_missing_keys_take_their_default_and_unknown_ones_are_passed_over():
    data = {"name": "gpu01", "of_a_newer_version": 1}
    assert codec.decode(Node, data) == Node("gpu01")


def test_a_word_that_the_enum_lacks_is_refused():
    with pytest.raises(ValueError, match="ASLEEP"):
        codec.loads(Node, json.dumps({"name": "gpu01", "state": "ASLEEP"}))
