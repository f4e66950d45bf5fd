"""mgpu top before there is a screen: what it needs, and a master that is not there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.peer import Peer

REPOSITORY = Path(__file__).parents[2]


def on_a_terminal(*words: str) -> tuple[int, str]:
    """Exit status, and all that was written there."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm"}
    line = [sys.executable, "-m", "mgpu", *words]
    process = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    written = bytearray()
    try:
        while data := os.read(ours, 1 << 16):
            written += data
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return process.wait(60), written.decode()


def test_without_a_terminal_it_says_so(peer: Peer, mgpu: Callable) -> None:
    ran = mgpu("top")
    assert ran == (2, "", "mgpu: top needs a terminal: mgpu queue and mgpu nodes tell the same to a file or a pipe\n")


def test_a_theme_that_is_not_known(peer: Peer, mgpu: Callable) -> None:
    ran = mgpu("top", "--theme", "pink")
    assert ran == (2, "", "mgpu: --theme 'pink' is not known: one of dark, light, colour-blind, plain\n")


def test_a_master_that_never_was_there_is_told_in_a_line(tmp_path: Path) -> None:
    status, written = on_a_terminal("--master", str(tmp_path / "none.sock"), "top")
    assert status == 69
    assert written.startswith("mgpu: no master answers at ")
    assert written.count("\n") == 1 and "\x1b" not in written


@pytest.mark.parametrize(("code", "status"), [("not_allowed", 77), ("other_version", 69)])
def test_a_refusal_is_told_before_there_is_a_screen(peer: Peer, code: str, status: int) -> None:
    peer.answers["GET", "/v1/status"] = (403, {"error": {"code": code, "message": "not you", "hint": "ask"}}, {})
    found, written = on_a_terminal("--master", peer.path, "top")
    assert (found, written) == (status, "mgpu: not you: ask\r\n")
