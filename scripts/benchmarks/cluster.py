"""A lab with its own home and master, and the ways to ask both."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any

from mgpu.client import http
from mgpu.client.locate import socket_path
from scripts.benchmarks.measure import ROOT, BenchError, Run, run, wait_until
from scripts.benchmarks.slurm import Slurm
from tests.lab import Lab, Settings

MOST_AT_ONCE = 1000  # jobs in one request
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Cluster:
    """`with Cluster("name", nodes=1) as cluster:`; a warm master answers when the block begins."""

    def __init__(self, name: str, nodes: int, gpus: int = 4) -> None:
        # mgpu's own defaults, not the short intervals of the tests
        settings = Settings(nodes=nodes, gpus=gpus, ephemeral=True, config="scheduling: {default_policy: fill_first}\n")
        self.lab = Lab(settings, f"bench-{os.getpid()}-{name}")
        self.slurm: Slurm | None = None  # what else is there to compare with
        self._mgpu = _mgpu_command()

    def __enter__(self) -> Cluster:
        self._home = Path(mkdtemp(prefix="mgpu-bench-"))
        try:
            self.lab.__enter__()
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "MGPU_CONFIG": str(self.lab.config_path),
            # what is measured is this checkout, whichever one the environment was made for
            "PYTHONPATH": str(ROOT),
        }
        self.endpoint = http.Endpoint(socket_path(self.lab.state_dir), str(self.lab.config_path), (os.getuid(),))
        try:
            self.mgpu("nodes")
            wait_until("the nodes", self._all_up)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.lab.nodes:
            if (self._home / node.name).exists():
                with suppress(BenchError, OSError):
                    run(self.ssh_words("-O", "exit", node=node.name), self.env)
        with suppress(BenchError):
            self.mgpu("stop")
        self.lab.__exit__(kind, error, trace)
        shutil.rmtree(self._home, ignore_errors=True)

    # --- programs ---------------------------------------------------------------------------------------------------

    def mgpu_words(self, *words: str) -> list[str]:
        return [*self._mgpu, *words]

    def mgpu(self, *words: str, keep: bool = True) -> Run:
        return run(self.mgpu_words(*words), self.env, keep=keep)

    def ssh_words(self, *words: str, shared: bool = True, node: str = "") -> list[str]:
        """To the first node, or to that one. `shared`: over a connection that stays open, made by the first one."""
        name = node or self.lab.nodes[0].name
        head = self.ssh_head(shared)
        return [*head, *words, name] if words[:1] == ("-O",) else [*head, name, *words]

    def ssh_head(self, shared: bool) -> list[str]:
        """What comes before the node's name."""
        sharing = ["-o", "ControlMaster=auto", "-o", f"ControlPath={self._home}/%n", "-o", "ControlPersist=yes"]
        return ["ssh", "-F", str(self.lab.ssh_config), *(sharing if shared else ["-o", "ControlPath=none"])]

    def ssh(self, *words: str, shared: bool = False, keep: bool = True) -> Run:
        return run(self.ssh_words(*words, shared=shared), self.env, keep=keep)

    # --- the master, asked from within ------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        response = http.request(self.endpoint, method, path, body)
        http.raise_for_error(response)
        return json.loads(response.body)

    def submit(self, *words: str, kind: str = "batch", **options: str) -> int:
        """What `mgpu submit -- WORDS` sends (`kind` srun: `mgpu srun`), without the start of a program."""
        return int(self.call("POST", "/v1/jobs", _wish(words, kind, options))["job_id"])

    def submit_many(self, count: int, *words: str, **options: str) -> None:
        """So many alike, a thousand in one request."""
        for first in range(0, count, MOST_AT_ONCE):
            jobs = [_wish(words, "batch", options) for _ in range(min(MOST_AT_ONCE, count - first))]
            self.call("POST", "/v1/jobs/many", {"request_id": os.urandom(16).hex(), "jobs": jobs})

    def pid(self) -> int:
        """The master's."""
        return int(self.call("GET", "/v1/status")["pid"])

    def job(self, job_id: int) -> dict[str, Any]:
        found = self.call("GET", f"/v1/jobs/{job_id}")
        assert isinstance(found, dict)
        return found

    def occupy(self, gpus: int) -> None:
        """Jobs that have so many GPUs, one each, until they are cancelled."""
        holders = [self.submit("sleep", "3600") for _ in range(gpus)]
        wait_until("full nodes", lambda: all(self.job(job_id)["state"] == "RUNNING" for job_id in holders))

    def active(self) -> int:
        """Jobs that wait or run."""
        return sum(self.call("GET", "/v1/status")["queue"].values())

    def cancel_all(self) -> None:
        self.call("POST", "/v1/cancel", {"request_id": os.urandom(16).hex(), "states": "PENDING,RUNNING"})
        wait_until("an empty queue", lambda: self.active() == 0)

    def _all_up(self) -> bool:
        return all(node["state"] == "UP" for node in self.call("GET", "/v1/nodes")["nodes"])


def _wish(words: Sequence[str], kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "request_id": os.urandom(16).hex(),
        "kind": kind,
        "command": {"form": "argv", "words": list(words)},
        "options": dict(options),
        "env": {},
        "cwd": "/",
        "virtual_env": "",
    }


def _mgpu_command() -> list[str]:
    """The one that is installed beside this Python, else the checkout's."""
    installed = Path(sys.executable).with_name("mgpu")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "mgpu"]
