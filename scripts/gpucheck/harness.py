"""A master of its own over this machine, and the words to say what was seen."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_S = 30.0
T = TypeVar("T")


class Failed(Exception):
    """A check did not hold."""


def until(what: str, told: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := told():
            return found
        time.sleep(0.1)
    raise Failed(f"{what} did not come in {PATIENCE_S:.0f} s")


class Check:
    """A master of its own over this machine, in a home of its own."""

    def __init__(self, home: Path, nodes: str) -> None:
        """`nodes`: as cluster_config.yaml has them, "" = this machine without SSH."""
        self.environ = {**os.environ, "MGPU_STATE_DIR": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
        self.environ.pop("MGPU_CONFIG", None)
        self.environ.pop("MGPU_MASTER", None)
        if nodes:
            config = home / "cluster_config.yaml"
            config.write_text(f"defaults: {{run_dir: {home}/run}}\n{nodes}")
            config.chmod(0o600)
            self.environ["MGPU_CONFIG"] = str(config)

    def mgpu(self, *words: str, check: bool = True) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "mgpu", *words], env=self.environ, capture_output=True, text=True, check=False
        )
        if check and ran.returncode:
            raise Failed(f"mgpu {' '.join(words)}: status {ran.returncode}: {ran.stderr.strip()}")
        return ran.stdout + (ran.stderr if not check else "")

    def show(self, *words: str) -> None:
        print(f"\n$ mgpu {' '.join(words)}")
        print(self.mgpu(*words).rstrip())

    def gpus(self, fresh: bool = True) -> list[dict[str, Any]]:
        if fresh:
            self.mgpu("node", "probe", "--all")
        return list(json.loads(self.mgpu("nodes", "--json"))["nodes"][0]["gpus"])

    def name(self) -> str:
        return str(json.loads(self.mgpu("nodes", "--json"))["nodes"][0]["node_id"])

    def state_of(self, uuid: str) -> dict[str, Any]:
        return next(gpu for gpu in self.gpus() if gpu["uuid"] == uuid)


def smi(fields: str) -> list[list[str]]:
    words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def used(uuid: str) -> int:
    return next(int(memory) for found, memory in smi("uuid,memory.used") if found == uuid)


def passed(text: str) -> None:
    print(f"ok    {text}", flush=True)


@contextlib.contextmanager
def made(nodes: str, home: Path | None = None) -> Iterator[Check]:
    home = home or Path(tempfile.mkdtemp(prefix="mgpu-gpu-check-"))
    check = Check(home, nodes)
    try:
        yield check
    finally:
        check.mgpu("cancel", "--me", check=False)
        check.mgpu("stop", check=False)
        shutil.rmtree(home)
