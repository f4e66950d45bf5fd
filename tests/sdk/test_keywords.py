from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mgpu.client.options import SWITCHES, WIRE_KEYS, job_options
from mgpu.core.timelimit import parse_time_limit
from mgpu.ops.begin import parse_begin
from mgpu.sdk.keywords import given, names_of

VALUES = [
    ({"gpus": 2}, {"gpus": "2"}),
    ({"gpus": "a100:2"}, {"gpus": "a100:2"}),
    ({"gpus": None, "nodes": 2}, {"nodes": "2"}),
    ({"time": 5400}, {"time": "0-1:30:00"}),
    ({"time": 0.5}, {"time": "0-0:00:01"}),
    ({"time": timedelta(days=1, hours=2)}, {"time": "1-2:00:00"}),
    ({"time": 0}, {"time": "0"}),
    ({"time": "90"}, {"time": "90"}),
    ({"nodelist": ["gpu01", "gpu02"]}, {"nodelist": "gpu01,gpu02"}),
    ({"gpu_ids": (0, 1)}, {"gpu_ids": "0,1"}),
    ({"node_gpu_ids": {"gpu02": [3], "gpu01": "0"}}, {"node_gpu_ids": "gpu02:3;gpu01:0"}),
    ({"array": range(100)}, {"array": "0-99"}),
    ({"array": range(9, 0, -2)}, {"array": "1-9:2"}),
    ({"array": [1, 5]}, {"array": "1,5"}),
    ({"chdir": Path("/data")}, {"chdir": "/data"}),
    ({"hold": True, "exclusive": False}, {"hold": True, "exclusive": "false"}),
    ({"distributed": True}, {"distributed": True}),
    ({"tasks_per_node": 4}, {"ntasks_per_node": "4"}),
    ({"begin": timedelta(hours=1)}, {"begin": "now+3600"}),
    ({"export": ["A", "B=1"]}, {"export": "A,B=1"}),
    ({"ship": True}, {"ship": "auto"}),
    ({"ship": False}, {}),
    ({"ship": "sub"}, {"ship": "sub"}),
]


@pytest.mark.parametrize(("keywords", "options"), VALUES)
def test_values_become_what_somebody_would_type(keywords: dict[str, Any], options: dict[str, Any]) -> None:
    assert given(keywords, "batch").options == options


def test_exported_values_may_hold_anything() -> None:
    told = given({"export": {"A": "x,y=z", "N": 3}}, "batch")
    assert told == ({}, {"A": "x,y=z", "N": "3"})


@pytest.mark.parametrize("seconds", [1, 59, 60, 3599, 86_400, 100_000, 10 * 366 * 86_400])
def test_a_number_of_seconds_is_that_limit(seconds: int) -> None:
    assert parse_time_limit(str(given({"time": seconds}, "batch").options["time"])) == seconds


def test_a_moment_is_by_the_clock_here() -> None:
    moment = datetime(2027, 3, 1, 8, 0, tzinfo=timezone.utc)
    text = str(given({"begin": moment}, "batch").options["begin"])
    assert parse_begin(text, moment.timestamp() - 60, datetime.now().astimezone().tzinfo) == moment.timestamp()


WRONG = [
    ({"gpu": 1}, "did you mean gpus"),
    ({"gputype": "A100"}, "did you mean gpu_type"),
    ({"quiet": True}, "no option of a job"),
    ({"kill_on_disconnect": 3}, "no option of a job"),
    ({"gpus": True}, "takes a value"),
    ({"gpus": object()}, "no value of an option"),
    ({"nodelist": {"a": 1}}, "no value of an option"),
    ({"time": -1}, "less than nothing"),
    ({"array": range(0)}, "no index"),
]


@pytest.mark.parametrize(("keywords", "said"), WRONG)
def test_what_is_no_option_is_a_mistake_of_the_program(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        given(keywords, "batch")


def test_every_option_of_the_table_that_the_master_is_told_is_a_keyword() -> None:
    told = {option.key for option in job_options()} & WIRE_KEYS
    assert told <= set(names_of("batch").values())
    assert set(names_of("srun").values()) >= told - {"output", "error"} | {"kill_on_disconnect", "ntasks"}
    assert {"hold", "exclusive"} <= SWITCHES  # whose False says no
