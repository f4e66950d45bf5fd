"""Many, slow and greedy clients of the socket."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgpu.api import door
from mgpu.client import http
from tests.api.conftest import Served

NOBODY = 65534
GREEDY = """
use IO::Socket::UNIX;
$SIG{PIPE} = "IGNORE";  # who is refused may be so before all that he says was sent
my @kept;
for (1 .. $ARGV[1]) {
    my $one = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!";
    syswrite $one, "GET /v1/jobs HTTP/1.1\\r\\nHost: mgpu\\r\\n\\r\\n";
    sysread $one, my $said, 100;
    push @kept, $one;
    print((split " ", $said)[1], " ");
}
$| = 1;
print "\\n";
<STDIN>;
"""


def connected(served: Served) -> socket.socket:
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(10.0)
    one.connect(str(served.path))
    return one


@pytest.fixture
def few(served: Served, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(door, "most", lambda: 8)
    served.restart()
    return 8


def test_one_too_many_is_told_so_and_comes_in_when_another_has_gone(served: Served, few: int) -> None:
    kept = [connected(served) for _ in range(few)]
    with pytest.raises(http.MasterError, match="as many connections as it takes") as refused:
        http.raise_for_error(http.request(served.endpoint, "GET", "/v1/status"))
    assert (refused.value.code, refused.value.exit_code) == ("busy", 69)
    kept.pop().close()
    answered = False
    for _ in range(200):  # the server has to notice first
        if http.request(served.endpoint, "GET", "/v1/status").status == 200:
            answered = True
            break
    assert answered
    for one in kept:
        one.close()


def test_those_who_say_a_byte_and_those_who_read_none_hold_up_nobody(served: Served) -> None:
    for number in range(200):
        served.submit(f"{number:08}")
    slow = [connected(served) for _ in range(60)]
    for number, one in enumerate(slow):
        one.sendall(b"G" if number % 2 else b"GET /v1/jobs HTTP/1.1\r\nHost: mgpu\r\n\r\n" * 50)
    assert served.ask("GET", "/v1/status")[0] == 200
    assert len(served.ask("GET", "/v1/jobs")[1]["jobs"]) == 200
    assert served.submit("a" * 8) == 201
    for one in slow:
        one.close()


def test_without_descriptors_it_waits_and_goes_on(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.settimeout(10.0)
    highest = os.dup(waiting.fileno())
    os.close(highest)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
        with pytest.raises(OSError, match="Too many open files"):
            while True:  # below the highest there may be some left
                os.dup(waiting.fileno())
        waiting.connect(str(served.path))
        waiting.sendall(b"GET /v1/status HTTP/1.0\r\nHost: mgpu\r\n\r\n")
        for _ in range(500):
            if "cannot be taken" in caplog.text:
                break
            served.server._thread.join(0.01)
        assert "cannot be taken: Too many open files" in caplog.text
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert http.read_response(waiting).status == 200
    waiting.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Which everybody may pass through."""
    made = Path(tempfile.mkdtemp(prefix="mgpu-door-", dir="/tmp"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes somebody else")
def test_one_user_leaves_room_for_the_others(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "most", lambda: 12)
    served = Served(open_folder)
    greedy = None
    try:
        served.restart_shared()
        words = ["perl", "-e", GREEDY, str(served.path), "5"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        greedy = subprocess.Popen(words, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", **pipes)
        assert greedy.stdout is not None
        assert greedy.stdout.readline().split() == [b"200", b"200", b"200", b"503", b"503"]
        assert served.ask("GET", "/v1/status")[0] == 200
    finally:
        if greedy is not None:
            greedy.communicate()
        served.close()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes somebody else")
def test_nobody_else_reads_what_a_shared_master_keeps(open_folder: Path) -> None:
    """What they may pass through holds nothing that they may open but the socket."""
    served = Served(open_folder)
    try:
        served.restart_shared()
        served.submit("a" * 8)
        look = f"find {open_folder} ! -type s -readable -print; find {open_folder} ! -type s -writable -print"
        names = [str(path) for path in open_folder.rglob("*")]
        assert any(name.endswith("mgpu.db") for name in names)
        read = f"for one in {' '.join(names)}; do cat $one; echo x >>$one; rm -f $one; done"
        stranger: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        tried = [
            subprocess.run(["sh", "-c", script], capture_output=True, check=False, **stranger)
            for script in (look, read)
        ]
        assert [one.stdout for one in tried] == [b"", b""]
        assert sorted(str(path) for path in open_folder.rglob("*")) == sorted(names)
        assert served.ask("GET", "/v1/jobs")[0] == 200
    finally:
        served.close()


def test_who_runs_a_master_for_all_comes_in_where_it_is_full(served: Served, few: int) -> None:
    served.restart_shared()
    kept = [connected(served) for _ in range(few + 1)]
    assert served.ask("GET", "/v1/status")[0] == 200
    for one in kept:
        one.close()
