"""Rules of style that a machine can hold: sizes, names, what may never be in the tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FUNCTION_LINES = 70
FILE_LINES = 400
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
GENERIC_SINCE_3_11 = {"StreamHandler", "LoggerAdapter"}
SHELL_FUNCTION = re.compile(r"^(\w+)\(\) \{\n(?:.*\n)*?\}", re.MULTILINE)


@cache
def sources() -> list[Path]:
    """Ours: Python and shell, also where the name has no suffix (scripts/)."""
    found = [path for folder in ("mgpu", "tests", "scripts") for path in sorted((REPOSITORY / folder).rglob("*"))]
    return [path for path in found if path.is_file() and (path.suffix in (".py", ".sh") or is_script(path))]


def is_script(path: Path) -> bool:
    return not path.suffix and path.parent.name == "scripts" and path.read_bytes().startswith(b"#!")


def is_python(path: Path) -> bool:
    return path.suffix == ".py" or b"python" in path.read_bytes().split(b"\n", 1)[0]


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function, nested ones and methods too."""
    if not is_python(path):
        for found in SHELL_FUNCTION.finditer(path.read_text(encoding="utf-8")):
            yield found[1], found[0].count("\n") + 1
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_all_of_our_files_are_looked_at() -> None:
    seen = {name_of(path) for path in sources()}
    assert {"mgpu/daemon.py", "mgpu/remote/node/job/runner.sh", "scripts/test", "tests/test_tidy.py"} <= seen
    assert dict(functions(REPOSITORY / "mgpu/remote/node/job/runner.sh")).keys() >= {"run", "enter", "outputs"}


def test_no_two_files_of_tests_outside_of_a_package_have_one_name() -> None:
    """pytest takes them for one module."""
    loose = [path for path in sources() if path.name.startswith("test_") and not (path.parent / "__init__.py").exists()]
    assert sorted(path.name for path in loose) == sorted({path.name for path in loose})


def test_a_function_fits_a_screen() -> None:
    long = {
        f"{name_of(path)}: {name}": lines
        for path in sources()
        for name, lines in functions(path)
        if lines > FUNCTION_LINES
    }
    assert long == {}


def test_a_file_has_one_idea() -> None:
    sizes = {name_of(path): path.read_bytes().count(b"\n") for path in sources()}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_a_module_is_named_after_what_it_holds() -> None:
    named = [name_of(path) for path in sources() if {path.stem.strip("_"), path.parent.name} & BANNED_NAMES]
    assert named == []


def test_every_module_of_mgpu_says_its_idea() -> None:
    modules = [path for path in sources() if name_of(path).startswith("mgpu/") and is_python(path)]
    silent = [name_of(path) for path in modules if (tree := parsed(path)).body and not ast.get_docstring(tree)]
    assert silent == []


def test_nothing_is_left_for_later() -> None:
    left = [name_of(path) for path in sources() if UNFINISHED.search(path.read_text(encoding="utf-8"))]
    assert left == []


def test_nothing_takes_a_type_that_it_does_not_take_in_the_oldest_python() -> None:
    """Of 3.10: what an annotation says is not looked at when a program runs, what a class is made of is."""
    bases = [
        (name_of(path), ast.unparse(base.value).rpartition(".")[2])
        for path in sources()
        if is_python(path)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Subscript)
    ]
    assert len(bases) > 3
    assert [found for found in bases if found[1] in GENERIC_SINCE_3_11] == []


def test_the_core_neither_reads_nor_writes() -> None:
    """What needs no import, so that the import rules do not see it."""
    calls = [
        f"{name_of(path)}:{node.lineno}"
        for path in (REPOSITORY / "mgpu/core").rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("open", "print", "input", "breakpoint", "exec", "eval", "__import__")
    ]
    assert calls == []
