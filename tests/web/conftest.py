from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.peer import Peer, job

REPOSITORY = Path(__file__).parents[2]
LONG_S = 60.0
NODE = {
    "node_id": "gpu01", "state": "UP", "reason": "", "address": "10.0.0.1", "hostname": "gpu01.lab", "partition": "",
    "gpu_type": "A100", "last_seen": "2026-01-01T00:00:00Z", "gpus": [], "barred": None, "maintenance": [],
}  # fmt: skip


class Web:
    """A running `mgpu top --web`."""

    def __init__(self, state_dir: Path, *words: str, stdin: int = subprocess.DEVNULL, **environ: str) -> None:
        line = [sys.executable, "-m", "mgpu", "top", "--web", "--state-dir", str(state_dir), *words]
        if stdin >= 0:  # its own terminal, on which it stands in front
            line = ["setsid", "--ctty", *line]
        self.environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environ}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, env=self.environ, stdin=stdin, stdout=pipe, stderr=pipe, text=True)
        self.said: list[str] = []
        while True:
            assert self.process.stdout is not None and self.process.stderr is not None
            self.said.append(line := self.process.stdout.readline())
            assert line, self.process.stderr.read()
            if line.startswith("Open this: "):
                break
        self.address = line.split()[-1]
        self.origin = self.address.partition("/?")[0]
        self.netloc = self.origin.removeprefix("http://")
        self.token = self.address.partition("token=")[2]

    def monitors(self) -> list[int]:
        """The processes of its tabs."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return list(map(int, found.split()))

    def end(self, number: int = 15) -> tuple[int, str, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=LONG_S)
        return self.process.returncode, out, err


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """Of a master that has a node and a job."""
    made = tmp_path / "s"
    made.mkdir(mode=0o700)
    with Peer(made / "mgpu.sock") as peer:
        jobs = [job("RUNNING"), job("PENDING", job_id=18)]
        peer.answers["GET", "/v1/jobs"] = {"jobs": jobs}
        peer.answers["GET", "/v1/nodes"] = {"nodes": [NODE]}
        peer.answers["GET", "/v1/window"] = {
            "jobs": jobs, "offset": 0, "matching": 2, "states": {"RUNNING": 1, "PENDING": 1}, "waiting_gpus": 2,
            "mark": "a",
        }  # fmt: skip
        yield made


@pytest.fixture
def web(state_dir: Path) -> Iterator[Callable[..., Web]]:
    started: list[Web] = []

    def start(*words: str, **more: Any) -> Web:
        started.append(Web(state_dir, *words, **more))
        return started[-1]

    yield start
    for one in started:
        one.end()
