"""What --help says fits a terminal as narrow as they come, and shows how it is typed."""

from __future__ import annotations

import pytest

from mgpu.cli import click_reader
from mgpu.cli.main import CLI
from mgpu.cli.syntax import Group
from tests.cli.test_readers import COMMANDS

GROUPS = [[], *([name] for name in CLI.table if isinstance(CLI.get(name), Group))]


@pytest.mark.parametrize("names", [*GROUPS, *COMMANDS], ids=" ".join)
def test_help_fits_80_columns_and_ends_with_examples(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert click_reader.read(CLI, [*names, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Usage: ")
    assert [line for line in told.splitlines() if len(line) > 80] == []
    assert "\nExample" in told
