"""A program of the test's own stands where the master's would: start.command is the only thing that differs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mgpu.client import start
from mgpu.client.http import Endpoint, NoMaster
from mgpu.client.locate import Location

SERVER = """
import os, socket, sys
folder = sys.argv[1]
with open(os.path.join(folder, "pids"), "a") as file:
    file.write(f"{os.getpid()} {os.getsid(0)} {os.getcwd()}\\n")
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.join(folder, "mgpu.sock"))
listener.listen()
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    connection.close()
"""


def location(folder: Path, personal: bool = True) -> Location:
    endpoint = Endpoint(str(folder / "mgpu.sock"), "", (os.getuid(),))
    return Location("/etc/some.yaml", str(folder), endpoint, personal)


def test_the_command_line_names_everything(tmp_path: Path) -> None:
    assert start.command(location(tmp_path))[1:] == [
        "-m", "mgpu", "daemon", "--personal", "--config", "/etc/some.yaml", "--state-dir", str(tmp_path),
    ]  # fmt: skip


def test_many_clients_at_one_instant_start_one_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", SERVER, str(folder)])
    failures: list[Exception] = []

    def client() -> None:
        try:
            start.ensure(location(folder))
        except NoMaster as error:
            failures.append(error)

    clients = [threading.Thread(target=client) for _ in range(6)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    lines = (folder / "pids").read_text().splitlines()
    pid, session, cwd = lines[0].split()
    os.kill(int(pid), signal.SIGTERM)
    os.waitpid(int(pid), 0)
    assert failures == []
    assert len(lines) == 1
    assert session == pid
    assert cwd == start.folder_to_start_in()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "master.log").stat().st_mode & 0o777 == 0o600


def test_one_that_ends_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.stderr.write('older\\nmgpu: node gpu01: no such key\\n\\n'); sys.exit(69)"
    (tmp_path / "master.log").write_text("of another day\n")
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(NoMaster, match=r"^the master did not start: node gpu01: no such key$") as caught:
        start.ensure(location(tmp_path))
    assert caught.value.exit_code == 69
    assert "master.log" in caught.value.hint


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_made_for_one_that_is_another_s_to_start_goes_again(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    if there:
        folder.mkdir(mode=0o700)
    script = "import sys; open(sys.argv[1] + '/lock', 'w'); print('mgpu: shared', file=sys.stderr); sys.exit(77)"
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", script, str(folder)])
    with pytest.raises(NoMaster, match="shared"):
        start.ensure(location(folder))
    assert folder.exists() == there


def test_the_faults_of_a_configuration_are_all_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.stderr.write('a.yaml:1:1: this\\nmgpu: a.yaml:2:1: that\\n'); sys.exit(2)"
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(start.BadConfig) as caught:
        start.ensure(location(tmp_path))
    assert (caught.value.code, caught.value.exit_code) == ("bad_config", 2)
    assert caught.value.message == "a.yaml:1:1: this\na.yaml:2:1: that"


def test_another_that_is_still_starting_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lock, and does not answer yet."""
    refused = f"open({str(tmp_path / 'tries')!r}, 'a').write('x'); raise SystemExit({start.LOCK_HELD})"
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", refused])
    monkeypatch.setattr(start, "AGAIN_S", 0.01)
    other: list[subprocess.Popen[bytes]] = []

    def answers(_location: Location) -> bool:
        if not other and (tmp_path / "tries").exists() and len((tmp_path / "tries").read_text()) > start.TRIES:
            other.append(subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)]))
        return really_answers(_location)

    really_answers = start.answers
    monkeypatch.setattr(start, "answers", answers)
    start.ensure(location(tmp_path))
    other[0].kill()
    other[0].wait()


def test_none_is_started_for_a_named_socket(tmp_path: Path) -> None:
    with pytest.raises(NoMaster, match="no master answers at"):
        start.ensure(location(tmp_path / "none", personal=False))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("place", ["current folder", "search path"])
def test_the_master_is_of_the_same_mgpu(place: str, tmp_path: Path) -> None:
    checkout = Path(start.__file__).parents[2]
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "mgpu").symlink_to(checkout / "mgpu")
    ask = "from mgpu.client import start; print(start.folder_to_start_in())"
    searched = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    environ = {**os.environ, "PYTHONPATH": searched if place == "current folder" else f"{copy}{os.pathsep}{searched}"}
    where = copy if place == "current folder" else tmp_path

    def answer(code: str, folder: Path) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout

    folder = answer(ask, where).strip()
    assert folder == (str(copy) if place == "current folder" else "/")
    assert answer("import mgpu; print(mgpu.__file__)", Path(folder)).strip() == str(copy / "mgpu" / "__init__.py")


def test_another_that_never_answers_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import sys; sys.stderr.write('mgpu: another master holds it'); sys.exit({start.LOCK_HELD})"
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", code])
    monkeypatch.setattr(start, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(start, "AGAIN_S", 0.01)
    with pytest.raises(NoMaster, match="the master did not start: another master holds it"):
        start.ensure(location(tmp_path))


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    for mode in (0o777, 0o1777, 0o770):
        folder.chmod(mode)
        with pytest.raises(NoMaster, match="others can write") as caught:
            start.make_state_dir(str(folder))
        assert caught.value.hint.startswith(f"chmod go-w {folder}")
    folder.chmod(0o755)
    start.make_state_dir(str(folder))
