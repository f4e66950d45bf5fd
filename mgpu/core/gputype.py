"""Which GPUs a `--gpu-type` means.

The *kind* of a device is the inventory's gpu_type, or else the name that nvidia-smi gives. A wanted type is compared
with the inventory's value first (equality), then with whole words of labels and names: `A10` is never an A100. Where
one matching name only adds words to another (RTX 3090 and RTX 3090 Ti), the plain one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mgpu.core.errors import RequestError
from mgpu.core.plan import DeviceView, NodeView

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
# Drivers before 470 leave the maker out: the same card must not be of two kinds.
_MAKER = "nvidia"


@dataclass(frozen=True, slots=True)
class KnownType:
    """A kind that the cluster has. `label` is shown to people, `key` compared; `names` are what it may be called."""

    key: str
    label: str
    from_inventory: bool
    names: tuple[Words, ...]


@lru_cache(maxsize=1024)
def words(text: str) -> Words:
    return tuple(word for word in _WORD.findall(text.casefold()) if word != _MAKER)


def kind_of(device: DeviceView) -> str:
    """The key of a device's kind; "" if nobody knows what it is."""
    return _kind(device.kind, device.name)


@lru_cache(maxsize=1024)  # asked for every device of every plan
def _kind(kind: str, name: str) -> str:
    return kind.strip().casefold() or " ".join(words(name))


def known_types(nodes: Iterable[NodeView]) -> tuple[KnownType, ...]:
    """All kinds in the order of the inventory, those of nodes never seen included where the inventory names them."""
    found: dict[str, KnownType] = {}
    for node in nodes:
        if node.gpu_type:
            _add(found, node.gpu_type.strip().casefold(), node.gpu_type, True, ())
        for device in node.devices:
            names = (words(device.name),) if device.name else ()
            if key := kind_of(device):
                _add(found, key, device.kind or device.name, bool(device.kind), names)
    return tuple(found.values())


def _add(found: dict[str, KnownType], key: str, label: str, from_inventory: bool, names: tuple[Words, ...]) -> None:
    old = found.get(key)
    called = (*((words(label),) if from_inventory else ()), *names)
    if old is None:
        found[key] = KnownType(key, label, from_inventory, called)
    elif not set(called) <= set(old.names):
        found[key] = KnownType(
            key, old.label, old.from_inventory or from_inventory, tuple(dict.fromkeys(old.names + called))
        )


def match(wanted: str, types: Sequence[KnownType]) -> tuple[KnownType, ...]:
    """The kinds that `wanted` (one alternative) may mean: none, one, or several (ambiguous)."""
    key = wanted.strip().casefold()
    for known in types:
        if known.from_inventory and known.key == key:
            return (known,)
    asked = words(wanted)
    matched = {known: [name for name in known.names if _contains(name, asked)] for known in types}
    matched = {known: names for known, names in matched.items() if names}
    plain = {name for names in matched.values() for name in names}
    return tuple(
        known
        for known, names in matched.items()
        if any(not any(_extends(name, other) for other in plain) for name in names)
    )


def accepted_kinds(wanted: Sequence[str], types: Sequence[KnownType]) -> frozenset[str] | None:
    """Keys of the kinds that a job takes; None = it takes any."""
    if not wanted:
        return None
    return frozenset(known.key for alternative in wanted for known in match(alternative, types))


def parse_types(text: str) -> tuple[tuple[str, ...], bool]:
    """`A100|H100` -> alternatives; `any` -> ((), True): kinds may differ within the job."""
    alternatives = tuple(dict.fromkeys(part.strip() for part in text.split("|")))
    if not all(alternatives) or any(not part.isprintable() for part in alternatives):
        raise RequestError(f"--gpu-type '{text[:60]!s}' has an empty part: write A100, or A100|H100 for alternatives")
    if any(part.lower() == "any" for part in alternatives):
        if len(alternatives) > 1:
            raise RequestError("--gpu-type: 'any' stands alone: it already allows every type")
        return (), True
    return alternatives, False


def check_types(wanted: Sequence[str], nodes: Sequence[NodeView]) -> list[str]:
    """Notices about alternatives that no node has. Raises RequestError for an ambiguous type or one nobody has.

    A node that was never seen and has no gpu_type in the inventory may have anything: then nothing is unknown.
    """
    types = known_types(nodes)
    absent = []
    for alternative in wanted:
        meant = match(alternative, types)
        if len(meant) > 1:
            labels = [known.label for known in meant]
            raise RequestError(
                f"--gpu-type '{alternative}' is ambiguous, it may be: {', '.join(labels)}",
                f"name one, or allow several: --gpu-type '{'|'.join(labels)}'",
            )
        if not meant:
            absent.append(alternative)
    if not absent or any(not node.devices and not node.gpu_type for node in nodes):
        return []
    if len(absent) == len(wanted):
        raise RequestError(no_such_type(wanted, types))
    return [f"no GPU here is of type {alternative}" for alternative in absent]


def no_such_type(wanted: Sequence[str], types: Sequence[KnownType]) -> str:
    there = ", ".join(known.label for known in types) or "none that are known yet"
    return f"no GPU here is of type {' or '.join(wanted)}; the types are: {there}"


def _contains(name: Words, asked: Words) -> bool:
    size = len(asked)
    return size > 0 and any(name[start : start + size] == asked for start in range(len(name) - size + 1))


def _extends(name: Words, other: Words) -> bool:
    return len(name) > len(other) and name[: len(other)] == other
