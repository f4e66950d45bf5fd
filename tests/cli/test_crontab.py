"""The crontab: our lines as any cron reads them, and nobody else's touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.cli.service import cron
from mgpu.cli.service.cron import Entry
from mgpu.cli.service.master_line import MasterLine
from mgpu.client.http import MasterError
from tests.cli.conftest import Ran
from tests.cli.stand_ins import CRONTAB, LINE, NASTY

Command = Callable[..., Ran]


def as_cron_reads(line: str) -> str:
    """The command of a line, as cronie takes it: % ends it, unless a backslash is before it; that goes."""
    command = line if line.startswith("@") else line.split(" ", 5)[5]
    command = command.partition(" ")[2] if line.startswith("@") else command
    found, escaped = "", False
    for letter in command:
        if escaped:
            found = found[:-1] + letter if letter in "%\\" else found + letter
            escaped = False
        elif letter == "%":
            break
        else:
            escaped = letter == "\\"
            found += letter
    return found


def as_run(command: str) -> list[str]:
    """The words that Python is given, at the end of it all."""
    shown = 'printf "%s\\n" "$0" "$@"'
    _, _, rest = command.partition(" && ")
    words = rest.partition(" >")[0]
    ran = subprocess.run(["/bin/sh", "-c", f"set -- {words}; {shown}"], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()[1:]


@pytest.mark.parametrize("tick", [False, True])
@pytest.mark.parametrize("place", ["/var/lib/mgpu", NASTY, "/a%", "%b", "/c\\", "/ü ber"])
def test_every_cron_takes_a_line_as_it_is_meant(tick: bool, place: str) -> None:
    line = MasterLine("/usr/bin/python3", "", f"{place}/c.yaml", place)
    wanted = line.words("tick") if tick else line.words("daemon", "--ensure")
    _, *lines, _ = cron.render(Entry(line, tick)).splitlines()
    assert len(lines) == (1 if tick else 2)
    for each in lines:
        assert "%" not in each  # busybox knows no escape for it
        command = as_cron_reads(each)
        assert each.endswith(command)
        assert as_run(command) == wanted


TABLES = [
    b"",
    b"# mine\nMAILTO=me\n*/5 * * * * /usr/bin/true %a\n",
    b"SHELL=/bin/fish\r\n\r\n@daily x\n\n\n",
    b"* * * * * \xff\xfe\n",
    b"* * * * * no end of line",
]


@pytest.mark.parametrize("table", TABLES)
def test_all_else_stays_byte_for_byte(table: bytes) -> None:
    other = LINE._replace(state_dir="/var/lib/mgpu-2")
    once = cron.with_entry(table, Entry(LINE, False))
    assert once.endswith(table)
    assert cron.with_entry(once, Entry(LINE, False)) == once
    both = cron.with_entry(once, Entry(other, True))
    assert cron.lines_of(both, "/var/lib/mgpu-2")[0].startswith("* * * * * cd / && ")
    assert cron.without(both, other.state_dir) == once
    assert cron.without(cron.without(both, LINE.state_dir), other.state_dir) == table


def test_marks_without_their_end_are_not_guessed_at() -> None:
    table = cron.with_entry(b"x\n", Entry(LINE, False)).replace(cron.end_mark(LINE.state_dir).encode(), b"")
    with pytest.raises(MasterError, match="is missing") as caught:
        cron.without(table, LINE.state_dir)
    assert caught.value.hint == "remove the lines of mgpu by hand: crontab -e"


def test_a_line_that_no_cron_would_take() -> None:
    with pytest.raises(MasterError, match="longer than"):
        cron.render(Entry(LINE._replace(config="/" + "x" * 1000), False))


def test_passes_of_tick_are_installed_and_taken_away(
    programs: Callable[..., None], clean_home: Path, mgpu: Command
) -> None:
    programs(crontab=CRONTAB)
    table = clean_home / "crontab"
    table.write_bytes(TABLES[1])
    shown = mgpu("service", "install", "cron", "--tick", "--print")
    assert table.read_bytes() == TABLES[1]
    done = mgpu("service", "install", "cron", "--tick")
    assert done.status == 0
    assert table.read_bytes() == shown.out.encode() + TABLES[1]
    assert "your crontab has it: each minute a pass of mgpu tick" in done.out
    assert (clean_home / ".local/state/mgpu").stat().st_mode & 0o777 == 0o700  # its log goes there
    told = mgpu("service", "status")
    assert told.status == 0
    assert told.out.startswith("crontab: * * * * * cd / && ")
    assert mgpu("service", "uninstall").status == 0
    assert table.read_bytes() == TABLES[1]
    assert mgpu("service", "uninstall", "cron").status == 1


def test_a_crontab_of_our_lines_alone_is_removed(
    programs: Callable[..., None], clean_home: Path, mgpu: Command
) -> None:
    programs(crontab=CRONTAB)
    assert mgpu("service", "install", "cron", "--tick").status == 0
    assert mgpu("service", "uninstall", "cron").status == 0
    assert not (clean_home / "crontab").exists()


def test_where_there_is_no_crontab_to_be_had(programs: Callable[..., None], mgpu: Command) -> None:
    programs(crontab="#!/bin/sh\necho 'You (me) are not allowed to use this program (crontab)' >&2; exit 1\n")
    line = mgpu("service", "install", "cron", "--tick").err
    assert line.startswith("mgpu: crontab refuses: You (me) are not allowed to use this program (crontab): ")
    programs(alone=True, crontab=CRONTAB)
    (Path(os.environ["PATH"]) / "crontab").unlink()
    line = mgpu("service", "install", "cron", "--tick").err
    assert line.startswith("mgpu: there is no crontab program here: ")
    assert line.count("\n") == 1
