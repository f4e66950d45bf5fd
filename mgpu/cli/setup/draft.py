"""The text of the two files: what is known as keys, what is commonly wanted as comments beside them.

What ssh or a node said goes into comments alone, and never with a line break in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mgpu.cli.setup.hosts import Host, how, where
from mgpu.config.writing import yaml_text as text
from mgpu.core.hostlist import expand, fold
from mgpu.lean.typing import Mapping, Sequence
from mgpu.wording.figures import count
from mgpu.wording.letters import clean, cut

COLUMN = 40  # where comments begin

CLUSTER = """\
# The cluster, as mgpu sees it: written by `mgpu init`, yours to edit.
# Every key, unit and default: docs/configuration.md. After a change: mgpu config reload (jobs run on).

inventory: inventory/                   # every .yaml file there: the nodes

# cluster: {name: lab}
# master: {idle_exit: 10m}              # a master that was started for you ends when idle this long; `never` keeps it

# What all nodes share, over all files of the inventory:
# defaults:
#   setup: "source /opt/conda/bin/activate"    # a shell line before each job

# Named sets of nodes with limits. Without this key, each name that a node gives is a partition without limits.
# partitions:
#   train: {default_time: 1-0, max_time: 7-0}  # Slurm's times: a plain number is minutes

# scheduling: {default_policy: fill_first}     # or spread: the node with most free GPUs first
# external: {ignore: [Xorg, gnome-shell], memory_threshold_mib: 600}    # processes that do not make a GPU busy
"""

HEAD = """\
# The nodes, written by `mgpu init`, yours to edit. Check it with: mgpu config check
# What ~/.ssh/config says of a name holds: user, port, key, jump hosts. What is said here wins over it.
"""
DEFAULTS = """\
# For all nodes of this file, unless one says otherwise:
{defaults}
#   partition: train                    # a name to ask for with -p; several with commas
#   workdir: /scratch                   # where jobs start that do not say -D
#   setup: "source /opt/conda/bin/activate"    # a shell line before each job

# A node may also say:
#   hostname: "gpu[01-08].example.org"  # what ssh is asked for, if not the node_id; ranges run in step
#   devices: [0, 1]                     # only these GPUs belong to mgpu; default: all
#   ssh: {{user: train, port: 2222, proxy_jump: login.example.org}}
#   nvidia_smi: /usr/bin/nvidia-smi     # if it is not in the PATH of a login
#   run_dir: /var/tmp/mgpu              # for the files of jobs, if not ~/.mgpu
#   env: {{HF_HOME: /scratch/hf}}         # for each job
"""


class Seen(NamedTuple):
    """What a probe found. `gpus`: (name, memory in MiB, how many). `doubt` "" = all of them are sound."""

    gpus: tuple[tuple[str, int | None, int], ...] = ()
    doubt: str = ""

    @property
    def total(self) -> int:
        return sum(number for _, _, number in self.gpus)

    def words(self) -> str:
        return ", ".join(
            f"{number} x {clean(name) or 'unknown GPU'}" + (f" {memory / 1024:.0f} GiB" if memory else "")
            for name, memory, number in self.gpus
        )


def inventory(hosts: Sequence[Host], seen: Mapping[str, Seen], identity_file: str = "") -> str:
    """The nodes in the order of their first: those that differ in their number alone share an entry."""
    groups: dict[object, list[Host]] = {}
    for host in hosts:
        groups.setdefault((how(host), seen.get(host.name)), []).append(host)
    defaults = "# defaults:"
    if identity_file:
        defaults = "defaults:\n" + _line(f"  ssh: {{identity_file: {text(identity_file)}}}", "made by mgpu init --key")
    entries = [entry for group in groups.values() for entry in _entries(group, seen.get(group[0].name))]
    return "\n".join([HEAD, DEFAULTS.format(defaults=defaults), "nodes:", "\n\n".join(entries), ""])


def _entries(group: Sequence[Host], seen: Seen | None) -> list[str]:
    """One for each word of their hostlist: names that are not alike are easier to edit apart."""
    words = re.split(r",(?![^\[]*\])", fold(host.name for host in group))
    entries = []
    rest = list(group)
    for word in words:
        number = len(expand(word))
        entries.append("\n".join(_entry(word, rest[:number], seen)))
        del rest[:number]
    return entries


def _entry(word: str, group: Sequence[Host], seen: Seen | None) -> list[str]:
    lines = [f"  - node_id: {text(word)}"]
    if group[0].local:
        lines.append(_line("    connection: local", "without SSH"))
    else:
        lines.insert(0, f"  # {clean(where(group))}")
    if group[0].user:
        lines.append(f"    ssh: {{user: {text(group[0].user)}}}")
    if seen is None:
        lines.append(_line("    # gpu_count: 8", "how many should be there: fewer seen = degraded"))
        lines.append(_line("    # gpu_type: A100", "for --gpu-type; default: the words of the GPU's name"))
    elif not seen.total:
        lines.append(_line("    # gpu_count: 8", f"none seen: {cut(clean(seen.doubt), 60)}"))
    else:
        doubt = f", but {cut(clean(seen.doubt), 60)}" if seen.doubt else "; fewer seen = degraded"
        mark = "# " if seen.doubt else ""
        lines.append(_line(f"    {mark}gpu_count: {seen.total}", f"{seen.words()}{doubt}"))
        if kind := _kind(seen):
            lines.append(_line(f"    # gpu_type: {kind}", "for --gpu-type; default: the words of that name"))
    return lines


def _kind(seen: Seen) -> str:
    """What people call them; "" if there is no such word, or GPUs of two kinds."""
    name = seen.gpus[0][0]
    kinds = (
        word for word in re.findall("[A-Za-z0-9]+", name) if re.fullmatch("[A-Z]{0,4}[0-9]{1,5}[A-Za-z]{0,2}", word)
    )
    return next(kinds, "") if len(seen.gpus) == 1 else ""


def _line(key: str, comment: str) -> str:
    return f"{key:{COLUMN - 1}} # {comment}"


def seen_of(node: Mapping[str, object]) -> Seen:
    """From the master's answer about a node."""
    gpus = node.get("gpus")
    rows = gpus if isinstance(gpus, list) else []
    kinds: dict[tuple[str, int | None], int] = {}
    for gpu in rows:
        kind = (gpu.get("name") or "", gpu.get("memory_total_mib"))
        kinds[kind] = kinds.get(kind, 0) + 1
    unsound = [gpu for gpu in rows if gpu.get("state") not in ("free", "allocated", "external")]
    sliced = any(str(gpu.get("uuid")).startswith("MIG-") for gpu in rows)
    doubt = ""
    if unsound:
        state, reason = str(unsound[0].get("state")), str(unsound[0].get("reason") or "")
        doubt = f"{count(len(unsound), 'GPU')} {state}: {reason.removeprefix(f'{state}: ')}"
    if not rows:
        doubt = str(node.get("reason") or "it has no GPUs")
    elif sliced:
        doubt = doubt or "some are MIG instances, which come and go"
    return Seen(tuple((name, memory, number) for (name, memory), number in kinds.items()), doubt)
