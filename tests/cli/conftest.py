from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mgpu.cli import main
from tests.client.peer import Peer

REPOSITORY = Path(__file__).parents[2]


class Ran(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """Answers at the socket of the state directory that commands use by default, in an empty working directory."""
    state_dir, folder = tmp_path / "s", tmp_path / "w"
    state_dir.mkdir(mode=0o700)
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("MGPU_STATE_DIR", str(state_dir))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with Peer(state_dir / "mgpu.sock") as made:
        made.answers["POST", "/v1/jobs"] = (201, {"job_id": 17, "notices": []}, {})
        made.answers["POST", "/v1/jobs/test"] = {
            "now": False,
            "expected_start": None,
            "expected_on": [],
            "sooner": [],
            "held": "",
            "notices": [],
        }
        made.answers["POST", "/v1/cancel"] = {"cancelled": [17], "errors": []}
        yield made


@pytest.fixture
def mgpu(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command line in this process, neither output being a terminal."""

    def run(*words: str) -> Ran:
        status = main.run(list(words))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ran(status, out, err)

    return run


@pytest.fixture
def mgpu_process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a command line in a process of its own, with pipes."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([sys.executable, "-m", "mgpu", *words], env=environ, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def programs(clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts programs first in PATH; with `alone`, no others are found."""

    def put(alone: bool = False, **texts: str) -> None:
        folder = clean_home / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder) if alone else f"{folder}:{os.environ['PATH']}")

    monkeypatch.chdir(clean_home)
    return put
