"""What each step of the doctor may say, and its advice, read off the code that says it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from mgpu.doctor.walk import WALK
from scripts.pages.table import table

DOCTOR = Path(__file__).parents[2] / "mgpu/doctor"
SAYS = {"warning": "warning", "failure": "failure"}
VALUE = "…"
Assigned = dict[str, dict[int, ast.expr]]
Said = tuple[str, str, str, str]  # step, status, words, advice


def page() -> str:
    """A table, in the order of the walk; values that differ stand as `…`."""
    order = [check.name for check in WALK]
    rows = sorted({row for path in sorted(DOCTOR.glob("*.py")) for row in _said_in(path)}, key=lambda row: (
        order.index(row[0]) if row[0] in order else -1, row,
    ))  # fmt: skip
    return table(("step", "", "words", "what to do"), ((f"`{step}`", *rest) for step, *rest in rows))


def _said_in(path: Path) -> Iterator[Said]:
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            names = _assigned(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYS:
                    yield from _rows(node, SAYS[node.func.id], names)


def _assigned(function: ast.FunctionDef) -> Assigned:
    """What its names are given, by line."""
    found: Assigned = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, {})[node.lineno] = node.value
    return found


def _rows(call: ast.Call, status: str, names: Assigned) -> Iterator[Said]:
    """Where words and advice are both chosen before, they belong together one by one; else what was chosen last."""
    if len(call.args) < 3 or not isinstance(call.args[0], ast.Constant):
        return
    words, advice = (_before(each, call.lineno, names) for each in call.args[1:3])
    if len(words) != len(advice) or len(words) == 1:
        words, advice = words[-1:], advice[-1:]
    for said, told in zip(words, advice, strict=True):
        for text in _texts(said, call.lineno, names):
            hint = " / ".join(_texts(told, call.lineno, names))
            if f"{text}{hint}".strip(f"{VALUE}:; /"):
                yield str(call.args[0].value), status, text.replace(VALUE * 2, VALUE), _shown(hint)


def _before(node: ast.expr, line: int, names: Assigned) -> list[ast.expr]:
    """All that it was given above that line, or itself."""
    node = node.left if isinstance(node, ast.BinOp) else node
    given = names.get(node.id, {}) if isinstance(node, ast.Name) else {}
    return [value for at, value in sorted(given.items()) if at < line] or [node]


def _texts(node: ast.expr, line: int, names: Assigned) -> list[str]:
    """What it can be, as far as that stands in the code."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else [VALUE]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(each.value) if isinstance(each, ast.Constant) else VALUE for each in node.values)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body, line, names), *_texts(node.orelse, line, names)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _texts(node.left, line, names)
    if isinstance(node, ast.BoolOp):
        return [text for each in node.values for text in _texts(each, line, names)]
    if isinstance(node, ast.Name) and (above := _before(node, line, names)) != [node]:
        return _texts(above[-1], line, {})
    return [VALUE]


def _shown(text: str) -> str:
    return "" if text == VALUE else text.replace(VALUE * 2, VALUE)
