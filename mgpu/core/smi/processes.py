"""`nvidia-smi -q -d PIDS` -> who is on which GPU: computing, drawing, and inside of which MIG instance.

The list of compute applications would leave out whoever only draws (a game on a workstation), and says of a MIG
instance no more than the GPU that it is a part of. The text has a section for each GPU, headed by its bus id:

    GPU 00000000:18:00.0
        Processes
            GPU instance ID               : 2
            Compute instance ID           : 0
            Process ID                    : 4242
                Type                      : C
                Name                      : python, or anything else
                Used GPU Memory           : 512 MiB

or `Processes : None`. Old drivers leave out the instances.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mgpu.core.smi.gpus import MOST_GPUS
from mgpu.core.smi.text import SHOWN, WARNING, bus_number, lines, number, value

MOST_PROCESSES = 4096  # of one machine, one on each of its GPUs counted for each; the node's half knows it too
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_PAIR = re.compile(r"([A-Za-z][A-Za-z .]*?)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class SmiProcess:
    """A process as nvidia-smi names it. `pid` 0 = its number cannot be read. `kind`: C computes, G draws, M is a server
    of MPS, C+G. `instance`: (GPU instance, compute instance) under MIG."""

    pid: int
    memory_mib: int | None = None
    kind: str = ""
    instance: tuple[int, int] | None = None


@dataclass(slots=True)
class SmiProcesses:
    """`by_slot`: bus number -> its processes; a GPU that is missing there was not told of, or not readably."""

    by_slot: dict[tuple[int, ...], list[SmiProcess]] = field(default_factory=dict)
    driver: str = ""
    cuda: str = ""
    too_many: bool = False  # then none is told


def parse_processes(text: str) -> SmiProcesses:
    found = SmiProcesses()
    section: list[str] | None = None
    sections: dict[tuple[int, ...], list[str]] = {}
    for line in lines(text, shown=None):
        if head := _GPU.fullmatch(line):
            slot = bus_number(head[1])
            assert slot is not None
            section = sections.setdefault(slot, [])
        elif line.startswith(WARNING):
            continue
        elif section is not None:
            section.append(line)
        elif pair := _PAIR.fullmatch(line):
            if pair[1] == "Driver Version":
                found.driver = value(pair[2])
            elif pair[1] == "CUDA Version":
                found.cuda = value(pair[2])
    found.too_many = len(sections) > MOST_GPUS or text.count("Process ID") > MOST_PROCESSES
    if found.too_many:
        return found
    for slot, told in sections.items():
        processes = _of_one_gpu(told)
        if processes is not None:
            found.by_slot[slot] = processes
    return found


def _of_one_gpu(told: list[str]) -> list[SmiProcess] | None:
    """None = the section does not say."""
    if not told or not told[0].startswith("Processes"):
        return None
    if len(told) == 1:
        pair = _PAIR.fullmatch(told[0])
        return [] if pair and pair[2] == "None" else None
    processes: list[SmiProcess] = []
    instance: dict[str, str] = {}
    facts: dict[str, str] = {}
    for line in told[1:]:
        pair = _PAIR.fullmatch(line)
        name, said = (pair[1], pair[2]) if pair else (line, "")
        if name in ("GPU instance ID", "Compute instance ID"):
            instance[name] = said
        elif name == "Process ID":
            if facts:
                processes.append(_process(facts))
            facts = {name: said, **instance}
        elif facts:
            facts[name] = said
    if facts:
        processes.append(_process(facts))
    # lines that are none of these say that somebody is there
    return processes or [SmiProcess(0)]


def _process(facts: Mapping[str, str]) -> SmiProcess:
    gpu, compute = (number(facts.get(name, "")) for name in ("GPU instance ID", "Compute instance ID"))
    return SmiProcess(
        pid=number(facts["Process ID"]) or 0,
        memory_mib=number(facts.get("Used GPU Memory", "")),
        kind=facts.get("Type", "")[:SHOWN],
        instance=(gpu, compute) if gpu is not None and compute is not None else None,
    )
