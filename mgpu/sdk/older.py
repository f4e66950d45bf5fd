"""The classes of the older system under their names there, with their arguments, over what is here today.

What changed with the ground under them: a master asks for a token where it is reached over TCP (docs/remote.md), a node
has no agent, and a job goes on when nobody follows it any more.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mgpu import clock
from mgpu.client.http import UNREADABLE, MasterError
from mgpu.client.job_stream import Event
from mgpu.client.older import DEFAULTS
from mgpu.client.place import url_of
from mgpu.endpoint import PORT
from mgpu.sdk.client import Client
from mgpu.sdk.running import Sinks
from mgpu.sdk.values import Job, JobId, Node, Output
from mgpu.whereabouts import environment

AGENT_PORT = 8081  # of the former agent
STATUS = {"UP": "online", "DRAINING": "maintenance", "DRAINED": "maintenance"}  # of any other: offline
STOP_S = 30.0


class SimpleClient:
    """`SimpleClient("head", 8080).submit_job(gpus=2, cmd="python train.py")`.

    Each method answers with a dict whose "status" is "ok", or "error" with "message" and "code"; as it was there,
    nothing that the master refuses is raised."""

    def __init__(self, host: str | None = None, port: int | None = None) -> None:
        """Without either: the master that commands would ask. Beyond this machine it is TLS, and there a token is asked
        for. Raises MasterError for what is no address."""
        url = url_of(host or "", str(port or ""), os.environ) if host or port else None
        self.client = Client(url)

    def submit_job(
        self,
        gpus: int = 1,
        cmd: str = "",
        interactive: bool = False,
        node_gpu_ids: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Queues a shell's command line: {"status", "job_id", "message"}.

        `interactive`: its output comes to our stdout and stderr until it ends, and "state" and "exit_code" are told.
        That ends after `session_timeout` (7200) seconds in all, `max_wait_time` (300) without output,
        `connection_timeout` (30) without a master or `max_consecutive_timeouts` (30) failures to reach one; "status" is
        "timeout" then, and the job goes on; None = without that limit. `options`: all that Client.submit takes."""
        told = {name: options.pop(name, default) for name, default in DEFAULTS.items()}
        limits = {name: math.inf if value is None else float(value) for name, value in told.items()}
        try:
            job = self.client.submit(cmd, gpus=gpus, node_gpu_ids=node_gpu_ids, **options)
            answer = {"status": "ok", "job_id": job.job_id, "message": "Job submitted"}
            return {**answer, **self._follow(job.job_id, limits)} if interactive else answer
        except MasterError as error:
            return _error(error)

    def queue(self) -> dict[str, Any]:
        """{"status", "jobs", "nodes"}. Of a job "job_id", "status" (running, queued), "where" ("node002:gpu0") or
        "waiting_for" (how many GPUs), "user", "cmd"; of a node "node_id", "status", "gpus", "free", "busy"."""
        try:
            jobs, nodes = self.client.queue(), self.client.nodes()
        except MasterError as error:
            return _error(error)
        return {
            "status": "ok",
            "jobs": [_queued(job) for job in jobs],
            "nodes": [NodeInfo.of(node).as_row() for node in nodes],
        }

    def cancel_job(self, job_id: JobId) -> dict[str, Any]:
        """Ends a job, waiting or running."""
        try:
            self.client.cancel(job_id)
        except MasterError as error:
            return _error(error)
        return {"status": "ok", "job_id": job_id, "message": f"Job {job_id} cancelled"}

    def _follow(self, job_id: int, limits: dict[str, float]) -> dict[str, Any]:
        sinks, watch = Sinks(capture=False), _Watch(limits)
        followed = self.client.follow(job_id, {}, {}, session=True)
        with closing(followed.items()) as items:
            for item in items:
                if isinstance(item, Output):
                    sinks.write(item)
                elif item is not None and item.name == "end":
                    job = Job.of(item.body["job"])
                    return {"state": job.state, "exit_code": job.exit_status, "message": job.ending}
                if exceeded := watch.exceeded(item):
                    break
        text = f"stopped following after {exceeded} = {limits[exceeded]:g}: job {job_id} goes on"
        return {"status": "timeout", "message": text}


class _Watch:
    """What of the older limits following a job has come to."""

    def __init__(self, limits: dict[str, float]) -> None:
        self._limits = limits
        self._began = self._heard = clock.monotonic()
        self._lost: float | None = None
        self._failures = 0

    def exceeded(self, item: Output | Event | None) -> str:
        """The limit's name; "" = none."""
        now = clock.monotonic()
        if isinstance(item, Output):
            self._heard = now
        elif item is not None and item.name == "lost":
            self._lost, self._failures = self._lost or now, int(item.body["count"])
        elif item is not None and item.name == "found":
            self._lost, self._failures = None, 0
        come_to = {
            "session_timeout": now - self._began,
            "max_wait_time": now - self._heard,
            "connection_timeout": 0.0 if self._lost is None else now - self._lost,
            "max_consecutive_timeouts": self._failures,
        }
        return next((name for name, value in come_to.items() if value > self._limits[name]), "")


class SimpleMaster:
    """`SimpleMaster("0.0.0.0", 8080).start_server()`: a master that listens there, of this machine's configuration and
    state directory, as `mgpu_master` is. It is a process of its own."""

    def __init__(self, host: str = "0.0.0.0", port: int = PORT, *, verbose: bool = False) -> None:
        """`verbose`: all that happens is told on stderr."""
        words = ["--host", host, "--port", str(port), *(["--verbose"] if verbose else [])]
        self._argv = _program("master", words)
        self._process: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        """Returns when it has ended: by `stop_server` from another thread, ^C, or `mgpu stop`. Jobs run on. Raises
        MasterError if it could not be; it has said why on stderr."""
        self._process = process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, env=environment(os.environ))
        try:
            status = process.wait()
        except BaseException:
            self.stop_server()
            raise
        if status not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            what = f"the master ended with exit status {status}"
            raise MasterError("error", what, "it has said why, on stderr", status)

    def stop_server(self) -> None:
        """Returns when it is gone."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class SimpleNode:
    """`SimpleNode("node1", "head", 8080).start_agent()`: registers this machine with the master there, as `mgpu_node`
    does. Nothing is left running here: the master reaches the machine by SSH. `port` was the agent's, and means nothing
    now. `gpu_count` None = all that nvidia-smi shows; `host`: this machine's address, if not the one that is found."""

    def __init__(
        self,
        node_id: str,
        master_host: str | None = None,
        master_port: int | None = None,
        port: int = AGENT_PORT,
        gpu_count: int | None = None,
        host: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.port = port
        given = {
            "--node-id": node_id,
            "--master-host": master_host,
            "--master-port": master_port,
            "--gpu-count": gpu_count,
            "--host": host,
        }
        words = [f"{flag}={value}" for flag, value in given.items() if value is not None]
        self._argv = _program("node", ["--json", *words])

    def start_agent(self) -> NodeInfo:
        """The node as the master sees it, once it has looked. Raises MasterError where it cannot get in, or refuses."""
        done = subprocess.run(
            self._argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(os.environ),
            check=False,
            text=True,
        )
        if done.returncode:
            raise _told(done.stderr, done.returncode)
        sys.stderr.write(done.stderr)
        return NodeInfo.of(Node.of(json.loads(done.stdout)))


@dataclass(slots=True)
class NodeInfo:
    """A node in the older system's words. `status`: online, offline or maintenance; `last_heartbeat`: when it was last
    seen, in seconds since 1970, 0 = never; `gpu_count`, `free`, `busy`: its GPUs."""

    node_id: str
    hostname: str
    ip: str
    port: int = AGENT_PORT
    gpu_count: int = 0
    status: str = "offline"
    last_heartbeat: float = 0.0
    free: int = 0
    busy: int = 0

    @classmethod
    def of(cls, node: Node) -> NodeInfo:
        return cls(
            node_id=node.node_id,
            hostname=node.hostname,
            ip=node.address,
            gpu_count=len(node.gpus),
            status=STATUS.get(node.state, "offline"),
            last_heartbeat=node.last_seen.timestamp() if node.last_seen else 0.0,
            free=node.free,
            busy=sum(gpu.state in ("allocated", "external") for gpu in node.gpus),
        )

    def as_row(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "status": self.status,
            "gpus": self.gpu_count,
            "free": self.free,
            "busy": self.busy,
        }


class NodeManager:
    """The nodes of a master: those that are to be registered from here, and all that it has."""

    def __init__(self, master_host: str | None = None, master_port: int | None = None) -> None:
        self._master = master_host, master_port
        self._to_register: list[SimpleNode] = []

    def add_node(
        self, node_id: str, port: int = AGENT_PORT, gpu_count: int | None = None, host: str | None = None
    ) -> SimpleNode:
        """One that `start_all` registers: this machine, under that name."""
        self._to_register.append(SimpleNode(node_id, *self._master, port, gpu_count, host))
        return self._to_register[-1]

    def start_all(self) -> list[NodeInfo]:
        """Raises MasterError for the first that cannot be registered."""
        return list(self._started())

    def _started(self) -> Iterator[NodeInfo]:
        while self._to_register:
            yield self._to_register[0].start_agent()
            del self._to_register[0]

    def nodes(self) -> dict[str, NodeInfo]:
        """All of the master's inventory, by name. Raises MasterError."""
        with self._client() as client:
            return {node.node_id: NodeInfo.of(node) for node in client.nodes()}

    def test_connection(self, node_id: str) -> bool:
        """Whether the master reaches it now. Raises MasterError for one that is not there."""
        with self._client() as client:
            return not client.node(node_id, probe=True).raw.get("probe_failure")

    def _client(self) -> Client:
        return SimpleClient(*self._master).client


def _queued(job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {"job_id": job.job_id, "user": job.user, "cmd": " ".join(job.command)}
    if job.state == "PENDING":
        return {**row, "status": "queued", "waiting_for": job.gpus}
    gpus = [f"{part.node}:gpu{device}" for part in job.allocation for device in part.devices]
    return {**row, "status": "running", "where": ",".join(gpus or (part.node for part in job.allocation))}


def _error(error: MasterError) -> dict[str, Any]:
    return {"status": "error", "message": error.told, "code": error.code}


def _program(name: str, words: list[str]) -> list[str]:
    """One of the older commands, as a process: what it does is the master's machine's, and not this program's."""
    return [sys.executable, "-c", f"from mgpu.cli import older; older.run_{name}()", *words]


def _told(stderr: str, status: int) -> MasterError:
    """The error that a command told with --json."""
    for line in reversed(stderr.splitlines()):
        try:
            error = json.loads(line)["error"]
            return MasterError(str(error["code"]), str(error["message"]), str(error.get("hint", "")), status)
        except UNREADABLE:
            continue
    return MasterError("error", stderr.strip() or f"it ended with exit status {status}", "", status)
