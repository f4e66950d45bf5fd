"""Variables, files and exit codes of the commands, and the variables of jobs."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from mgpu.cli import variables
from mgpu.cli.manual import EXIT_CODES, FILES, OF_THE_JOB
from mgpu.core import environment
from scripts.pages.table import code, table

# What a task is told: each name that mgpu.core.environment sets is here, or the page cannot be made.
OF_JOBS = {
    "CUDA_VISIBLE_DEVICES": "its GPUs on this node, by index of this boot; by UUID for MIG, and once a GPU was lost",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID: indices are those of nvidia-smi",
    "MGPU_JOB_ID": "the job's number",
    "MGPU_ATTEMPT": "which try this is, from 1",
    "MGPU_RANK": "which of the job's nodes this is, from 0",
    "MGPU_NNODES": "how many nodes it has",
    "MGPU_NODE_ID": "the node's name in the inventory",
    "MGPU_NODELIST": "those of all its nodes, as in gpu[01-02]",
    "MGPU_GPUS": "how many GPUs it has in all",
    "MGPU_ARRAY_INDEX": "of a task of an array: its index",
    "MGPU_SHIP_COMMIT": "with --ship: the commit that the tree is at",
    "MGPU_SHIP_DIRTY": "with --ship: 1 if it has changes beyond that",
    "SLURM_JOB_ID": "as MGPU_JOB_ID",
    "SLURM_JOBID": "as MGPU_JOB_ID",
    "SLURM_JOB_NAME": "the job's name",
    "SLURM_NODELIST": "its nodes, by the names under which they reach each other",
    "SLURM_JOB_NODELIST": "as SLURM_NODELIST",
    "SLURM_NNODES": "as MGPU_NNODES",
    "SLURM_JOB_NUM_NODES": "as MGPU_NNODES",
    "SLURM_NODEID": "as MGPU_RANK",
    "SLURM_GPUS_ON_NODE": "how many GPUs it has on this node",
    "SLURM_SUBMIT_DIR": "where it was submitted",
    "SLURM_RESTART_COUNT": "how many tries came before this one",
    "SLURM_ARRAY_JOB_ID": "of a task of an array: the array's number",
    "SLURM_ARRAY_TASK_ID": "as MGPU_ARRAY_INDEX",
    "SLURM_ARRAY_TASK_COUNT": "how many tasks the array has",
    "SLURM_ARRAY_TASK_MIN": "its first index",
    "SLURM_ARRAY_TASK_MAX": "its last index",
    "SLURM_ARRAY_TASK_STEP": "from one index to the next",
    "MASTER_ADDR": "where ranks meet: the address of rank 0's node, the same on all",
    "MASTER_PORT": "at which port: no other job has it",
    "NCCL_SOCKET_IFNAME": "on several nodes, `network.interface` of the inventory",
    "GLOO_SOCKET_IFNAME": "as NCCL_SOCKET_IFNAME",
    "PYTHONUNBUFFERED": "1, unless the job says otherwise: output comes as it is written",
}
# With these MPI's launchers take no real Slurm for granted; told in docs/launchers.md.
OF_MPI = ("OMPI_", "PRTE_", "HYDRA_")
PAGE = """\
# Variables, files, exit codes

## Variables that commands heed

{read}
{of_options}

## Variables that a job finds

Set after start-up files and `setup` ran, so nothing there changes them. What launchers add, and what they leave out on
purpose: [launchers](launchers.md).

{of_jobs}
## Files

{files}
What lies in the state directory, and for how long: [operation](operation.md#what-is-kept-and-for-how-long).

## Exit codes

{codes}
{of_the_job} More: [in scripts](life-of-a-job.md#in-scripts).
"""


def page() -> str:
    return PAGE.format(
        read=table(("variable", "meaning"), ((code(name), text) for name, text in variables.READ.items())),
        of_options=variables.OF_OPTIONS,
        of_jobs=table(("variable", "meaning"), ((code(name), OF_JOBS[name]) for name in sorted(set(_of_jobs())))),
        files=table(("file", "what it is"), ((code(name), text) for name, text in FILES.items())),
        codes=table(("code", "meaning"), ((code(str(number)), text) for number, text in EXIT_CODES.items())),
        of_the_job=OF_THE_JOB,
    )


def _of_jobs() -> Iterator[str]:
    """Every name that is a key there."""
    for node in ast.walk(ast.parse(inspect.getsource(environment))):
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and not str(key.value).startswith(OF_MPI):
                yield str(key.value)
