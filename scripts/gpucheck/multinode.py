"""Two nodes made of one machine: an sshd each on a loopback port, each with half of the GPUs; one job over both."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.gpucheck.harness import Check, Failed, made, passed, smi, until, used
from tests.lab.loopback import free_ports
from tests.lab.sshd import find_sshd, make_keys, server_configuration

NAMES = ("one", "two")
PROGRAM = Path(__file__).with_name("allreduce.py")
LINE = re.compile(r"rank (\d+) of (\d+) on (GPU-\S+): sum (\S+), (\S+) GB/s")


def multinode() -> None:
    torchrun = shutil.which("torchrun")
    if torchrun is None:
        raise Failed("there is no torchrun in PATH")
    gpus = [(int(index), uuid) for index, uuid in smi("index,uuid")]
    half = len(gpus) // 2
    if half == 0:
        raise Failed("it takes two GPUs")
    shares = (gpus[:half], gpus[half : 2 * half])
    home = Path(tempfile.mkdtemp(prefix="mgpu-gpu-check-"))
    with _servers(home) as nodes, made(_inventory(home, nodes, shares), home) as check:
        check.show("nodes")
        check.show("preflight", "--nodes", "2")
        asked = ("--node-gpu-ids", ";".join(f"{n}:{_indices(share)}" for n, share in zip(NAMES, shares, strict=True)))
        _adds_up(check, torchrun, asked, [uuid for share in shares for _, uuid in share])
        _one_dies(check, torchrun, asked, shares)


def _indices(share: list[tuple[int, str]]) -> str:
    return ",".join(str(index) for index, _ in share)


def _inventory(home: Path, ports: list[int], shares: tuple[list[tuple[int, str]], ...]) -> str:
    lines = ["nodes:"]
    for name, port, share in zip(NAMES, ports, shares, strict=True):
        ssh = f"{{port: {port}, identity_file: {home}/key, known_hosts: {home}/known_hosts}}"
        lines.append(f"  - {{node_id: {name}, hostname: 127.0.0.1, ssh: {ssh}, devices: [{_indices(share)}]}}")
    return "\n".join(lines) + "\n"


@contextmanager
def _servers(home: Path) -> Iterator[list[int]]:
    """Two of them, under this account; their ports."""
    make_keys([home / "key", home / "host_key"])
    (home / "authorized_keys").write_text((home / "key.pub").read_text())
    kind, key = (home / "host_key.pub").read_text().split()[:2]
    ports = free_ports(2)
    (home / "known_hosts").write_text("".join(f"[127.0.0.1]:{port} {kind} {key}\n" for port in ports))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd of root refuses to start without it
    running = []
    try:
        for port in ports:
            file = home / f"sshd_config.{port}"
            settings = server_configuration(
                address="127.0.0.1",
                port=port,
                host_key=str(home / "host_key"),
                authorized_keys=str(home / "authorized_keys"),
                pid_file="none",
                max_sessions=10,
                max_startups="10:30:100",
            )
            file.write_text(f"{settings}StrictModes no\nAllowUsers {getpass.getuser()}\n")
            words = [find_sshd(), "-D", "-e", "-f", str(file)]
            running.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=(home / f"log.{port}").open("w")))
        yield ports
    finally:
        for server in running:
            server.terminate()
            server.wait()


def _adds_up(check: Check, torchrun: str, asked: tuple[str, ...], uuids: list[str]) -> None:
    """Each rank on the GPU that was asked for, in that order, and the sum is the same everywhere."""
    words = ("srun", "-l", *asked, "--launcher", "torchrun", "--", torchrun, str(PROGRAM), "0")
    for setting in ("", "NCCL_P2P_DISABLE=1,NCCL_SHM_DISABLE=1,NCCL_SOCKET_IFNAME=lo"):
        began = time.monotonic()
        said = check.mgpu(*(words[:2] + (("--export", setting) if setting else ()) + words[2:]))
        took = time.monotonic() - began
        found = sorted((int(line[1]), line) for line in LINE.finditer(said))
        if [line[3] for _, line in found] != uuids or {line[4] for _, line in found} != {found[0][1][4]}:
            raise Failed(f"the ranks say {said}")
        for _, line in found:
            print(f"      {line[0]}")
        way = "sockets alone" if setting else "NCCL's own choice"
        passed(f"torchrun and an NCCL all-reduce over both nodes ({way}): {took:.1f} s from srun to its end")


def _one_dies(check: Check, torchrun: str, asked: tuple[str, ...], shares: tuple[list[tuple[int, str]], ...]) -> None:
    """SIGKILL for one rank's process on the second node: all of the job goes, and all memory is back."""
    everywhere = [uuid for share in shares for _, uuid in share]
    before = {uuid: used(uuid) for uuid in everywhere}
    words = ("submit", "--parsable", *asked, "--launcher", "torchrun", "--", torchrun, str(PROGRAM), "600")
    job = check.mgpu(*words).strip()
    until("the sum on all ranks", lambda: len(LINE.findall(check.mgpu("logs", job))) == len(everywhere))
    check.show("show", "job", job)
    pid = _a_process_on(shares[1][0][1])
    os.kill(pid, signal.SIGKILL)
    died = time.monotonic()
    until("the memory", lambda: all(used(uuid) <= before[uuid] + 16 for uuid in everywhere))
    passed(
        f"pid {pid} of the second node killed: all memory of all {len(everywhere)} GPUs is back after "
        f"{time.monotonic() - died:.2f} s"
    )
    ended = until("the job's end", lambda: _ended(check, job))
    passed(f"the job is {ended['state']}, exit {ended['exit_code']}: {ended['detail']}")
    until("free GPUs", lambda: all(gpu["state"] == "free" for node in _nodes(check) for gpu in node["gpus"]))
    passed("all GPUs are free again")


def _a_process_on(uuid: str) -> int:
    words = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    pids = [int(line.split(",")[1]) for line in lines if line.startswith(uuid)]
    if not pids:
        raise Failed(f"nvidia-smi shows no process on {uuid}")
    return pids[0]


def _nodes(check: Check) -> list[dict[str, list[dict[str, str]]]]:
    check.mgpu("node", "probe", "--all")
    return list(json.loads(check.mgpu("nodes", "--json"))["nodes"])


def _ended(check: Check, job: str) -> dict[str, object] | None:
    found = dict(json.loads(check.mgpu("show", "job", job, "--json")))
    return None if found["state"] in ("PENDING", "RUNNING") else found
