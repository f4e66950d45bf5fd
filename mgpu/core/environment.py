"""What every task of a job is told about it, whatever starts it."""

from __future__ import annotations

from collections.abc import Sequence

from mgpu.core.array import array_of, count
from mgpu.core.devices import NO_UUID
from mgpu.core.gang import Gang
from mgpu.core.model import DeviceUuid, Job, Tree

# Unless the job says otherwise. MPI's own launchers take SLURM_JOB_ID for a real Slurm, and look for its srun.
ASSUMED = {
    "PYTHONUNBUFFERED": "1",
    "OMPI_MCA_plm": "^slurm",  # Open MPI 4
    "OMPI_MCA_ras": "^slurm",
    "PRTE_MCA_plm": "^slurm",  # Open MPI 5
    "PRTE_MCA_ras": "^slurm",
    "HYDRA_RMK": "user",  # MPICH
    # Open MPI binds ranks to cores, the first ones: those of two jobs on a node would share them
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def environment(gang: Gang, renumbered: bool) -> dict[str, str]:
    """No SLURM_NTASKS or SLURM_PROCID here: libraries take them as "one process a GPU". A launcher that starts so many
    says so. `renumbered`: GPUs are to be named by UUID."""
    job, part, parts = gang.job, gang.part, gang.parts
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices(part.devices, part.uuids, renumbered),
        "MGPU_JOB_ID": str(job.job_id),
        "MGPU_ATTEMPT": str(part.attempt),
        "MGPU_RANK": str(part.rank),
        "MGPU_NNODES": str(len(parts)),
        "MGPU_NODE_ID": part.node,
        "MGPU_NODELIST": gang.nodes,
        "MGPU_GPUS": str(gang.gpus),
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOBID": str(job.job_id),
        "SLURM_JOB_NAME": job.spec.name,
        "SLURM_NODELIST": gang.reached,
        "SLURM_JOB_NODELIST": gang.reached,
        "SLURM_NNODES": str(len(parts)),
        "SLURM_JOB_NUM_NODES": str(len(parts)),
        "SLURM_NODEID": str(part.rank),
        "SLURM_GPUS_ON_NODE": str(len(part.uuids)),
        "SLURM_SUBMIT_DIR": job.spec.submit_dir,
        "SLURM_RESTART_COUNT": str(part.attempt - 1),
        **_array_variables(job),
        **_tree_variables(job.spec.tree),
        **_meeting_point(gang),
    }


def _meeting_point(gang: Gang) -> dict[str, str]:
    """Numeric, and the same on all nodes: better none than a wrong one. A job on one node has a port where ranks are
    started for it: two there would both take the library's own."""
    values = {}
    where = gang.addresses[0] if gang.several else "127.0.0.1"
    if where and gang.attempt.port:
        values = {"MASTER_ADDR": where, "MASTER_PORT": str(gang.attempt.port)}
    if gang.several and gang.interface:
        values |= {"NCCL_SOCKET_IFNAME": gang.interface, "GLOO_SOCKET_IFNAME": gang.interface}
    return values


def _array_variables(job: Job) -> dict[str, str]:
    if job.array_id is None:
        return {}
    indices = array_of(job.spec.array).indices
    return {
        "MGPU_ARRAY_INDEX": str(job.array_index),
        "SLURM_ARRAY_JOB_ID": str(job.array_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_index),
        "SLURM_ARRAY_TASK_COUNT": str(count(indices)),
        "SLURM_ARRAY_TASK_MIN": str(indices[0][0]),
        "SLURM_ARRAY_TASK_MAX": str(indices[-1][-1]),
        "SLURM_ARRAY_TASK_STEP": str(indices[0].step),
    }


def _tree_variables(tree: Tree | None) -> dict[str, str]:
    if tree is None or not tree.commit:
        return {}
    return {"MGPU_SHIP_COMMIT": tree.commit, "MGPU_SHIP_DIRTY": str(int(tree.dirty))}


def visible_devices(indices: Sequence[int], uuids: Sequence[DeviceUuid], by_uuid: bool) -> str:
    """CUDA_VISIBLE_DEVICES; MIG instances and renumbered GPUs only by UUID."""
    told = all(not uuid.startswith(NO_UUID) for uuid in uuids)
    if (by_uuid and told) or any(uuid.startswith("MIG-") for uuid in uuids):
        return ",".join(uuids)
    return ",".join(map(str, indices))
