"""The keys of the configuration, with what the models of mgpu.config say of them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from math import inf
from typing import Any

from mgpu.config import node_schema, schema
from mgpu.config.section import Section
from scripts.pages.table import code, table

UNITS = {
    "Seconds": "s", "SecondsOrNever": "s", "Age": "s", "SamplesS": "s", "LimitS": "min", "PlanningS": "min",
    "SizeBytes": "bytes", "Hours": "h",
}  # fmt: skip
# by the annotation, what may be written
KINDS = {
    "Count": "number", "Whole": "number", "Port": "port", "PortRange": "ports", "Hours": "number",
    "bool": "true, false", "Name": "name", "Names": "names", "Login": "login", "Logins": "logins",
    "Users": "logins by login", "Group": "group", "Policy": "name", "Jump": "hosts", "Events": "names",
    "Words": "command", "Environment": "texts by name", "LocalPath": "path", "KeyFile": "path",
    "RemotePath": "path there", "Program": "path there", "ListenHost": "address", "Maintenance": "windows",
    "Seconds": "time", "SecondsOrNever": "time", "Age": "time", "SamplesS": "time", "LimitS": "time limit",
    "PlanningS": "time limit", "SizeBytes": "size", "str": "text", "Any": "", "External": "keys",
    "LimitsOf": "limits", "Privacy": "full, names, none",
}  # fmt: skip
HEADERS = ("key", "what", "unit", "default", "meaning")


@cache
def _sources() -> dict[str, ast.ClassDef]:
    trees = [ast.parse(inspect.getsource(module)) for module in (schema, node_schema)]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def _own_fields(name: str) -> dict[str, tuple[str, str]]:
    """key -> (annotation, meaning), as they stand in the source."""
    found: dict[str, tuple[str, str]] = {}
    body = _sources()[name].body
    for place, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            behind = body[place + 1] if place + 1 < len(body) else None
            said = behind.value if isinstance(behind, ast.Expr) else None
            meaning = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
            found[node.target.id] = ast.unparse(node.annotation), " ".join(meaning.split())
    return found


def fields(model: type[Section]) -> dict[str, tuple[str, str]]:
    """Those of the model's parents come first."""
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, Section) and each is not Section:
            found.update(_own_fields(each.__name__))
    return found


def rows(model: type[Section], prefix: str = "", whole: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
    """`whole`: sections that are not taken apart."""
    for key, (annotation, meaning) in fields(model).items():
        section = _section_of(annotation)
        if section is not None and key not in whole and section is not schema.LimitsOf:
            yield from rows(section, f"{prefix}{key}.", whole)
        else:
            text, _, said = meaning.partition(" Default: ")
            default = said.removesuffix(".") if said else _default(model, key)
            yield code(f"{prefix}{key}"), _kind(annotation), _unit(key, annotation), default, text.removesuffix(".")


def _section_of(annotation: str) -> type[Section] | None:
    found = getattr(schema, annotation.removesuffix(" | None"), None) or getattr(node_schema, annotation, None)
    return found if isinstance(found, type) and issubclass(found, Section) else None


def _words(annotation: str) -> list[str]:
    return re.findall(r"\w+", annotation.removesuffix(" | None"))


def _kind(annotation: str) -> str:
    if annotation.startswith("Literal"):
        return ", ".join(re.findall(r"'([^']+)'", annotation))
    if annotation.startswith("dict"):
        return "keys by name"
    if "list[" in annotation:
        return "list"
    return next((KINDS[word] for word in _words(annotation) if word in KINDS), "")


def _unit(key: str, annotation: str) -> str:
    if key.endswith("_mib"):
        return "MiB"
    return next((UNITS[word] for word in _words(annotation) if word in UNITS), "")


def _default(model: type[Section], key: str) -> str:
    value = model.model_fields[key].default
    annotation = fields(model)[key][0]
    unit = next((word for word in _words(annotation) if word in UNITS), "")
    if value is None and unit == "LimitS":
        return code("none")
    if value is None or value in ("", [], {}, ()):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    if UNITS.get(unit) in ("s", "min"):
        return code(_time(value))
    if unit == "SizeBytes":
        return code(_size(value))
    return code(str(value))


def _time(value: Any) -> str:
    if value == inf:
        return "none"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if value and value % seconds == 0:
            return f"{value / seconds:.0f}{unit}"
    return f"{value:g}s"


def _size(value: int) -> str:
    for unit, size in (("G", 1 << 30), ("M", 1 << 20)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value) if value else "none"


def of_the_file() -> str:
    return table(HEADERS, rows(schema.Settings))


def of_a_node() -> str:
    first = ("node_id", "hostname", "ip")
    found = list(rows(node_schema.NodeEntry, whole=frozenset({"external"})))
    ahead = [row for row in found if row[0].strip("`") in first]
    return table(HEADERS, [*ahead, *(row for row in found if row not in ahead)])


def of_a_partition() -> str:
    return table(HEADERS, rows(schema.Partition))


def of_limits() -> str:
    return table(HEADERS, rows(schema.LimitsOf))


def of_an_account() -> str:
    return table(HEADERS, rows(schema.Account))
