"""A lab as a whole: its folder, its lock, up, down, and the files by which mgpu and people reach it.

Everything that a lab has follows from its folder, <root>/<prefix>: any process can find and remove it, also after the
one that made it was killed. The lock is held while a lab is made, and by tests for as long as they use it; an
ephemeral lab that nobody locks is what a killed test run left.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType

from tests.lab import namespaces
from tests.lab.loopback import LoopbackNode, free_ports
from tests.lab.namespaces import NamespacedNode
from tests.lab.network import Links, free_network
from tests.lab.node import LabError, Node, Plan
from tests.lab.processes import kill_all, send, with_files_in
from tests.lab.sshd import client_configuration, known_hosts, make_keys

PREFIX = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
Lock = int  # an open file, flocked


@dataclass(frozen=True)
class Settings:
    """What `up` is asked for. `gpus` per node, or a number for each; `config` is text for cluster_config.yaml."""

    nodes: int = 2
    gpus: int | tuple[int, ...] = 4
    gpu_name: str = "NVIDIA A100-SXM4-80GB"
    memory_mib: int = 81920
    shared_home: bool = False
    max_sessions: int = 10
    max_startups: str = "10:30:100"
    ephemeral: bool = False
    config: str = ""

    def gpus_of(self, position: int) -> int:
        return self.gpus if isinstance(self.gpus, int) else self.gpus[position]


class Lab:
    """`with Lab(Settings(...), prefix) as lab:` or `Lab.load(prefix)` for one that is up."""

    def __init__(self, settings: Settings, prefix: str = "lab", mode: str = "") -> None:
        if not PREFIX.fullmatch(prefix):
            raise LabError(f"a lab's prefix is made of a-z, 0-9 and -, not {prefix!r}")
        if not 1 <= settings.nodes <= 250:
            raise LabError(f"a lab has 1 to 250 nodes, not {settings.nodes}")
        if not isinstance(settings.gpus, int) and len(settings.gpus) != settings.nodes:
            raise LabError(f"{len(settings.gpus)} GPU counts for {settings.nodes} nodes")
        self.settings = settings
        self.prefix = prefix
        self.mode = mode or choose_mode()
        self.folder = root() / prefix
        self.config_path = self.folder / "cluster_config.yaml"
        self.state_dir = self.folder / "state"
        self.ssh_config = self.folder / "ssh_config"
        self.key = self.folder / "id_ed25519"
        self.known_hosts = self.folder / "known_hosts"
        self.nodes: list[Node] = []
        self._lock: Lock | None = None

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise LabError(f"no node {name}; there are {', '.join(node.name for node in self.nodes)}")

    def up(self) -> None:
        """Makes it, after removing what is left of an earlier one of this prefix."""
        self._remove()
        self.folder.mkdir(mode=0o700)
        (self.folder / "nodes").mkdir()
        self._write_record([])
        plans = self._plan()
        self._write_record(plans)
        self.nodes = [self._make(plan) for plan in plans]
        for node in self.nodes:
            node.folder.mkdir()
        make_keys([self.key, *(node.folder / "host_key" for node in self.nodes)])
        authorized = self.key.with_suffix(".pub").read_text()
        if self.mode == "namespaces":
            namespaces.mount_fs(self.folder)
        for node in self.nodes:
            node.prepare(authorized, self.settings.max_sessions, self.settings.max_startups)
            node.gpus.create(node.plan.gpus, self.settings.gpu_name, self.settings.memory_mib)
            self._write_hosts(node)
            node.start()
        self._write_files()
        for node in self.nodes:
            node.wait_for_sshd()

    def down(self) -> None:
        self._remove()
        if self._lock is not None:
            release_lock(self.prefix, self._lock)
            self._lock = None

    def __enter__(self) -> Lab:
        self._lock = take_lock(self.prefix)
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @classmethod
    def load(cls, prefix: str) -> Lab:
        """One that is up, or whose making was cut short."""
        try:
            record = json.loads((root() / prefix / "lab.json").read_text())
        except (OSError, ValueError):
            raise LabError(f"no lab {prefix}; make one: scripts/lab up 2 --prefix {prefix}") from None
        settings = record["settings"]
        if isinstance(settings["gpus"], list):
            settings["gpus"] = tuple(settings["gpus"])
        lab = cls(Settings(**settings), prefix, record["mode"])
        lab.nodes = [lab._make(Plan(**plan)) for plan in record["nodes"]]
        return lab

    def _make(self, plan: Plan) -> Node:
        kind = NamespacedNode if self.mode == "namespaces" else LoopbackNode
        return kind(self.folder, plan, shared_home=self.settings.shared_home)

    def _plan(self) -> list[Plan]:
        numbers = range(1, self.settings.nodes + 1)
        if self.mode == "loopback":
            places = [("127.0.0.1", port) for port in free_ports(self.settings.nodes)]
        else:
            with _flock(root() / ".network.lock"):
                network = free_network(str(self.folder))
                Links(self.folder).create_bridge(network)
            places = [(str(network[number]), 22) for number in numbers]
        return [
            Plan(f"node{number:03}", number, *place, self.settings.gpus_of(number - 1))
            for number, place in zip(numbers, places, strict=True)
        ]

    def _remove(self) -> None:
        if not self.folder.exists():
            return
        try:
            found = Lab.load(self.prefix)
        except LabError:  # killed before its record was written: nothing else was made then
            found = self
        for node in found.nodes:
            node.stop()
        self._stop_master()
        if found.mode == "namespaces":
            Links(self.folder).remove()
            namespaces.unmount_fs(self.folder)
        shutil.rmtree(self.folder)

    def _stop_master(self) -> None:
        """A master that was started for this lab and still has its database open: it has nothing left to do."""
        for process in with_files_in(self.state_dir):
            send(process, signal.SIGTERM)
        deadline = monotonic() + 3
        while with_files_in(self.state_dir) and monotonic() < deadline:
            sleep(0.02)
        kill_all(lambda: with_files_in(self.state_dir))

    def _write_record(self, plans: list[Plan]) -> None:
        record = {"mode": self.mode, "settings": asdict(self.settings), "nodes": [asdict(plan) for plan in plans]}
        fresh = self.folder / "lab.json.new"
        fresh.write_text(json.dumps(record, indent=1))
        fresh.replace(self.folder / "lab.json")

    def _write_hosts(self, node: Node) -> None:
        if isinstance(node, NamespacedNode):
            lines = [f"{other.address} {other.name}\n" for other in self.nodes]
            (node.upper / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))

    def _write_files(self) -> None:
        self.known_hosts.write_text(known_hosts(self.nodes, "host_key.pub"))
        self.ssh_config.write_text(client_configuration(self.folder, self.nodes))
        self.config_path.write_text(self.cluster_config())
        for path in (self.known_hosts, self.ssh_config, self.config_path):
            path.chmod(0o600)

    def cluster_config(self) -> str:
        """A complete configuration for mgpu; short intervals, so that tests and people need not wait."""
        user = self.nodes[0].user
        nodes = "".join(
            f"  - {{node_id: {node.name}, hostname: {node.name}, ip: {node.address},"
            f" ssh: {{port: {node.port}}}, gpu_count: {node.plan.gpus}}}\n"
            for node in self.nodes
        )
        head = f"""\
cluster: {{name: {self.prefix}}}
master: {{mode: personal, state_dir: {self.state_dir}}}
defaults:
  ssh: {{user: {user}, identity_file: {self.key}, known_hosts: {self.known_hosts}}}
nodes:
{nodes}"""
        default = "networking: {heartbeat_interval: 2, timeout: 10, login_timeout: 5, probe_timeout: 10}\n"
        return head + (self.settings.config or default)


def choose_mode() -> str:
    """LAB_MODE, else namespaces where they can be made, else loopback."""
    wanted = os.environ.get("LAB_MODE", "")
    if wanted == "loopback":
        return "loopback"
    obstacle = namespaces.possible()
    if wanted == "namespaces" and obstacle:
        raise LabError(f"no lab in namespaces here: {obstacle}")
    if wanted not in ("", "namespaces"):
        raise LabError(f"LAB_MODE is namespaces or loopback, not {wanted}")
    return "loopback" if obstacle else "namespaces"


def root() -> Path:
    """The folder of all labs of this user, 0700. Short: unix sockets lie below it."""
    folder = Path(os.environ.get("LAB_DIR") or f"/tmp/mgpu-lab-{os.geteuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()
    if state.st_uid != os.geteuid() or state.st_mode & 0o022 or folder.is_symlink():
        raise LabError(f"{folder} is not yours alone; remove it or set LAB_DIR")
    return folder


def take_lock(prefix: str) -> Lock:
    """Raises LabError when another process holds that lab."""
    file = root() / f"{prefix}.lock"
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise LabError(f"the lab {prefix} is in use by another process; take another --prefix") from None
        if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
            return handle
        os.close(handle)  # removed by its last holder between our open and our lock


def release_lock(prefix: str, lock: Lock) -> None:
    (root() / f"{prefix}.lock").unlink(missing_ok=True)
    os.close(lock)


@contextmanager
def _flock(file: Path) -> Iterator[None]:
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def all_labs() -> list[str]:
    return sorted(record.parent.name for record in root().glob("*/lab.json"))


def sweep() -> list[str]:
    """Removes the ephemeral labs that killed test runs left."""
    removed = []
    for prefix in all_labs():
        try:
            lab = Lab.load(prefix)
            if not lab.settings.ephemeral:
                continue
            lab._lock = take_lock(prefix)
        except LabError:  # in use, or taken down just now by whoever made it
            continue
        lab.down()
        removed.append(prefix)
    return removed
