"""A node as we know it, and what it says: what a probe brings back, and what was read out of it.

    RawProbe -> Observation -> Node (stored)

Units as in `model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mgpu.core.model import DeviceUuid, NodeName, NodeState


@dataclass(frozen=True, slots=True)
class RawProbe:
    """What node.sh `probe` printed, cut into its sections.

    `gpu_text`: stdout of `nvidia-smi --query-gpu=index,uuid,pci.bus_id,name,memory.total,memory.used,utilization.gpu
    --format=csv,noheader,nounits` (fields as in probe.GPU_FIELDS), `apps_text`: stdout of
    `--query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits`, each with its exit status
    (127 = no nvidia-smi; 124 or 137 = it hung and was killed). `process_text`: for each pid of `apps_text` that the
    node has, a line `pid user age_s session token command` (token "-" = none or not readable; the command comes last
    and may hold spaces).
    """

    boot_id: str
    hostname: str
    epoch_s: float
    gpu_status: int
    gpu_text: str
    apps_status: int
    apps_text: str
    process_text: str
    smi_path: str = ""  # "" = not found
    searched: str = ""  # the PATH searched


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU as nvidia-smi reports it. `fault` "" = nothing wrong seen; None = the tool does not say."""

    index: int | None
    uuid: DeviceUuid
    bus_id: str
    name: str
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    utilization: int | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU. `session` is its session id, `token` that of the attempt it came from, if readable."""

    pid: int
    uuid: DeviceUuid
    memory_mib: int | None = None
    user: str = ""
    command: str = ""
    age_s: int | None = None
    session: int | None = None
    token: str = ""
    exists: bool = True  # False: nvidia-smi names a pid that the node no longer has


@dataclass(frozen=True, slots=True)
class Observation:
    """A node's parsed answer. `fault` "" = the GPUs could be read; else why not, and all of them are unknown."""

    node: NodeName
    at: float
    boot_id: str
    hostname: str
    gpus: tuple[GpuReading, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    fault: str = ""
    clock_offset_s: float = 0.0  # node's clock minus ours
    notes: tuple[str, ...] = ()  # rows that could not be read, in words


@dataclass(frozen=True, slots=True)
class Node:
    """A row per node of the inventory. `observation` is the last good one."""

    name: NodeName
    state: NodeState = NodeState.UNKNOWN
    reason: str = ""
    since: float | None = None  # of that state
    last_seen: float | None = None
    failures: int = 0  # in a row
    observation: Observation | None = None
