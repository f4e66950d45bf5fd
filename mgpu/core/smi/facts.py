"""The sections of a probe that are not about GPUs in use."""

from __future__ import annotations

import re
from dataclasses import replace

from mgpu.core.observation import Machine, RawProbe
from mgpu.core.signals import signal_name
from mgpu.core.smi.text import SHOWN, lines, number, printable
from mgpu.core.smi.topology import parse_topology

KERNEL_LINES = 5
_MOST_LEASES = 600
HUNG = 124  # exit status of what had to be ended, its time being up
STILL_HANGS = 75  # told instead of asking: one of an earlier look could not be ended
TOO_MUCH = 153  # of what printed more than the node's half takes (KIB of nvidia-smi)
KIB = 1024
_LOAD = re.compile(r"\d{1,6}(\.\d{1,4})?", re.ASCII)


def parse_machine(raw: RawProbe, driver: str, cuda: str, before: Machine) -> Machine:
    """`before`: of the last probe; what this one was not asked for is taken from there."""
    told: dict[str, list[str]] = {}
    for line in lines(raw.facts_text[:4096]):
        name, *words = line.split()
        told[name] = words
    total, available = (*map(_mib, told.get("memory", ())), None, None)[:2]
    load = next(iter(told.get("load", ())), "")
    machine = Machine(
        cpus=_first(told, "cpus", before.cpus),
        load=float(load) if _LOAD.fullmatch(load) else None,
        memory_total_mib=total,
        memory_available_mib=available,
        disk_free_mib=_mib(told["disk"][0]) if told.get("disk") else before.disk_free_mib,
        driver=driver or before.driver,
        cuda=cuda or before.cuda,
        links=before.links,
        xid=before.xid,
        kernel_readable=before.kernel_readable,
    )
    if raw.topology_text is not None:
        machine = replace(machine, links=parse_topology(raw.topology_text))
    if raw.kernel_text is not None:
        readable = raw.kernel_text.strip() != "-"
        xid = tuple(lines(raw.kernel_text)[-KERNEL_LINES:]) if readable else ()
        machine = replace(machine, xid=xid, kernel_readable=readable)
    return machine


def parse_trouble(raw: RawProbe) -> str:
    """Why nothing may start on the node, in words; "" = nothing speaks against it."""
    if raw.keepout:
        user, _, message = raw.keepout.partition(" ")
        said = f": {_shown(message)}" if message.strip() else ""
        return f"kept by {user} (mgpu.keepout on the node){said}"
    if raw.check_status:
        first = next(iter(lines(raw.check_text)), "")
        how = f"failed: exit status {raw.check_status}"
        if raw.check_status == HUNG:
            how = "took longer than health.check_timeout"
        elif 128 < raw.check_status <= 128 + 64:
            how = f"was ended by {signal_name(raw.check_status - 128)}"
        elif first:
            how = "failed"
        return f"health check {how}: {_shown(first)}" if first else f"health check {how}"
    return ""


def parse_obstructed(text: str) -> dict[str, str]:
    """UUID -> why nobody can tell whether that GPU is free."""
    found: dict[str, str] = {}
    for line in lines(text)[:_MOST_LEASES]:
        uuid, _, owner = line.partition(" ")
        place = f"/tmp/mgpu.lease.{uuid.replace('/', '_')}"
        of = f" by something of {owner}" if owner else ""
        found[uuid] = f"lock path obstructed{of}: {place} on the node has to be a directory that jobs can read, or gone"
    return found


def _first(told: dict[str, list[str]], name: str, otherwise: int | None) -> int | None:
    words = told.get(name)
    return number(words[0]) if words else otherwise


def _mib(kib: str) -> int | None:
    value = number(kib)
    return None if value is None else value // 1024


def _shown(text: str) -> str:
    return printable(text)[:SHOWN].strip()
