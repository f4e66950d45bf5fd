"""A served store without a master: `Desk` answers what a master would, from the store and from what a test puts in."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu import clock
from mgpu.api.server import Server
from mgpu.client import http
from mgpu.client.websocket import WebSocket
from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core import health, marks
from mgpu.core.errors import MgpuError
from mgpu.core.fairshare import Turn
from mgpu.core.marks import Order
from mgpu.core.meeting import Call, Side
from mgpu.core.model import Attempt, AttemptState, Audit, DeviceUuid, Job, JobId, NodeName, NodeState, Part, PartKey
from mgpu.core.nodefacts import Facts
from mgpu.core.observation import GpuProcess, GpuReading, Node, Observation
from mgpu.core.plan import ExternalPolicy, NodeFacts, NodeHolds, NodeView, Snapshot, Wait
from mgpu.core.policies import POLICIES, Policy
from mgpu.core.preflight import NodeTold, Together
from mgpu.core.residue import Residue
from mgpu.core.views import node_view
from mgpu.master import planning
from mgpu.master.board import Board
from mgpu.master.waiting import Waiting
from mgpu.meters import Meters
from mgpu.ops.context import Context, HostKey, HostKeys
from mgpu.store.spool import Spool
from mgpu.store.store import Store

NODES = (NodeName("gpu01"), NodeName("gpu02"))
KEY = HostKey("ssh-ed25519", "SHA256:abc", "gpu01 ssh-ed25519 AAAA")


def observation(node: NodeName, at: float) -> Observation:
    gpus = tuple(
        GpuReading(index, DeviceUuid(f"GPU-{node}-{index}"), f"0000:0{index}:00.0", "NVIDIA A100", 40960, 9, 3)
        for index in range(2)
    )
    outsider = GpuProcess(4242, gpus[1].uuid, 512, "carol", "python", 60)
    processes = (outsider,) if node == "gpu01" else ()
    return Observation(node, at, "boot", f"{node}.lab", gpus, processes=processes)


class Desk:
    """Control and Waker over the store."""

    def __init__(self, store: Store, config: Config) -> None:
        self.shut: dict[tuple[str, NodeName], str | None] = {}  # whose account cannot be entered where, and why
        self._store = store
        self._config = config
        self.planned: dict[JobId, Wait] = {}
        self.turns: dict[JobId, Turn] = {}
        self.wakes = 0
        self.stopped = threading.Event()
        self.watched: list[tuple[JobId, bool]] = []
        self.unreachable: set[NodeName] = set()
        self.failing: dict[NodeName, str] = {}
        self.slow = False  # nodes answer probes when a test says so
        self.asked: list[Future[str]] = []
        self.trusted: list[str] = []
        self.left = Residue("/home/train/.mgpu", (), (), ())
        self.removed: tuple[list[str], list[str]] = ([], [])
        self.refused: dict[str, str] = {}
        self.signals: list[tuple[JobId, str]] = []
        self.deaf: dict[JobId, str] = {}
        self.brought: list[PartKey] = []
        self.gives: dict[PartKey, bool] = {}
        self.settled = 0
        self.attendance = self
        self.meters = Meters()
        self.looked_at: set[JobId] = set()
        self.inquiries: list[tuple[list[NodeName], str, str]] = []
        self.expected: list[JobId] = []
        self.attended: list[tuple[JobId, bool]] = []

    def wake(self) -> None:
        self.wakes += 1

    def is_looked_at(self, job_id: JobId) -> bool:
        return job_id in self.looked_at

    def inquire(self, names: Sequence[NodeName], directory: str, virtual_env: str, account: str = "") -> Together:
        self.inquiries.append((list(names), directory, virtual_env))
        self.inquired_as = account
        sides = [Side(name, reached=f"10.0.0.{number}") for number, name in enumerate(names, 1)]
        calls = [Call(a, b, "10.0.0.1", 20007, "ok") for a in names for b in names if a != b]
        return Together([NodeTold(side, facts=Facts()) for side in sides], calls, (20000, 29999))

    def probe(self, node: NodeName) -> Future[str]:
        outcome: Future[str] = Future()
        if node in self.unreachable:
            outcome.set_exception(MgpuError(f"{node}: no route to host"))
            return outcome
        now = clock.now()
        with self._store.write() as w:
            w.save_node(Node(node, NodeState.UP, last_seen=now, observation=observation(node, now)))
        if self.slow:
            self.asked.append(outcome)
        else:
            outcome.set_result(self.failing.get(node, ""))
        return outcome

    def host_keys(self, node: NodeName) -> HostKeys:
        return HostKeys("10.0.0.1", (KEY,), (), "new")

    def trust(self, node: NodeName, lines: Sequence[str]) -> int:
        self.trusted += lines
        return len(lines)

    def give_up(self, node, by) -> None:
        self.given_up = (node, by)

    def order(self, node: NodeName, order: Order) -> None:
        with self._store.write() as w:
            before = w.node(node) or Node(node)
            w.save_node(health.ebb(marks.obey(before, order, 3, 60.0), len(w.open_parts()), 60.0), before)

    def own_key(self) -> str:
        return "ssh-ed25519 AAAA"

    def enter(self, user: str, nodes: Sequence[NodeName]) -> list[str | None]:
        return [self.shut.get((user, node), "") for node in nodes]

    def residue(self, node: NodeName) -> Residue:
        if node in self.unreachable:
            raise MgpuError(f"{node}: no route to host")
        return self.left

    def remove(self, node: NodeName, places: Sequence[str], leases: Sequence[str]) -> dict[str, str]:
        self.removed = (list(places), list(leases))
        return {**dict.fromkeys((*places, *leases), "removed"), **self.refused}

    def signal(self, wanted: Sequence[tuple[JobId, str]]) -> dict[JobId, str]:
        self.signals += wanted
        return {job_id: self.deaf.get(job_id, "") for job_id, _ in wanted}

    def expect(self, job: Job) -> None:
        self.expected.append(job.job_id)

    def attend(self, job_id: JobId, on: bool) -> None:
        self.attended.append((job_id, on))

    def stop(self) -> None:
        self.stopped.set()

    def views(self) -> list[NodeView]:
        with self._store.read() as r:
            holds = r.holds()
            nodes = {node.name: node for node in r.nodes()}
        views = []
        for config in self._config.nodes:
            devices = {uuid: job for (node, uuid), (job, _) in holds.items() if node == config.name}
            held = NodeHolds(devices, jobs=len(set(devices.values())))
            views.append(node_view(config.facts, nodes.get(config.name, Node(config.name)), held, ExternalPolicy()))
        return views

    def waits(self) -> dict[JobId, Wait]:
        return self.planned

    def what_if(self, job: Job | None = None) -> tuple[Snapshot, Mapping[str, Policy]]:
        with self._store.read() as r:
            board = Board.read(r)
        waiting = Waiting(self._store, planning.spans(self._config))
        more = None if job is None else waiting.pending(job, job.not_before)
        now = clock.now()
        asked = waiting.read().at(now)
        with self._store.read() as r:
            dependents = waiting.dependents(r)
        seen = planning.what_if(self._config, tuple(self.views()), asked, board, now, more)
        return replace(seen, dependents=dependents), POLICIES

    def turn(self, job_id: JobId) -> Turn | None:
        return self.turns.get(job_id)

    def bring(self, parts: Sequence[Part]) -> dict[PartKey, bool]:
        self.brought += [part.key for part in parts]
        return self.gives

    def settle(self) -> None:
        self.settled += 1

    def watch(self, job_id: JobId, on: bool) -> None:
        self.watched.append((job_id, on))

    def errors(self) -> list[str]:
        return ["gpu02: no route to host"]


class Served:
    """The server, its parts, and a client."""

    def __init__(self, folder: Path) -> None:
        facts = [NodeFacts(name, partitions=("train",)) for name in NODES]
        self.config = Config(
            path=folder / "cluster_config.yaml",
            nodes=tuple(NodeConfig(f.name, "ssh", SshSettings(f"{f.name}.lab"), f) for f in facts),
        )
        self.store = Store.open(folder / "mgpu.db")
        self.spool = Spool(folder / "spool")
        self.desk = Desk(self.store, self.config)
        self.context = Context(
            self.store, self.spool, self.config, self.desk, self.desk, started=clock.now(), owner_uid=os.getuid()
        )
        for name in NODES:
            self.desk.probe(name)
        self.path = folder / "mgpu.sock"
        self.endpoint = http.Endpoint(str(self.path), str(self.config.path), (os.getuid(),))
        self.streams: list[WebSocket] = []
        self.server = Server(self.context, self.path)
        self.server.start()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.server.stop()
        self.store.close()

    def restart(self, **changes: Any) -> None:
        self.server.stop()
        self.context = replace(self.context, **changes)
        self.server = Server(self.context, self.path)
        self.server.start()

    def restart_shared(self, **changes: Any) -> None:
        """As a shared master; `privacy` and the like are changes of the configuration."""
        ours = {name: changes.pop(name) for name in ("owner_uid",) if name in changes}
        self.restart(config=replace(self.context.config, shared=True, **changes), **ours)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = http.request(self.endpoint, method, path, body)
        return answer.status, json.loads(answer.body)

    def stream(self, path: str) -> WebSocket:
        self.streams.append(WebSocket(self.endpoint, path))
        return self.streams[-1]

    def submit(self, request_id: str = "0" * 8, **options: str) -> JobId:
        status, answer = self.ask("POST", "/v1/jobs", submission(request_id, **options))
        assert status == 201, answer
        return JobId(answer["job_id"])

    def job(self, job_id: JobId) -> Job:
        with self.store.read() as r:
            found = r.job(job_id)
        assert found is not None
        return found

    def change_job(self, job_id: JobId, **changes: Any) -> None:
        with self.store.write() as w:
            job = w.job(job_id)
            assert job is not None
            w.save_job(replace(job, **changes))
        self.spool.notify(job_id)

    def start(self, job_id: JobId, number: int = 1, ranks: int = 1, node: int = 0) -> list[Part]:
        """What a plan and its start leave in the store."""
        parts = [
            Part(
                *(
                    job_id,
                    number,
                    rank,
                    NODES[node + rank],
                    "train",
                    (0,),
                    (DeviceUuid(f"GPU-{NODES[node + rank]}-0"),),
                ),
                AttemptState.RUNNING,
                pid=100 + rank,
            )
            for rank in range(ranks)
        ]
        with self.store.write() as w:
            w.add_attempt(Attempt(job_id, number, "ab" * 16, AttemptState.RUNNING, created=5.0), parts)
        return parts

    def change_part(self, part: Part, **changes: Any) -> None:
        with self.store.write() as w:
            w.save_part(replace(part, **changes))
        self.spool.notify(part.job_id)

    def notice(self, job_id: JobId, text: str) -> None:
        with self.store.write() as w:
            w.audit(Audit(6.0, "master", "notice", job_id=job_id, detail=text))
        self.spool.notify(job_id)


def submission(request_id: str, **options: str) -> dict[str, Any]:
    command = {"form": "argv", "words": ["echo", "\udcff"], "script": "", "script_name": ""}
    return {
        "request_id": request_id,
        "kind": "srun",
        "command": command,
        "options": options,
        "env": {},
        "cwd": "/",
        "virtual_env": "",
    }


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    made = Served(folder)
    yield made
    made.close()
