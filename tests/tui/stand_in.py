"""A master of any size over a real socket: what the monitor asks for, computed from a few numbers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mgpu.client.http import Endpoint
from mgpu.client.locate import Location
from mgpu.tui.source import Source
from tests.client.peer import Peer

NOW = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC
PEOPLE = ("ann", "bob", "chen", "dora")


def moment(seconds: float) -> str:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(number: int, running: int, **more: Any) -> dict[str, Any]:
    """The jobs up to `running` run, each on two GPUs of a node of its own."""
    runs = number <= running
    node, first = f"gpu{(number - 1) // 4 + 1:02}", 2 * ((number - 1) % 4)
    part = {
        "rank": 0, "node": node, "hostname": node, "address": "10.0.0.1", "devices": [first, first + 1],
        "uuids": [f"GPU-{node}-{first}", f"GPU-{node}-{first + 1}"], "pid": 4000 + number, "state": "RUNNING",
        "exit_code": None, "start_time": moment(NOW - 60 * number), "reason": "", "lost_since": None,
    }  # fmt: skip
    return {
        "job_id": number, "name": f"train-{number}", "user": PEOPLE[number % 4],
        "state": "RUNNING" if runs else "PENDING", "reason": "" if runs else "Resources",
        "detail": "" if runs else "no node has 2 free GPUs", "gpus": 2, "nodes": 1, "command": ["python", "train.py"],
        "submit_time": moment(NOW - 61 * number), "start_time": moment(NOW - 60 * number) if runs else None,
        "end_time": None, "exit_code": None, "attempt": 1 if runs else 0, "allocation": [part] if runs else [],
        "failed_rank": None, "partition": "", "time_limit_s": 86400, "stop": "", "held": "", "idle_since": None,
        "expected_start": None if runs else moment(NOW + 600 * (number - running)),
        "expected_on": [] if runs else [{"node": "gpu01", "devices": [0, 1]}], **more,
    }  # fmt: skip


def ended(number: int) -> dict[str, Any]:
    state, code = (("COMPLETED", 0), ("FAILED", 1), ("TIMEOUT", None), ("CANCELLED", None))[number % 4]
    return job(
        number, number, state=state, exit_code=code, end_time=moment(NOW - 10 * number - 5), reason="NonZeroExitCode"
    )


def gpu(node: int, index: int, **more: Any) -> dict[str, Any]:
    name = f"gpu{node:02}"
    return {
        "index": index, "uuid": f"GPU-{name}-{index}", "name": "NVIDIA A100-SXM4-80GB", "memory_total_mib": 81920,
        "memory_used_mib": 4, "utilization": 0, "state": "free", "reason": "", "job_id": None, "user": None,
        "processes": [], "temperature_c": 40, "power_w": 80, "ecc_errors": 0, "drain": None, "suspect": None, **more,
    }  # fmt: skip


def node(number: int, gpus: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    name = f"gpu{number:02}"
    return {
        "node_id": name, "state": "UP", "reason": "", "address": f"10.0.0.{number}", "hostname": name,
        "partition": "", "gpu_type": "NVIDIA A100-SXM4-80GB", "last_seen": moment(NOW - 3), "gpus": gpus,
        "barred": None, "maintenance": [], "drain": None, "use": "mixed", "jobs": 2, "connection": "ssh", "notes": [],
        "machine": {"driver": "550.54", "cpus": 64, "load": 12.5, "memory_total_mib": 515000}, **more,
    }  # fmt: skip


def held(number: int, index: int, job_id: int, busy: int = 96) -> dict[str, Any]:
    user = PEOPLE[job_id % 4]
    return gpu(
        number, index, state="allocated", job_id=job_id, user=user, utilization=busy,
        memory_used_mib=20000 + 7000 * index, reason=f"held by job {job_id}",
    )  # fmt: skip


def zoo() -> list[dict[str, Any]]:
    """Four nodes with one of each kind of GPU."""
    outsider = {"pid": 4242, "user": "erin", "memory_mib": 11000, "command": "python", "age_s": 9000, "kind": "C"}
    return [
        node(1, [held(1, index, index // 2 + 1, 100 - 12 * index) for index in range(8)]),
        node(2, [
            held(2, 0, 5), held(2, 1, 5, 3), gpu(2, 2), gpu(2, 3),
            gpu(2, 4, state="external", memory_used_mib=11000, utilization=88, processes=[outsider],
                reason="external (erin, pid 4242, python, 11 GiB, 2 h)"),
            gpu(2, 5, state="unhealthy", reason="unhealthy: 3 uncorrected ECC errors"),
            gpu(2, 6, state="unknown", memory_used_mib=None, utilization=None, reason="unknown: nvidia-smi is silent"),
            gpu(2, 7),
        ]),
        node(3, [gpu(3, index) for index in range(4)], state="DRAINED", barred="NodeDrained",
             reason=f"drained by root: new fan on Monday (since {moment(NOW - 90000)[:16].replace('T', ' ')} UTC)"),
        node(4, [], state="DOWN", barred="NodeDown", reason="no route to host", last_seen=moment(NOW - 3600)),
    ]  # fmt: skip


class StandIn(Peer):
    """`total` jobs, of which `running` run; `nodes` as they are told."""

    def __init__(self, path: Path | str, total: int = 12, running: int = 5) -> None:
        super().__init__(path)
        self.total, self.running = total, running
        self.nodes = zoo()
        self.instead: dict[int, dict[str, Any]] = {}  # what is different of a job, by its number
        self.gone: set[int] = set()  # jobs that ended meanwhile
        self.hangs: threading.Event | None = None  # no answer before that is set
        self.failure: Any = None  # what is answered instead of anything

    def answer_to(self, method: str, path: str) -> Any:
        url = urlsplit(path)
        if (method, url.path) in self.answers and url.path != "/v1/status":
            return self.answers[method, url.path]
        if self.hangs is not None or self.failure is not None:
            return self.hangs or self.failure
        if (method, url.path) == ("GET", "/v1/window"):
            return self.window({name: values[0] for name, values in parse_qs(url.query).items()})
        if (method, url.path) == ("GET", "/v1/nodes"):
            return {"nodes": self.nodes}
        return super().answer_to(method, path)

    def source(self) -> Source:
        endpoint = Endpoint(self.path, None, (os.getuid(),))
        return Source(Location("", "", endpoint, False))

    def _job(self, number: int, ended_ones: bool) -> dict[str, Any]:
        found = ended(number) if ended_ones else job(number, self.running)
        return {**found, **self.instead.get(number, {})}

    def window(self, query: dict[str, str]) -> dict[str, Any]:
        """As ops/window.py has it, as far as the tests need."""
        over = query.get("scope") == "ended"
        numbers: Any = (
            [n for n in range(1, self.total + 1) if n not in self.gone] if self.gone else range(1, self.total + 1)
        )
        words = query.get("search", "").lower().split()
        user = "ann" if query.get("me") else query.get("user", "")
        if words or user:
            numbers = [n for n in numbers if self._passes(self._job(n, over), words, user)]
        if query.get("sort", "").startswith("-"):
            numbers = numbers[::-1]
        offset, limit = int(query.get("offset") or 0), int(query.get("limit") or 1000)
        rows = [self._job(n, over) for n in numbers[offset : offset + limit]]
        states = (
            {"PENDING": self.total - self.running, "RUNNING": self.running} if not over else {"COMPLETED": self.total}
        )
        body = {
            "jobs": rows, "offset": offset, "matching": len(numbers), "states": states,
            "waiting_gpus": 2 * (self.total - self.running), "rows": self.total - len(self.gone),
        }  # fmt: skip
        mark = str(hash(str(body)))
        return {"same": True, "mark": mark} if query.get("seen") == mark else {**body, "mark": mark}

    @staticmethod
    def _passes(row: dict[str, Any], words: list[str], user: str) -> bool:
        text = " ".join(str(row[key]) for key in ("job_id", "name", "user", "state", "reason")).lower()
        return all(word in text for word in words) and user in ("", row["user"])
