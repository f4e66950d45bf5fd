"""A job's options as Python's keywords: the long names of the command line, from its own table, with Python's
values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from functools import cache
from math import ceil
from numbers import Real
from typing import Any, NamedTuple

from mgpu.client.options import KILL_ON_DISCONNECT, LAUNCHERS_IN_SHORT, OF_SUBMIT, SHIP_AROUND, SWITCHES, job_options
from mgpu.client.submission import wire_keys

# These are read here: none of them is told to the master under its own name.
_READ_HERE = {"export", "ship", *LAUNCHERS_IN_SHORT}


class Given(NamedTuple):
    """`options` as the command line would have them; `env`: variables that go along with these values."""

    options: dict[str, Any]
    env: dict[str, str]


def given(keywords: Mapping[str, Any], kind: str) -> Given:
    """Raises TypeError for a keyword that is no option of a job, or a value that none can have."""
    names = names_of(kind)
    options: dict[str, Any] = {}
    env: dict[str, str] = {}
    for name, value in keywords.items():
        if name not in names:
            raise TypeError(_unknown(name, names))
        key = names[name]
        if value is None or (key == "ship" and value is False):
            continue
        if key == "export" and isinstance(value, Mapping):
            env = {str(variable): str(told) for variable, told in value.items()}
        else:
            try:
                options[key] = text_of(key, value)
            except (ValueError, OverflowError) as error:  # not a number, or a year of no calendar
                raise TypeError(f"{key}={value!r}: {error}") from error
    return Given(options, env)


@cache
def names_of(kind: str) -> Mapping[str, str]:
    """Every long name of an option that means something to such a job, and its key."""
    wanted = wire_keys(kind) | _READ_HERE | ({"each_line"} if kind == "batch" else set())
    table = [option for option in job_options(*OF_SUBMIT, KILL_ON_DISCONNECT) if option.key in wanted]
    longs = {flag[2:]: option.key for option in table for flag in option.flags if flag.startswith("--")}
    extra = {"ntasks": "ntasks"} if "ntasks" in wanted else {}
    return {flag.replace("-", "_"): key for flag, key in longs.items()} | extra


def text_of(key: str, value: Any) -> str | bool:
    """As somebody would type it. Numbers of seconds for `time`; a list where the option takes one."""
    if isinstance(value, bool):
        if key in SWITCHES:
            return value or "false"  # what the user's own file switches on is off, then
        if key == "ship":
            return SHIP_AROUND
        raise TypeError(f"{key}={value!r}: it takes a value, and is no switch")
    if key == "time" and isinstance(value, int | float | timedelta):
        return time_limit(value)
    if isinstance(value, timedelta):
        seconds = ceil(value.total_seconds())
        return f"now+{seconds}" if key == "begin" else str(seconds)
    if isinstance(value, datetime):
        return value.astimezone().replace(tzinfo=None).isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    return _words(key, value)


def _words(key: str, value: Any) -> str:
    if isinstance(value, str | Real | os.PathLike):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, range):
        return _indices(value)
    if isinstance(value, Mapping) and key == "node_gpu_ids":
        return ";".join(f"{node}:{_words(key, gpus)}" for node, gpus in value.items())
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return ",".join(str(one) for one in value)
    raise TypeError(f"{key}={value!r}: {type(value).__name__} is no value of an option")


def _indices(value: range) -> str:
    if not len(value):
        raise TypeError(f"{value!r} holds no index")
    if value.step < 0:
        value = value[::-1]
    return f"{value[0]}-{value[-1]}" + (f":{value.step}" if value.step > 1 else "")


def time_limit(value: float | timedelta) -> str:
    """Slurm's D-H:M:S, of seconds; 0 = no limit."""
    seconds = ceil(value.total_seconds() if isinstance(value, timedelta) else value)
    if seconds < 0:
        raise TypeError(f"time={value!r}: less than nothing")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours // 24}-{hours % 24}:{minute:02}:{second:02}" if seconds else "0"


def _unknown(name: str, names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(names), n=1)
    said = f": did you mean {near[0]}?" if near else "; `mgpu submit --help` lists them, by their long names"
    return f"{name!r} is no option of a job{said}"
