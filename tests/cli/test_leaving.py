"""How a command ends: at once, but with all said; whatever its standard streams are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """`mgpu` in the line is ours."""
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    script = f'mgpu() {{ "{sys.executable}" -m mgpu "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_all_is_said_into_a_pipe() -> None:
    ran = shell("mgpu --help | tail -n 1")
    assert ran.stdout.strip()
    assert ran.stderr == ""


def test_a_full_disk_is_told_in_one_line() -> None:
    ran = shell("mgpu --help >/dev/full")
    assert (ran.returncode, ran.stderr) == (1, "mgpu: system: No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_else(closed: str) -> None:
    said = shell("mgpu --version").stdout
    ran = shell(f"mgpu --version {closed}")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == ("" if ">&-" in closed.replace("2>&-", "") else said)
    assert shell(f"mgpu nosuch {closed}").returncode == 2


def test_what_is_to_be_done_at_exit_is_done() -> None:
    code = "import atexit; atexit.register(print, 'done'); from mgpu.cli.main import main; main(['--version'])"
    ran = shell(f'"{sys.executable}" -c "{code}"')
    assert ran.stdout.splitlines()[1:] == ["done"]
