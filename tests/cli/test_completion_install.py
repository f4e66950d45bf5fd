"""mgpu completion install and uninstall, and the manual pages that come with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu import exit_status
from mgpu.cli import variables
from mgpu.cli.completion.places import advice_for_man, pages_folder, place_of
from mgpu.cli.main import CLI
from mgpu.cli.manual import EXIT_CODES, pages
from tests.cli.conftest import REPOSITORY, Ran
from tests.cli.test_readers import COMMANDS, command_of

PAGES = pages()


def all_files(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_it_says_what_it_wrote_and_once_more_is_the_same(
    mgpu: Callable[..., Ran], programs: Callable[..., None], clean_home: Path
) -> None:
    programs(alone=True, bash="", zsh="", fish="")
    first = mgpu("completion", "install")
    share = clean_home / ".local/share"
    written = all_files(share)
    assert (first.status, first.err) == (0, "")
    assert first.out.splitlines()[:4] == [
        f"{share}/bash-completion/completions/mgpu: completion for bash",
        f"{share}/zsh/site-functions/_mgpu: completion for zsh",
        f"{share}/fish/vendor_completions.d/mgpu.fish: completion for fish",
        f"{share}/man/man1: {len(CLI.table) + 1} manual pages, as of: man mgpu",
    ]
    assert f"fpath=({share}/zsh/site-functions $fpath)" in first.out.splitlines()[-1]
    assert {Path(path).name for path in written} == {"mgpu", "_mgpu", "mgpu.fish", *PAGES}
    stale = share / "man/man1/mgpu-dance.1"
    stale.write_text(written[f"{share}/man/man1/mgpu.1"])
    assert mgpu("completion", "install") == first
    assert all_files(share) == written, "and what an older version had more is gone"


def test_uninstall_takes_that_away_and_nothing_else(
    mgpu: Callable[..., Ran], programs: Callable[..., None], clean_home: Path
) -> None:
    programs(alone=True, fish="")
    mgpu("completion", "install")
    other = clean_home / ".local/share/man/man1/mgpu-mine.1"
    other.write_text("mine")
    removed = json.loads(mgpu("completion", "uninstall", "--json").out)["removed"]
    assert len(removed) == len(PAGES) + 1
    assert all_files(clean_home / ".local/share") == {str(other): "mine"}
    assert mgpu("completion", "uninstall").out == "nothing of it is installed\n"


def test_what_is_somebody_elses_is_left_alone(mgpu: Callable[..., Ran], clean_home: Path) -> None:
    place = Path(place_of("fish"))
    place.parent.mkdir(parents=True)
    place.symlink_to(clean_home / "elsewhere")
    ran = mgpu("completion", "install", "fish")
    assert (ran.status, ran.err) == (1, f"mgpu: {place} is not ours, and is left alone: move it away, then once more\n")
    assert not (clean_home / "elsewhere").exists()
    assert mgpu("completion", "install", "tcsh").status == 2


@pytest.mark.skipif(shutil.which("manpath") is None, reason="no man-db here")
@pytest.mark.parametrize("manpath", ["", "/somewhere", "/somewhere:"])
@pytest.mark.parametrize("beside", [True, False])
def test_where_man_does_not_look_it_is_said_what_makes_it_look(
    clean_home: Path, monkeypatch: pytest.MonkeyPatch, beside: bool, manpath: str
) -> None:
    folder = Path(pages_folder()).parent
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{clean_home}/.local/bin" if beside else os.environ["PATH"])
    monkeypatch.delenv("MANPATH", raising=False)
    if manpath:
        monkeypatch.setenv("MANPATH", manpath)
    script = 'manpath -q; eval "$1"; manpath -q'
    argv = ["sh", "-c", script, "sh", advice_for_man().rpartition(": ")[2]]
    before, after = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    assert str(folder) in after.split(":")
    assert (str(folder) in before.split(":")) == (advice_for_man() == "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_alone(mgpu: Callable[..., Ran], shell: str) -> None:
    ran = mgpu("completion", shell)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (REPOSITORY / f"mgpu/cli/completion/shells/mgpu.{shell}").read_text()


# --- the manual ---


def test_each_command_has_a_page_with_all_its_options() -> None:
    for names in COMMANDS:
        page = PAGES[f"mgpu-{CLI.aliases.get(names[0], names[0])}.1"]
        for option in command_of(names).options:
            for flag in option.flags:
                assert rf"\fB{flag}\fR".replace("-", r"\-") in page, (names, flag)
        assert f"mgpu\\-{CLI.aliases.get(names[0], names[0])}".replace("dial-", r"dial\-") in PAGES["mgpu.1"]


def test_every_exit_code_is_told() -> None:
    assert set(exit_status.OF_CODE.values()) <= EXIT_CODES.keys()


@pytest.mark.parametrize(
    "checker", [["mandoc", "-Tlint", "-Wwarning"], ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", "-z"]]
)
def test_they_are_sound(checker: list[str], tmp_path: Path) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(f"no {checker[0]} here")
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
        ran = subprocess.run([*checker, name], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", ""), name


def test_man_shows_them(tmp_path: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("no man here")
    (tmp_path / "mgpu-srun.1").write_text(PAGES["mgpu-srun.1"])
    environ = {**os.environ, "MANWIDTH": "80", "LANG": "C.UTF-8", "MANPAGER": "cat"}
    argv = ["man", "-l", str(tmp_path / "mgpu-srun.1")]
    shown = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout
    assert "zcat data.gz | mgpu srun -G 1 python read.py" in shown
    assert r"SIGHUP, ^\ (SIGQUIT)" in " ".join(shown.split())


def test_every_variable_that_is_read_is_told() -> None:
    """What a job is given is told in docs/launchers.md; MGPU_LOCK is of masters alone."""
    told = {name for name in variables.READ if name.startswith("MGPU_")}
    read = set()
    for path in (*(REPOSITORY / "mgpu/client").rglob("*.py"), *(REPOSITORY / "mgpu/cli").rglob("*.py")):
        if path.name != "variables.py":
            read |= set(re.findall(r'"(MGPU_[A-Z_]*[A-Z])"', path.read_text()))
    assert read - told == {"MGPU_JOB_ID", "MGPU_LOCK"}
