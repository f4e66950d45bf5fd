"""The patterns of `.mgpuignore`, beside what git itself makes of the same ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.client.ignore import Ignore

TABLE = [
    ("*.pt", "a.pt", False, True),
    ("*.pt", "deep/er/a.pt", False, True),
    ("*.pt", "a.ptx", False, False),
    ("/data", "data", True, True),
    ("/data", "sub/data", True, False),
    ("data/", "sub/data", True, True),
    ("data/", "sub/data", False, False),
    ("sub/data", "sub/data", False, True),
    ("sub/data", "x/sub/data", False, False),
    ("**/cache", "a/b/cache", True, True),
    ("a/**/z", "a/z", False, True),
    ("a/**/z", "a/b/c/z", False, True),
    ("a/**", "a/b/c", False, True),
    ("a/**", "a", True, False),
    ("?.txt", "a.txt", False, True),
    ("?.txt", "ab.txt", False, False),
    ("[a-c]?", "bz", False, True),
    ("[!a-c]", "b", False, False),
    ("*", "a/b", False, True),
    ("a*z", "a/z", False, False),
    ("# note", "# note", False, False),
    ("\\# note", "# note", False, True),
    ("\\!x", "!x", False, True),
    ("trailing  ", "trailing", False, True),
    ("a.b", "axb", False, False),
    ("[", "[", False, True),
    ("*.log\n!keep.log", "keep.log", False, False),
    ("*.log\n!keep.log", "other.log", False, True),
    ("!keep.log\n*.log", "keep.log", False, True),
    ("", "a", False, False),
    ("/", "a", True, False),
]


# git takes no half of a pair of brackets, and calls a folder ignored all of which is
OUR_OWN = [("[", "[", False, True), ("a/**", "a", True, False)]


@pytest.mark.parametrize(("text", "path", "is_folder", "named"), TABLE)
def test_a_pattern(text: str, path: str, is_folder: bool, named: bool) -> None:
    assert Ignore(text).names(path, is_folder) is named


@pytest.mark.parametrize(("text", "path", "is_folder", "named"), [row for row in TABLE if row not in OUR_OWN])
def test_git_sees_it_the_same_way(tmp_path: Path, text: str, path: str, is_folder: bool, named: bool) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text(text)
    asked = f"{path}/" if is_folder else path
    found = subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", "--no-index", asked], check=False)
    assert (found.returncode == 0) is named


@given(st.text("ab/*?[]!-\\# ^&|~.\n", max_size=12), st.text("ab/.-", min_size=1, max_size=8), st.booleans())
def test_any_text_is_a_set_of_patterns(text: str, path: str, is_folder: bool) -> None:
    assert Ignore(text).names(path, is_folder) in (True, False)
