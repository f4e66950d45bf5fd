"""What a master remembers of jobs: looked for in all that it is made of, whoever wrote that."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

FIRST_JOB = 7_654_001  # no other number here is as large as those of jobs
_MOST = 100_000
# What is bounded by other things than the jobs that came: nodes, or a fixed number.
BOUNDED = (
    "Streak.jobs",  # of each GPU the last that failed there: three make it suspect
    "Memory",  # of the planner: nodes, and the requests of some plans
    "Judgement.well",  # the last that ended well
    "Troubles",  # the last of them
    "Changes",  # until it is too much, or somebody reads it
    "NodeLink._left",  # the last of them
    "Dispatch._gone",  # of each node the last
    "Hearing",  # of each link the last
)
SUSPECT = "failed there one after the other"  # why a GPU is; it stays so until somebody has seen to it
_Found = Iterator[tuple[str, Any]]


def memories(root: object, jobs: int) -> list[str]:
    """Where in what hangs on `root` the number of one of so many jobs stands, or a name with it."""
    numbers = range(FIRST_JOB, FIRST_JOB + jobs)
    names = tuple(str(number) for number in numbers)
    seen: dict[int, object] = {}  # kept, so that no other gets its identity
    found: list[str] = []
    left: list[tuple[str, Any]] = [("master", root)]
    while left:
        path, value = left.pop()
        if path.endswith(BOUNDED) or type(value).__name__ in BOUNDED:
            continue
        if isinstance(value, int) and value in numbers:
            found.append(path)
        elif isinstance(value, str):
            found += [path] * any(name in value for name in names if SUSPECT not in value)
        elif id(value) not in seen:
            seen[id(value)] = value
            assert len(seen) < _MOST, f"{path}: it has no end"
            left += _within(path, value)
    return sorted(set(found))


def _within(path: str, value: Any) -> _Found:
    if isinstance(value, Mapping | types.MappingProxyType):
        for key in list(value):
            yield f"{path} key", key
            yield f"{path}[]", value[key]
    elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ in ("deque", "dict_values"):
        yield from ((f"{path}[]", one) for one in list(value))
    elif isinstance(value, types.MethodType):
        yield path, value.__self__
    elif isinstance(value, types.FunctionType):
        yield from ((f"{path}()", cell.cell_contents) for cell in value.__closure__ or ())
    elif isinstance(value, partial):
        yield from ((f"{path}()", one) for one in (value.func, value.args, value.keywords))
    elif type(value).__module__.partition(".")[0] == "mgpu" and not isinstance(value, type):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*getattr(value, "__dict__", {}), *slots):
            if hasattr(value, name):
                yield f"{type(value).__name__}.{name}", getattr(value, name)
    elif type(value).__module__ == "pathlib":
        yield path, str(value)
