"""A plain command line is read as click reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.cli import click_reader, plain
from mgpu.cli.main import CLI
from mgpu.cli.syntax import GLOBAL_OPTIONS, Command, Group, Option, Reading
from mgpu.client.http import MasterError

FOUND = {name: CLI.get(name) for name in [*CLI.table, *CLI.aliases]}
COMMANDS = [
    [name, *below]
    for name, found in FOUND.items()
    for below in ([[each] for each in found.table] if isinstance(found, Group) else [[]])
]
VALUES = ["", "1", "0", "17", "x", "a b", "-", "-1", "--", "-G", "job", "node", "1=2", "ä", "--json", "-G2", "=3", "٣"]


def said(reading: Reading) -> tuple[Command, dict[str, Any], dict[str, Any]]:
    given = dict(reading.given)
    words = given.pop("words", None)
    return reading.command, {**given, **({"words": (words.words, words.dashed)} if words else {})}, reading.common


def command_of(names: list[str]) -> Command:
    found: Any = CLI
    for name in names:
        found = found.get(name)
    assert isinstance(found, Command)
    return found


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Options of the command, sound and not, in all their forms, between words of all kinds."""
    names = draw(st.sampled_from(COMMANDS))
    options: list[Option] = [*command_of(names).options, *GLOBAL_OPTIONS]
    pieces: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        flag = draw(st.sampled_from([flag for option in options for flag in option.flags]))
        value = draw(st.sampled_from(VALUES))
        forms = [[flag], [flag, value], [f"{flag}={value}"], [f"{flag}{value}"], [value], ["--help"]]
        pieces += draw(st.sampled_from(forms))
    before = draw(st.sampled_from([[], [], ["--json"], ["--config", "f"], ["-v"]]))
    return [*before, *names, *pieces]


@settings(max_examples=600, deadline=None)
@given(lines())
def test_what_plain_reads_click_reads_alike(line: list[str]) -> None:
    try:
        reading = plain.read(CLI, line)
    except MasterError as refused:
        with pytest.raises(MasterError, match=re.escape(refused.message)):
            click_reader.read(CLI, line)
        return
    if reading is not None:
        other = click_reader.read(CLI, line)
        assert isinstance(other, Reading)
        assert said(reading) == said(other)


PLAIN = [
    "queue",
    "queue --me --json",
    "--json queue -u x --states=PENDING",
    "srun -G 2 -Q -t 5 python --help",
    "srun -G2 --export A=1 --export B -I -- x -y",
    "submit --gpus=2 run.sh",
    "logs -f 17 --rank 0",
    "cancel 17 18",
    "show job 17",
    "attach --tail 3 17",
    "logs -f -n 3 --since 10m 17 18",
    "signal -b 17 18 USR1",
    "cancel -s USR1 17",
    "wait --status-file end.json 17",
    "srun --kill-on-disconnect=9 --request-id k --rank 1 x",
    "node probe n1",
    "--config c nodes -v",
]


@pytest.mark.parametrize("line", PLAIN)
def test_everyday_lines_are_plain(line: str) -> None:
    assert plain.read(CLI, line.split()) is not None


NOT_PLAIN = [
    "",
    "--help",
    "queue --help",
    "queu",
    "srun -QG 2 x",
    "queue -u",
    "queue x",
    "attach",
    "--version",
]


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_the_rest_is_for_click(line: str) -> None:
    assert plain.read(CLI, line.split()) is None


def test_click_reads_what_plain_does_not() -> None:
    reading = click_reader.read(CLI, ["srun", "-QlG2", "--", "x"])
    assert isinstance(reading, Reading)
    assert (reading.given["quiet"], reading.given["label"], reading.given["gpus"]) == (True, True, "2")
    assert reading.given["words"].words == ["x"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("history -n 0", "'0' is no whole number from 1 to 999999999"),
        ("audit -n 1000000000", "'1000000000' is no whole number from 1 to 999999999"),
        ("logs 1 --rank -1", "'-1' is no whole number from 0 to 999999999"),
        ("node add n --port 65536", "'65536' is no whole number from 1 to 65535"),
        ("top --web --port 99999", "'99999' is no whole number from 0 to 65535"),
    ],
)
def test_whole_numbers_have_bounds_that_both_know(line: str, told: str) -> None:
    assert plain.read(CLI, line.split()) is None
    with pytest.raises(MasterError, match=told):
        click_reader.read(CLI, line.split())


def test_a_mistake_before_the_command_keeps_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MasterError, match="no such option"):
        click_reader.read(CLI, ["queue", "--nothing"])
