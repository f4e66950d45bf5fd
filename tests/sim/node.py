"""A node that does what remote/node.sh does, and keeps what a disk keeps: run directories outlive reboots.

Its operations are carried out at once; who calls them decides when, whether the caller hears of it, and whether again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mgpu.core.launch import Launch
from mgpu.core.lifecycle import START_HANGS
from mgpu.core.observation import RawProbe
from mgpu.core.reconcile import NodeAnswer, PartAnswer
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import Refusal, Source
from tests.sim.supervisor import Supervised
from tests.sim.truth import Truth
from tests.sim.weather import CALM, Weather
from tests.sim.world import World

FOREIGN_PID = 77


@dataclass
class RunDirectory:
    records: dict[str, str] = field(default_factory=dict)
    script: bool = False
    output: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    cleaned: bool = False


class VirtualNode:
    def __init__(self, world: World, truth: Truth, name: str, gpus: int, on_event: Callable[[str, str], None]) -> None:
        self.world = world
        self.truth = truth
        self.name = name
        self.uuids = tuple(f"GPU-{name}-{index}" for index in range(gpus))
        self.on_event = on_event
        self.weather: Weather = CALM
        self.on = True
        self.reachable = True
        self.boots = 1
        self.supervised: dict[str, Supervised] = {}
        self.foreign_processes: set[str] = set()
        self.foreign_leases: set[str] = set()
        self.disk_full = ""  # "blocks", or also "inodes"
        self.smi_fault = ""
        self._trees: set[str] = set()
        self._directories: dict[str, RunDirectory] = {}
        self._booted = world.time - 1000.0
        self._pid = 1000

    # --- the machine ------------------------------------------------------------------------------------------------

    @property
    def uptime(self) -> float:
        return self.world.time - self._booted

    @property
    def boot_id(self) -> str:
        return f"boot-{self.name}-{self.boots}"

    def new_pid(self) -> int:
        self._pid += 10
        return self._pid

    def later(self, delay: float, step: Callable[[], None]) -> None:
        """Unless the machine goes down before."""
        boots = self.boots

        def due() -> None:
            if self.on and self.boots == boots:
                step()

        self.world.after(delay, due)

    def power_off(self) -> None:
        self.world.note(f"{self.name}: goes down")
        self.on = False
        for supervised in self.supervised.values():
            supervised.die()
        self.supervised.clear()
        self.foreign_processes.clear()
        self.foreign_leases.clear()

    def boot(self) -> None:
        self.world.note(f"{self.name}: boots")
        self.boots += 1
        self._booted = self.world.time
        self._pid = 1000
        self.on = True

    def lease_holder(self, uuids: Sequence[str], asking: Supervised) -> str:
        for uuid in uuids:
            if uuid in self.foreign_leases:
                return "another mgpu"
            for key, other in self.supervised.items():
                if other is not asking and other.holds_lease and uuid in other.uuids:
                    return key
        return ""

    # --- what node.sh can be asked ----------------------------------------------------------------------------------

    def directory(self, key: str) -> RunDirectory:
        return self._directories.setdefault(key, RunDirectory())

    def find(self, key: str) -> RunDirectory | None:
        return self._directories.get(key)

    def start(self, key: str, token: str, uuids: tuple[str, ...], launch: Launch) -> Refusal | None:
        if key not in self._directories and self.disk_full == "inodes":
            return Refusal("cannot create directory: No space left on device")
        directory = self.directory(key)
        if "pid" in directory.records:
            return None
        if self.disk_full:
            if self.disk_full == "blocks":
                directory.records["pid"] = "fenced"
            return Refusal("cannot write (disk full or quota reached?)")
        if launch.tree and launch.tree not in self._trees:
            self.truth.violate(f"{key} was started on {self.name} before its tree was there")
        directory.script = True
        story = self.truth.story(key, self.name, uuids)
        supervised = Supervised(self, key, token, uuids, launch, story)
        self.later(self.world.pause(0.1, 90 if self.world.chance(self.weather.hangs) else 3), supervised.gate)
        return None

    def take_tree(self, digest: str, source: Source) -> Refusal | None:
        if self.disk_full:
            return Refusal("cannot write the shipped tree (disk full or quota reached?)")
        if digest not in self._trees:
            file, _ = source()
            file.close()
            self._trees.add(digest)
        return None

    def look(self, keys: Sequence[str]) -> tuple[dict[str, PartAnswer], float, str]:
        found = {}
        for key in keys:
            directory = self.find(key)
            if directory is None:
                continue
            supervised = self.supervised.get(key)
            alive = supervised is not None and supervised.leader
            output = directory.output
            sizes = None if directory.cleaned else (len(output["stdout"]), len(output["stderr"]))
            if directory.records or sizes:
                found[key] = PartAnswer(dict(directory.records), alive, sizes, "starting")
        return found, self.uptime, self.boot_id

    def stop(self, key: str, token: str, reason: str) -> str:
        directory = self.find(key)
        if (directory is None or "pid" not in directory.records) and self.disk_full == "inodes":
            raise RemoteError(f"the node cannot stop {key}: cannot lay a fence (disk full, or no home?)")
        records = self.directory(key).records
        gate = records.setdefault("pid", "fenced")
        if gate == "fenced":
            return "fenced"
        if gate.rpartition(":")[2] != token:
            raise RemoteError(f"the node cannot stop {key}: token {gate}")
        if "clean" in records or gate.split(":")[2] != self.boot_id:
            return "ended"
        if reason == START_HANGS and "started" in records:
            return "begun"
        if "stop" not in records:
            records["stop"] = reason
            self.world.note(f"{self.name}: {key} is told to stop: {reason}")
        supervised = self.supervised[key]
        supervised.launch_reaper()
        self.later(self.world.between(0, 0.1), supervised.look_at_go)
        return "stopping"

    def go(self, key: str, word: str) -> str:
        directory = self.find(key)
        if directory is None:
            return ""
        value = directory.records.setdefault("go", word)
        supervised = self.supervised.get(key)
        if supervised is not None:
            self.later(self.world.between(0, 0.1), supervised.look_at_go)
        return value

    def limit(self, key: str, token: str, seconds: int | None) -> None:
        directory, supervised = self.find(key), self.supervised.get(key)
        if directory is None or supervised is None or supervised.token != token:
            return
        if "started" in directory.records and "exit" not in directory.records:
            supervised.set_limit(seconds)

    def clean(self, keys: Sequence[str]) -> None:
        for key in keys:
            directory = self.find(key)
            if directory is None:
                continue
            for name in directory.records.keys() - {"pid", "exit", "clean"}:
                del directory.records[name]
            directory.script = False
            directory.cleaned = True

    def read(self, key: str, stream: str, offset: int, limit: int) -> tuple[bytes, int]:
        directory = self.find(key)
        if directory is None or directory.cleaned or not (directory.script or directory.output[stream]):
            raise RemoteError("the output file is gone from the node", Trouble.GONE)
        data = directory.output[stream]
        return bytes(data[offset : offset + limit]), len(data)

    def probe(self) -> RawProbe:
        gpus = "".join(
            f"{index}, {uuid}, 00000000:{index + 1:02X}:00.0, NVIDIA A100-SXM4-80GB, 81920, 0, 0\n"
            for index, uuid in enumerate(self.uuids)
        )
        pids: dict[str, list[tuple[int, int]]] = {uuid: [] for uuid in self.uuids}
        processes = []
        for key, ours in self.supervised.items():
            if ours.command or ours.child:
                pid = ours.pid + 2
                for uuid in ours.uuids:
                    pids[uuid].append((pid, 500))
                processes.append(f"{pid} alice 5 {ours.pid} {ours.token} job-{key}")
        for uuid in sorted(self.foreign_processes):
            pids[uuid].append((FOREIGN_PID, 9000))
            processes.append(f"{FOREIGN_PID} bob 100 70 - python")
        told = "".join(
            f"GPU 00000000:{index + 1:02X}:00.0\n    Processes{'' if there else ' : None'}\n"
            + "".join(f"        Process ID : {pid}\n            Used GPU Memory : {mib} MiB\n" for pid, mib in there)
            for index, there in enumerate(pids.values())
        )
        return RawProbe(
            boot_id=self.boot_id,
            hostname=self.name,
            epoch_s=self.world.now(),
            gpu_status=124 if self.smi_fault == "hangs" else 0,
            gpu_text="" if self.smi_fault == "hangs" else gpus,
            pids_status=0,
            pids_text="what is this\n" if self.smi_fault == "noise" else told,
            process_text="\n".join(processes) + "\n",
            smi_path="/usr/bin/nvidia-smi",
        )


def answer(found: tuple[dict[str, PartAnswer], float, str], at: float) -> NodeAnswer:
    parts, uptime, boot_id = found
    return NodeAnswer(parts, uptime, boot_id, at)
