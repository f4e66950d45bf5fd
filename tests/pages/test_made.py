"""What of docs/ is made of the code is up to date, and what people wrote there agrees with the code."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgpu.cli import click_reader
from mgpu.cli.main import CLI
from mgpu.client.http import MasterError
from mgpu.core.plan import Barred
from scripts.pages import configuration
from scripts.pages.made import DOCS, made, with_table

REPOSITORY = DOCS.parent
PEOPLE_WROTE = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]


def test_it_is_up_to_date() -> None:
    """Else: scripts/docs --write."""
    stale = [name for name, text in made().items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert stale == []


def test_without_marks_nothing_is_written() -> None:
    with pytest.raises(ValueError, match="no marks"):
        with_table("a page", "keys", "| |")


def test_each_key_of_the_configuration_says_what_it_means() -> None:
    tables = [
        configuration.of_the_file(), configuration.of_a_node(), configuration.of_a_partition(),
        configuration.of_an_account(), configuration.of_limits(),
    ]  # fmt: skip
    rows = [line for table in tables for line in table.splitlines()[2:]]
    assert len(rows) > 90
    assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []


def commands_in(page: Path) -> Iterator[str]:
    """Lines that begin with a prompt, as far as they are one command of mgpu without anything that a shell adds."""
    for line in page.read_text(encoding="utf-8").splitlines():
        found = re.match(r"\s+\$ (?:.*\| )?(mgpu .*)", line)
        if found and not re.search(r"\$\(|;| \|| \.\.\.|<", found[1].partition("  #")[0].replace("'", "")):
            yield found[1].partition("  #")[0]


@pytest.mark.parametrize("page", PEOPLE_WROTE, ids=lambda page: page.name)
def test_each_command_that_is_shown_can_be_typed(page: Path) -> None:
    mistakes = []
    for line in commands_in(page):
        try:
            click_reader.read(CLI, shlex.split(line)[1:])
        except MasterError as error:
            mistakes.append(f"{line}: {error.message}")
    assert mistakes == []


def test_there_are_commands_to_look_at() -> None:
    assert len(list(commands_in(DOCS / "tutorial.md"))) > 15


def calls(folder: str, names: set[str], nth: int = 0) -> Iterator[str]:
    """That argument of each call of these, where it is a text."""
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                given = node.args[nth] if len(node.args) > nth else None
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value


def test_each_step_of_the_doctor_is_explained() -> None:
    steps = set(calls("mgpu/doctor", {"ok", "warning", "failure", "skipped", "Check"}))
    assert len(steps) > 25
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert [step for step in sorted(steps) if f"`{step}`" not in page] == []


def test_each_advice_of_the_doctor_stands_there() -> None:
    """Also where the words before it are a node's or a library's own."""
    advice = set(calls("mgpu/doctor", {"warning", "failure"}, 2))
    assert len(advice) > 15
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert [each for each in sorted(advice) if f"| {each} |" not in page] == []


def test_each_part_of_the_package_stands_in_the_map() -> None:
    parts = {path.name + "/" * path.is_dir() for path in (REPOSITORY / "mgpu").iterdir() if path.name[0] not in "._"}
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert [part for part in sorted(parts - {"py.typed"}) if f"`{part}`" not in page] == []


def test_each_file_of_the_nodes_half_stands_in_the_map() -> None:
    node = REPOSITORY / "mgpu/remote/node"
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    files = [path for path in node.glob("*/*") if path.suffix in (".sh", ".pl", ".py")]
    named = [{f"`{path.parent.name}/{path.name}`", f"`{path.parent.name}/*{path.suffix}`"} for path in files]
    assert len(files) > 20
    assert [either for either in named if not any(each in page for each in either)] == []


def test_each_reason_to_wait_is_explained() -> None:
    reasons = {*calls("mgpu/core", {"Wait"}), *(each.value for each in Barred)}
    page = (DOCS / "life-of-a-job.md").read_text(encoding="utf-8")
    table = page.partition("## Why a job waits")[2]
    assert {"Priority", "Dependency"} <= reasons
    told = {word for row in re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE) for word in row.split(", ")}
    assert reasons - told == set()
