"""A master for all, run by an account of its own, and users who are nobody to each other. Accounts that every system
has play these parts; all of it lies where only root could have put it, as such a master's folder has to."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVICE, ANN, BOB = "daemon", "games", "news"
TREE = Path(__file__).parents[2]
PYTHONS = (sys.executable, "/usr/bin/python3")
IMPORTS = "import mgpu.daemon, pydantic, aiohttp, sqlalchemy"


def as_user(name: str) -> dict[str, Any]:
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class House:
    """The folder, the configuration, and who runs what there."""

    def __init__(self, folder: Path, python: str, modules: str) -> None:
        self.folder = folder
        self._python = python
        self._modules = modules
        self.state = folder / "state"
        self.config = folder / "cluster_config.yaml"
        self.config.write_text(
            f"master: {{mode: shared, state_dir: {self.state}}}\nnodes: [{{node_id: here, connection: local}}]\n"
        )
        for name in (SERVICE, ANN, BOB):
            home = folder / name
            home.mkdir()
            shutil.chown(home, name)
        self.state.mkdir()
        shutil.chown(self.state, SERVICE)
        self._master: subprocess.Popen[str] | None = None

    def words(self, *words: str) -> list[str]:
        return [self._python, "-B", "-m", "mgpu", "--config", str(self.config), *words]

    def environment(self, name: str) -> dict[str, str]:
        home = str(self.folder / name)
        return {"PATH": "/usr/bin:/bin", "HOME": home, "PYTHONPATH": self._modules, "LANG": "C.UTF-8"}

    def _as(self, name: str) -> dict[str, Any]:
        return {"cwd": "/", "env": self.environment(name), "text": True, **as_user(name)}

    def __call__(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*words), **self._as(name), capture_output=True, check=False, timeout=60)

    def start(self) -> None:
        self._master = subprocess.Popen(self.words("daemon"), stderr=subprocess.PIPE, **self._as(SERVICE))
        for _ in range(600):
            if (self.state / "mgpu.sock").exists():
                return
            time.sleep(0.05)
        raise AssertionError("no socket")

    def close(self) -> None:
        if self._master is not None:
            self._master.terminate()
            self._master.communicate(timeout=30)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    if os.getuid():
        pytest.skip("only root can be several users")
    modules = os.pathsep.join([str(TREE), *(path for path in sys.path if path.endswith("site-packages"))])
    for python in PYTHONS:
        try:
            command = [python, "-B", "-c", IMPORTS]
            subprocess.run(
                command, cwd="/", env={"PYTHONPATH": modules}, check=True, capture_output=True, **as_user(ANN)
            )
        except (OSError, KeyError, subprocess.CalledProcessError):
            continue
        with tempfile.TemporaryDirectory(dir="/run", prefix="mgpu-test-") as name:
            Path(name).chmod(0o755)
            made = House(Path(name), python, modules)
            made.start()
            try:
                yield made
            finally:
                made.close()
        return
    pytest.skip("no Python here that these accounts may run mgpu with")


def test_one_queue_for_all_and_each_acts_on_their_own(house: House) -> None:
    job = json.loads(house(ANN, "submit", "--json", "-G", "0", "-J", "hers", "sleep 100").stdout)["job_id"]
    rows = json.loads(house(BOB, "queue", "--json").stdout)["jobs"]
    assert [(row["job_id"], row["user"], row["name"]) for row in rows] == [(job, ANN, "hers")]
    for words in (["cancel", str(job)], ["logs", str(job)], ["attach", str(job)], ["stop"], ["node", "drain", "here"]):
        refused = house(BOB, *words)
        assert (refused.returncode, BOB in refused.stderr or ANN in refused.stderr) == (77, True), (words, refused)
        assert len(refused.stderr.splitlines()) == 1
    told = json.loads(house(BOB, "audit", "--refused", "--json").stdout)["audit"]
    assert [row["action"] for row in told] == ["cancel", "logs", "follow", "stop", "node drain"]
    assert {(row["user"], row["uid"]) for row in told} == {(BOB, pwd.getpwnam(BOB).pw_uid)}
    assert house(ANN, "cancel", str(job)).returncode == 0


def test_the_database_itself_is_for_who_runs_the_master(house: House) -> None:
    for words in (["backup"], ["check"], ["vacuum"], ["migrate"], ["restore", "x"]):
        refused = house(BOB, "db", *words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (77, 1), refused
        assert f"is {SERVICE}'s" in refused.stderr


def test_a_job_in_the_foreground(house: House) -> None:
    done = house(BOB, "srun", "-G", "0", "--export", "WORD=a b", "sh", "-c", 'echo "$WORD"; id -un')
    assert (done.returncode, done.stdout) == (0, f"a b\n{SERVICE}\n"), done.stderr


def test_what_lies_there_is_for_its_master_alone(house: House) -> None:
    house(ANN, "submit", "-G", "0", "--hold", "--export", "TOKEN=hunter2", "echo secret")
    found = subprocess.run(
        ["find", str(house.state), "-mindepth", "1", "-perm", "/077", "!", "-name", "mgpu.sock"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout == ""
    assert house.state.stat().st_mode & 0o777 == 0o711
    for path in (house.state / "mgpu.db", house.state / "exports"):
        command = ["ls", str(path)] if path.is_dir() else ["cat", str(path)]
        seen = subprocess.run(command, capture_output=True, text=True, check=False, **as_user(BOB))
        assert (seen.returncode != 0, "Permission denied" in seen.stderr) == (True, True)


def test_nobody_else_can_be_that_master(house: House) -> None:
    refused = house(BOB, "daemon", "--personal")
    assert refused.returncode in (69, 77)
    assert "belongs to uid" in refused.stderr


def test_a_stranger_who_listens_in_a_place_of_his_own_is_no_master(house: House) -> None:
    """A folder below one that all can write: anybody could have made it."""
    with tempfile.TemporaryDirectory() as name:  # /tmp
        Path(name).chmod(0o755)
        state = Path(name) / "state"
        state.mkdir()
        shutil.chown(state, BOB)
        script = f"""
import os, socket
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind({str(state / "mgpu.sock")!r})
    listener.listen()
    os.chmod({str(state / "mgpu.sock")!r}, 0o666)
    print(flush=True)
    input()
"""
        with subprocess.Popen(
            [house.words()[0], "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", **as_user(BOB)
        ) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == b"\n"
            refused = house(ANN, "--state-dir", str(state), "queue")
            stranger.communicate(b"\n")
        assert (refused.returncode, "not a master to trust" in refused.stderr) == (77, True), refused


def test_when_it_is_away_nobody_starts_one(house: House) -> None:
    house.close()
    try:
        away = house(ANN, "queue")
        assert away.returncode == 69
        assert f"it is {SERVICE}'s, for all" in away.stderr
    finally:
        house.start()
    assert house(ANN, "queue").returncode == 0
