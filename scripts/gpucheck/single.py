"""One machine: what mgpu says of its GPUs, against what nvidia-smi and the GPUs themselves say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scripts.gpucheck.harness import Check, Failed, passed, smi, until, used

LOAD = Path(__file__).with_name("load.py")
LOAD_MIB = 2048


def single(check: Check) -> None:
    gpus = same_gpus(check)
    check.show("show", "node", check.name())
    a_job_on_a_chosen_gpu(check, gpus[-1])
    an_outsider(check, gpus[0])
    latency(check)


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
            check.mgpu("node", "probe", "--all")
            time.sleep(0 if kind == "seen just now" else 5.5)
            began = time.monotonic()
            check.mgpu("srun", "-Q", "true")
            taken.append(time.monotonic() - began)
    for kind, taken in times.items():
        passed(f"srun true, {kind}: median {sorted(taken)[2] * 1000:.0f} ms of {len(taken)}")
