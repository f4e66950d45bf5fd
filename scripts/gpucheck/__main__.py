"""`scripts/gpu-check`: what mgpu says of real GPUs, against what nvidia-smi and the GPUs themselves say."""

from __future__ import annotations

import argparse
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

LOAD = Path(__file__).with_name("load.py")
PATIENCE_S = 30.0
LOAD_MIB = 2048
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

    def __init__(self, home: Path, ssh: str) -> None:
        self.node = "here" if ssh else ""
        self.environ = {**os.environ, "MGPU_STATE_DIR": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
        self.environ.pop("MGPU_CONFIG", None)
        self.environ.pop("MGPU_MASTER", None)
        if ssh:
            host, _, port = ssh.partition(":")
            config = home / "cluster_config.yaml"
            config.write_text(
                f"nodes:\n  - {{node_id: here, hostname: {host}, ssh: {{port: {port or 22}}}, run_dir: {home}/run}}\n"
            )
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
            self.mgpu("node", "probe", self.node or self.name())
        return list(json.loads(self.mgpu("nodes", "--json"))["nodes"][0]["gpus"])

    def name(self) -> str:
        return str(json.loads(self.mgpu("nodes", "--json"))["nodes"][0]["node_id"])

    def state_of(self, uuid: str) -> dict[str, Any]:
        return next(gpu for gpu in self.gpus() if gpu["uuid"] == uuid)


def smi(fields: str) -> list[list[str]]:
    words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def passed(text: str) -> None:
    print(f"ok    {text}", flush=True)


def same_gpus(check: Check) -> list[dict[str, Any]]:
    """The table is nvidia-smi's."""
    ours = [[str(gpu["index"]), gpu["uuid"], gpu["name"], str(gpu["memory_total_mib"])] for gpu in check.gpus()]
    theirs = smi("index,uuid,name,memory.total")
    if ours != theirs:
        raise Failed(f"mgpu lists {ours}, nvidia-smi {theirs}")
    passed(f"{len(ours)} GPUs, with index, UUID, name and memory as nvidia-smi lists them")
    return check.gpus()


def a_job_on_a_chosen_gpu(check: Check, gpu: dict[str, Any]) -> None:
    """The process is seen on exactly that UUID, is known as the job's, and its end gives the memory back."""
    node, uuid, index = check.name(), gpu["uuid"], str(gpu["index"])
    before = used(uuid)
    job = check.mgpu(
        "submit", "--node-gpu-ids", f"{node}:{index}", "--", sys.executable, str(LOAD), str(LOAD_MIB), "600"
    ).split()[-1]
    said = until("the job's first line", lambda: check.mgpu("logs", job).strip())
    if said != f"on {uuid}":
        raise Failed(f"the job computes {said}, asked for was {uuid}")
    passed(f"a job for GPU {index} computes {said}")
    found = check.state_of(uuid)
    if (found["state"], found["job_id"]) != ("allocated", int(job)) or "conflict" in found["reason"]:
        raise Failed(f"GPU {index} is shown as {found}")
    pids = [process["pid"] for process in found["processes"]]
    others = [other["index"] for other in check.gpus() if other["uuid"] != uuid and other["processes"]]
    passed(f"its process {pids} is seen on that GPU (others with processes: {others or 'none'}), as the job's own")
    check.show("nodes")
    began = time.monotonic()
    check.mgpu("cancel", job)
    until("the memory", lambda: used(uuid) <= before + 16)
    passed(f"cancelled: its memory is back after {time.monotonic() - began:.2f} s")
    until("the free GPU", lambda: check.state_of(uuid)["state"] == "free")
    passed(f"GPU {index} is free again")


def used(uuid: str) -> int:
    return next(int(memory) for found, memory in smi("uuid,memory.used") if found == uuid)


def an_outsider(check: Check, gpu: dict[str, Any]) -> None:
    """Somebody's process that nobody queued: named, avoided, and forgotten when it ends."""
    uuid, node = gpu["uuid"], check.name()
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    with subprocess.Popen(
        [sys.executable, str(LOAD), str(LOAD_MIB), "600"], env=environ, stdout=subprocess.PIPE, text=True
    ) as outsider:
        assert outsider.stdout is not None
        try:
            if outsider.stdout.readline().strip() != f"on {uuid}":
                raise Failed("the outsider does not come up")
            found = check.state_of(uuid)
            if found["state"] != "external" or f"pid {outsider.pid}" not in found["reason"]:
                raise Failed(f"an outsider with pid {outsider.pid} is shown as {found}")
            passed(f"an outsider is seen and named: {found['reason']}")
            waiting = check.mgpu("submit", "--node-gpu-ids", f"{node}:{gpu['index']}", "--", "true").split()[-1]
            time.sleep(3)
            job = json.loads(check.mgpu("show", "job", waiting, "--json"))
            if job["state"] != "PENDING" or "external" not in f"{job['detail']}":
                raise Failed(f"a job for that GPU is {job['state']}: {job['detail']}")
            passed(f"a job for that GPU waits: {job['detail']}")
        finally:
            outsider.kill()
    until("the job", lambda: json.loads(check.mgpu("show", "job", waiting, "--json"))["state"] == "COMPLETED")
    passed("when it is gone the job runs")


def latency(check: Check) -> None:
    """srun on an idle node, with and without the look that a GPU needs which was not seen for 5 s."""
    times: dict[str, list[float]] = {"seen just now": [], "last seen over 5 s ago": []}
    for _ in range(5):
        for kind, taken in times.items():
            check.mgpu("node", "probe", check.node or check.name())
            time.sleep(0 if kind == "seen just now" else 5.5)
            began = time.monotonic()
            check.mgpu("srun", "-Q", "true")
            taken.append(time.monotonic() - began)
    for kind, taken in times.items():
        passed(f"srun true, {kind}: median {sorted(taken)[2] * 1000:.0f} ms of {len(taken)}")


@contextlib.contextmanager
def made(ssh: str) -> Iterator[Check]:
    home = Path(tempfile.mkdtemp(prefix="mgpu-gpu-check-"))
    check = Check(home, ssh)
    try:
        yield check
    finally:
        check.mgpu("cancel", "--me", check=False)
        check.mgpu("stop", check=False)
        shutil.rmtree(home)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--ssh", metavar="HOST[:PORT]", default="", help="reach this machine by SSH, not directly")
    parser.add_argument("--trust", action="store_true", help="accept the host key that it shows")
    words = parser.parse_args()
    if not shutil.which("nvidia-smi"):
        print("no nvidia-smi here: this is for a machine with NVIDIA GPUs", file=sys.stderr)
        return 2
    names = sorted({f"{name}, driver {driver}" for name, driver in smi("name,driver_version")})
    print(time.strftime("%Y-%m-%d"), len(smi("index")), "x", "; ".join(names))
    try:
        with made(words.ssh) as check:
            if words.trust:
                print(check.mgpu("node", "trust", "here", "--yes").strip())
            gpus = same_gpus(check)
            check.show("show", "node", check.name())
            a_job_on_a_chosen_gpu(check, gpus[-1])
            an_outsider(check, gpus[0])
            latency(check)
    except Failed as failure:
        print(f"FAILED {failure}", flush=True)
        return 1
    print("all held")
    return 0


sys.exit(main())
