"""A node as we know it, and what it says: what a probe brings back, and what was read out of it.

    RawProbe -> Observation -> Node (stored)

Units as in `model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mgpu.core.model import DeviceUuid, JobId, NodeName, NodeState, Word


@dataclass(frozen=True, slots=True)
class RawProbe:
    """What the node's `probe` printed, cut into its sections.

    `gpu_text`: stdout of `nvidia-smi --query-gpu=FIELDS --format=csv,noheader,nounits`, FIELDS being those of `fields`
    (smi.gpus.FIELDS without what the driver does not know); `pids_text`: stdout of `nvidia-smi -q -d PIDS`; each with
    its exit status (127 = no nvidia-smi; 124 = it hung and was killed; 75 = one that could not be killed is left; 153 =
    it printed too much). `mig_list` and `mig_table`: `nvidia-smi -L` and plain `nvidia-smi`, where a GPU is cut up.
    `process_text`: for each pid of `pids_text` that the node has, a line `pid user age_s session token command` ("-" =
    not told; the command comes last and may hold spaces). `keepout`: `user message` of who withholds the machine.
    `check_status`, `check_text`: of the site's own health check; None = there is none. `facts_text`: lines `cpus N`,
    `load L`, `memory TOTAL_KIB AVAILABLE_KIB`, `disk FREE_KIB`, and after `topology` and `kernel` the texts of
    `nvidia-smi topo -m` and what the kernel's log says of GPUs ("-" = it may not be read). `obstructed`: lines `UUID
    OWNER`, the GPUs and instances whose lease cannot be taken, and whose the thing is that stands there. What costs
    most, and the clock, is asked for now and then only."""

    boot_id: str
    hostname: str
    epoch_s: float | None  # None = not asked this time
    gpu_status: int
    gpu_text: str
    pids_status: int
    pids_text: str
    process_text: str
    fields: tuple[str, ...] = ()  # () = the usual ones
    smi_path: str = ""  # as configured, or found; "" = not found
    searched: str = ""  # the PATH searched
    mig_list: str = ""
    mig_table: str = ""
    keepout: str = ""
    obstructed: str = ""
    check_status: int | None = None
    check_text: str = ""
    facts_text: str = ""
    topology_text: str | None = None  # None = not asked this time
    kernel_text: str | None = None
    took_s: int = 0  # all that nvidia-smi was asked


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU, or one MIG instance (`parent` is its GPU's UUID), as nvidia-smi reports it. `fault` "" = nothing wrong
    seen; None = the tool does not say. `doubt`: why nobody can tell whether it is free, though nothing seems wrong with
    it. `mig`: it is cut up, and only its instances compute. `instance`: (GPU instance, compute instance) numbers."""

    index: int | None
    uuid: DeviceUuid
    bus_id: str
    name: str
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    utilization: int | None = None
    fault: str = ""
    doubt: str = ""
    compute_mode: str = ""
    mig: bool = False
    temperature_c: int | None = None
    power_w: int | None = None
    ecc_errors: int | None = None  # uncorrected ones since the driver was loaded
    parent: DeviceUuid | None = None
    instance: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU. `session` is its session id, `token` that of the attempt it came from, if readable. `kind`: C
    computes, G draws, C+G both, M serves MPS."""

    pid: int
    uuid: DeviceUuid
    memory_mib: int | None = None
    user: str = ""
    command: str = ""
    age_s: int | None = None
    session: int | None = None
    token: str = ""
    exists: bool = True  # False: nvidia-smi names a pid that the node no longer has
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node has besides GPUs. None and "" = not told."""

    cpus: int | None = None
    load: float | None = None  # of the last minute, in processes
    memory_total_mib: int | None = None
    memory_available_mib: int | None = None
    disk_free_mib: int | None = None  # where jobs are kept
    driver: str = ""
    cuda: str = ""  # the newest that the driver can do
    links: tuple[tuple[int, int, int], ...] = ()  # NVLink: (GPU, GPU, links)
    xid: tuple[str, ...] = ()  # the kernel's last words about GPUs
    kernel_readable: bool | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """A node's parsed answer. `fault` "" = the GPUs could be read; else why not, and all of them are unknown.
    `trouble`: why nothing may start there at all: somebody keeps the machine, or the site's check fails. `gone`: GPUs
    that were told of since it has booted, and no longer are."""

    node: NodeName
    at: float
    boot_id: str
    hostname: str
    gpus: tuple[GpuReading, ...] = ()
    gone: tuple[GpuReading, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    fault: str = ""
    clock_offset_s: float = 0.0  # node's clock minus ours
    notes: tuple[str, ...] = ()  # rows that could not be read, in words
    trouble: str = ""
    machine: Machine = Machine()
    smi_took_s: int = 0  # to tell of its GPUs
    hangs: int = 0  # in so many looks on end it hung


class MarkKind(Word):
    DRAINED = "drained"  # an operator's word: nothing new starts there until another word
    SUSPECT = "suspect"  # one job after the other failed there: used last


WHOLE = DeviceUuid("")  # a mark on the node as a whole


@dataclass(frozen=True, slots=True)
class Mark:
    """What is held against a node or one GPU of it beside what probes tell. `since` as people read it (ISO 8601, UTC):
    nothing is computed with it."""

    kind: MarkKind
    by: str
    since: str
    reason: str = ""
    device: DeviceUuid = WHOLE


@dataclass(frozen=True, slots=True)
class Streak:
    """Different jobs that failed quickly on a GPU, one after the other, with when each began; the latest ones."""

    device: DeviceUuid
    jobs: tuple[tuple[JobId, float], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A row per node of the inventory. `observation` is the last good one, `reason` what speaks against contact."""

    name: NodeName
    state: NodeState = NodeState.UNKNOWN
    reason: str = ""
    since: float | None = None  # of that state
    last_seen: float | None = None
    failures: int = 0  # in a row
    observation: Observation | None = None
    marks: tuple[Mark, ...] = ()
    streaks: tuple[Streak, ...] = ()

    def mark(self, kind: MarkKind, *devices: DeviceUuid | None) -> Mark | None:
        """The first of that kind on one of these."""
        return next((mark for mark in self.marks if mark.kind is kind and mark.device in devices), None)
