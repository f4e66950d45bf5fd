"""The way through ssh, with a stand-in for that program: it is found in PATH, says what it was asked, and runs the
command that it is given here, in a home where the launcher stands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from mgpu.client import dial, http
from mgpu.client.dial import Dialer
from mgpu.client.head import LAUNCHER, parse_head
from mgpu.client.launcher import leave_launcher
from mgpu.client.locate import Location
from mgpu.client.master import Master
from tests.client.peer import Peer

REPOSITORY = Path(__file__).parents[2]
SSH = """\
#!/bin/sh
case " $* " in *" -G "*) cat "$SSH_SETTINGS"; exit;; esac
for last; do echo "$last"; done >"$SSH_SAID.$$"
mv "$SSH_SAID.$$" "$SSH_SAID.$(ls "$SSH_SAID".* | wc -l)"
exec /bin/sh -c "$last"
"""


class Stand:
    """`asked()`: the words of each ssh so far."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.settings = folder / "settings"
        self.settings.write_text("user me\nhostname head\nport 22\n")
        self.launcher = home / LAUNCHER
        self.folder = folder

    def asked(self) -> list[list[str]]:
        files = sorted(self.folder.glob("said.*"), key=lambda file: int(file.suffix[1:]))
        return [file.read_text().splitlines() for file in files]

    def program(self, text: str) -> None:
        self.launcher.write_text(f"#!/bin/sh\n{text}\n")


@pytest.fixture
def stand(tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand(tmp_path, clean_home)
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_SETTINGS", str(made.settings))
    monkeypatch.setenv("SSH_SAID", str(tmp_path / "said"))
    leave_launcher()
    return made


@pytest.fixture
def there(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """The master, where the command that ssh runs looks for it."""
    monkeypatch.setenv("MGPU_MASTER", str(tmp_path / "m.sock"))
    return Peer(tmp_path / "m.sock")


def endpoint(dialer: Dialer) -> http.Endpoint:
    return http.Endpoint("ssh://head", None, (), dialer)


def told(begin: str) -> str:
    """A program that says that first."""
    return f'for mark; do :; done; printf "\\nmgpu-%s %s\\n" "$mark" {shlex.quote(begin)}; exec cat'


def test_one_ssh_for_requests_and_none_that_was_closed(stand: Stand, there: Peer) -> None:
    with there, closing(Dialer(parse_head("ssh://me@head"))) as dialer:
        master = Master(Location("", "", endpoint(dialer), False))
        answer = master.call("GET", "/v1/status")
        # this master closes the connection behind its answer: sooner or later that is seen, and another one is made
        assert master.call("GET", "/v1/status") == answer
    assert len(stand.asked()) == 2
    assert {headers.get("x-mgpu-config") for _, _, headers, _ in there.requests} == {None}


def test_noise_before_the_first_line(stand: Stand, there: Peer) -> None:
    python = shlex.quote(sys.executable)
    noise = "head -c 300000 /dev/zero | tr '\\\\0' x; printf 'mgpu-abc {}'"
    stand.program(f'{noise}; PYTHONPATH={shlex.quote(str(REPOSITORY))} exec {python} -m mgpu "$@"')
    with there, closing(Dialer(parse_head("ssh://head"))) as dialer:
        assert http.request(endpoint(dialer), "GET", "/v1/status").status == 200


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo This account is not available; exit 1", "let us in, but mgpu did not answer there"),
        (told('{"wire": 2, "version": "9.9"}'), "version 9.9"),
        (told("something"), "what is not ours: something"),
        (told('{"wire": 1, "version": "1", "error": {"message": "a\\nb", "hint": "c"}}'), "head: a; b"),
        ("exec cat /dev/zero", "let us in, but mgpu did not answer there"),
    ],
)
def test_a_first_line_that_is_none_of_ours(stand: Stand, program: str, words: str) -> None:
    stand.program(program)
    with pytest.raises(http.NoMaster) as caught:
        Dialer(parse_head("ssh://head")).connect()
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def options(stand: Stand, **given: float) -> list[str]:
    """Those of ssh, once `settings` stand."""
    stand.program("exit 1")
    dialer = Dialer(parse_head("ssh://me@head:2222"))
    dialer.timeout_s = given.get("timeout_s")
    with pytest.raises(http.NoMaster):
        dialer.connect()
    return stand.asked()[-1]


def test_what_ssh_config_says_is_left_as_it_is(stand: Stand) -> None:
    plain = options(stand)
    assert plain[-7:-1] == ["-p", "2222", "-l", "me", "--", "head"]
    assert {"-T", "-oServerAliveInterval=10", "-oConnectTimeout=30", "-oClearAllForwardings=yes"} <= set(plain)
    assert any(word.startswith("-oControlPath=") for word in plain)
    assert "-oConnectTimeout=5" in options(stand, timeout_s=4.6)
    assert "-oConnectTimeout=1" in options(stand, timeout_s=0)
    stand.settings.write_text("connecttimeout 7\nserveraliveinterval 60\ncontrolpath /run/me/cm\n")
    theirs = options(stand)
    assert [word for word in theirs if "ConnectTimeout" in word or "Alive" in word or "Control" in word] == []
    assert "-oConnectTimeout=9" in options(stand, timeout_s=9)


def test_what_would_make_a_login_of_no_use_is_undone(stand: Stand) -> None:
    stand.settings.write_text("stdinnull no\nsessiontype default\n")
    assert [word for word in options(stand) if "stdinnull" in word or "sessiontype" in word] == []
    stand.settings.write_text("stdinnull yes\nforkafterauthentication yes\nsessiontype none\n")
    assert {"-ostdinnull=no", "-oforkafterauthentication=no", "-osessiontype=default"} <= set(options(stand))


def test_what_a_killed_ssh_left_is_swept(stand: Stand) -> None:
    folder = Path(f"/tmp/mgpu-{os.getuid()}")
    options(stand)  # makes it
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, alive = folder / f"ssh-{ended.pid}-abc", folder / f"ssh-{os.getppid()}-abc"
    for path in (left, alive):
        path.touch()
    options(stand)
    assert (left.exists(), alive.exists()) == (False, True)
    alive.unlink()


def test_a_folder_that_is_not_ours_alone_is_done_without(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(path: str) -> str:
        raise http.MasterError("not_allowed", f"{path} is not a folder that we alone can enter")

    monkeypatch.setattr(dial, "private_folder", taken)
    assert [word for word in options(stand) if "Control" in word] == []


def test_no_ssh_program(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(http.NoMaster, match="no ssh program") as caught:
        Dialer(parse_head("ssh://head")).connect()
    assert caught.value.exit_code == 69


def test_who_loses_patience_is_not_kept(stand: Stand) -> None:
    stand.program("exec sleep 300")
    dialer = Dialer(parse_head("ssh://head"))
    dialer.wake_fd, wake = os.pipe()
    threading.Timer(0.3, os.write, (wake, b".")).start()
    with pytest.raises(http.NoMaster, match="given up for now"):
        dialer.connect()
    for descriptor in (dialer.wake_fd, wake):
        os.close(descriptor)
