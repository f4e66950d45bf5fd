"""Whether a master that was told to end is gone."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.cli.stop import lives
from tests.remote.conftest import wait_until

EXIT = {"x86_64": 60, "aarch64": 93}  # of the one thread that calls it
WITHOUT_ITS_FIRST_THREAD = """
import ctypes, sys, threading
threading.Thread(target=lambda: (print(flush=True), sys.stdin.read())).start()
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)
"""


def test_one_that_nobody_has_waited_for_is_gone() -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert lives(process.pid)
    process.kill()
    wait_until(lambda: not lives(process.pid), "its end")
    assert process.returncode is None
    assert process.wait() and not lives(process.pid)
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.skipif(platform.machine() not in EXIT, reason="the number of that call is not known")
def test_one_whose_last_thread_has_not_ended_lives() -> None:
    words = [sys.executable, "-c", WITHOUT_ITS_FIRST_THREAD, str(EXIT[platform.machine()])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text("latin-1").rpartition(") ")[2][:1] == "Z", "the end of its first thread")
        assert lives(process.pid)
        process.kill()
    assert not lives(process.pid)
