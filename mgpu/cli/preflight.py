"""mgpu preflight: whether nodes can run a job together."""

from __future__ import annotations

import os

from mgpu.cli.session import Session
from mgpu.cli.syntax import Option, command
from mgpu.client.surroundings import virtual_env, working_directory
from mgpu.wording.figures import count
from mgpu.wording.letters import clean

EXAMPLES = """
Examples:
  mgpu preflight                      all nodes that are up
  mgpu preflight --nodes 2            the first two of them
  mgpu preflight -w gpu01,gpu[05-08]  these
  mgpu preflight -p train --gpu-type A100
"""


@command(
    Option("-N --nodes", "N", "So many nodes, the first that are up."),
    Option("-w --nodelist", "NODES", "These nodes."),
    Option("-p --partition", "NAME", "Nodes of this partition."),
    Option("--gpu-type", "TYPE", "Nodes with such GPUs: A100, or A100|H100."),
    examples=EXAMPLES,
)
def preflight(
    session: Session, /, nodes: str | None, nodelist: str | None, partition: str | None, gpu_type: str | None
) -> int:
    """Find out whether nodes can run a job together, before the job does.

    They call each other, both ways, at a port of the range where ranks meet and at one of the kernel's choice; and it
    is compared what they have: interfaces, driver, CUDA, Python, PyTorch and NCCL as a job there sees them, clocks,
    shared directories. Nothing is changed, and nothing is left. The exit status is 1 if anything has failed.
    A job on several nodes has the ways between them looked at by itself, once a day.
    """
    from mgpu.cli.findings import counted, lines
    from mgpu.core.finding import FAILURE, Finding
    from mgpu.core.hostlist import fold

    meant = {"nodes": nodes, "nodelist": nodelist, "partition": partition, "gpu_type": gpu_type}
    place = {"cwd": working_directory(), "virtual_env": virtual_env(os.environ)}
    answer = session.call("POST", "/v1/preflight", {**meant, **place})
    found = [Finding(**finding) for finding in answer["findings"]]
    if session.json:
        session.print_json(answer)
    else:
        names = fold(answer["nodes"])
        session.print_lines([clean(names), *lines(found), f"{count(len(answer['nodes']), 'node')}: {counted(found)}"])
    return int(any(finding.status == FAILURE for finding in found))
