"""torchrun, once on each node: it starts a process for each GPU there.

What it needs to know it reads from its own variables (PET_..., which options of the user's override), so a script that
calls torchrun is served as well. Ranks follow the order of the nodes, since each is told its own; they meet on the node
of rank 0, at a port that no other job has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgpu.core.errors import RequestError
from mgpu.core.gang import Gang
from mgpu.core.launchers.none import own_ranks
from mgpu.core.model import Command, CommandForm
from mgpu.core.payload import shown
from mgpu.core.shelltext import become, unless_there

_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PYTHON = re.compile(r"python[0-9.]*", re.ASCII)
_SWITCHES_OF_PYTHON = re.compile(r"-[bBdEiIOPqsSuvVx]+", re.ASCII)

# Options of torchrun, which it takes shortened too.
_SWITCHES = ("standalone", "module", "no-python", "run-path", "virtual-local-rank", "use-env", "help")
_VALUED = (
    *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts"),
    *("monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee"),
    *("log-line-prefix-template", "local-ranks-filter", "duplicate-stdout-filters", "duplicate-stderr-filters"),
    *("node-rank", "master-addr", "master-port", "local-addr", "logs-specs", "numa-binding", "signals-to-handle"),
    *("shutdown-timeout", "print-completion"),
)
_SHORT = {"m": "module", "r": "redirects", "t": "tee", "h": "help"}


def settle(command: Command, sizes: Sequence[int]) -> Command:
    """With torchrun in front where it is a Python program; its own options are looked at. Whatever else it is may call
    torchrun itself. Raises RequestError."""
    if command.form is CommandForm.SCRIPT and command.script_name.endswith(".py"):
        name = shown(command.script_name)
        raise RequestError(f"{name} goes along as a script, and would be run without torchrun: write -- {name}")
    if command.form is not CommandForm.ARGV:
        return command
    built = _with_torchrun(command)
    _check(options_of(built.words), sizes)
    return built


def variables(gang: Gang) -> dict[str, str]:
    command = gang.job.spec.command
    given = options_of(command.words) if command.form is CommandForm.ARGV else {}
    where, own = (gang.addresses[0], gang.addresses[gang.part.rank]) if gang.several else ("127.0.0.1", "127.0.0.1")
    found = {"PET_NNODES": str(len(gang.parts)), "PET_NODE_RANK": str(gang.part.rank), **own_ranks(gang)}
    if gang.part.uuids:
        found["PET_NPROC_PER_NODE"] = str(len(gang.part.uuids))
    if not where or gang.attempt.port is None:
        return found
    found |= {"PET_MASTER_ADDR": _in_url(where), "PET_MASTER_PORT": str(gang.attempt.port)}
    found["PET_RDZV_ID"] = f"{gang.job.job_id}.{gang.attempt.number}"
    if own:
        found["PET_LOCAL_ADDR"] = own  # else rank 0 tells the others its own name, which they may not know
    if "rdzv-endpoint" not in given:
        # which of them is the host c10d would guess by names
        found["PET_RDZV_CONF"] = f"is_host={int(gang.part.rank == 0)}"
        if given.get("rdzv-backend", "static") != "static":
            found["PET_RDZV_ENDPOINT"] = f"{_in_url(where)}:{gang.attempt.port}"
    return found


def ending(gang: Gang) -> str:
    command = gang.job.spec.command
    return "\n".join([*unless_there(command, gang.part.node), become(command)])


def options_of(words: tuple[str, ...]) -> Mapping[str, str]:
    """Those that torchrun is given, by their long name; a switch has "" as its value. {} = it is not called here."""
    begin = behind_torchrun(words)
    found: dict[str, str] = {}
    rest = list(words[begin:]) if begin else []
    while rest and rest[0].startswith("-") and rest[0] != "--":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--"):  # -r 3, -r3
            name, equals, value = word[:2], word[2:], word[2:].removeprefix("=")
        option = _known(name)
        if option in _VALUED and not equals:
            value = rest.pop(0) if rest else ""
        found[option] = value
    return found


def _known(name: str) -> str:
    """As argparse reads it: shortened as long as it is clear which is meant."""
    plain = name.lstrip("-").replace("_", "-")
    if not name.startswith("--"):
        return _SHORT.get(plain, plain)
    names = (*_SWITCHES, *_VALUED)
    meant = [plain] if plain in names else [one for one in names if one.startswith(plain)]
    return meant[0] if len(meant) == 1 else plain


def behind_torchrun(words: tuple[str, ...]) -> int:
    """Where its options begin; 0 = nothing here is torchrun. It may stand behind others: `env X=1 torchrun`."""
    if _is_python(words[0]):
        at = _behind_options(words)
        return at + 2 if words[at : at + 1] == ("-m",) and words[at + 1 : at + 2] and words[at + 1] in _MODULES else 0
    for place, word in enumerate(words):
        if word.rpartition("/")[2] == "torchrun" or (word in _MODULES and words[place - 1] == "-m"):
            return place + 1
    return 0


def _with_torchrun(command: Command) -> Command:
    words = command.words
    if behind_torchrun(words):
        return command
    if words[0].endswith(".py"):
        return replace(command, words=("torchrun", *words))
    if not _is_python(words[0]):
        return command
    at = _behind_options(words)
    program = words[at : at + 1]
    if not program or program[0] in ("-", "-c"):
        raise RequestError("torchrun starts a file or a module: give it as in --distributed -- python train.py")
    # the same Python, whichever torchrun comes first in PATH
    return replace(command, words=(*words[:at], "-m", _MODULES[0], *words[at:]))


def is_program(word: str) -> bool:
    """Torchrun comes in front of it."""
    return word.endswith(".py") or _is_python(word)


def is_called_in(text: str) -> bool:
    return any(name in text for name in ("torchrun", *_MODULES))


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(word.rpartition("/")[2]) is not None


def _behind_options(words: tuple[str, ...]) -> int:
    """Where Python's own options end."""
    at = 1
    while at < len(words) and (_SWITCHES_OF_PYTHON.fullmatch(words[at]) or words[at] in ("-X", "-W")):
        at += 2 if words[at] in ("-X", "-W") else 1
    return min(at, len(words))


def _check(given: Mapping[str, str], sizes: Sequence[int]) -> None:
    """Its numbers against those of the job. Raises RequestError."""
    for option in ("node-rank", "master-addr", "master-port"):
        if option in given:
            raise RequestError(f"torchrun's --{option} is filled in for each node: leave it out")
    if "standalone" in given and len(sizes) != 1:
        raise RequestError("torchrun's --standalone is for one node, and the job may get several: leave it out")
    processes = int(given["nproc-per-node"]) if given.get("nproc-per-node", "").isdecimal() else None
    if processes == 0:
        raise RequestError("torchrun's --nproc-per-node is 0: leave it out, each node starts one process for each GPU")
    if "nnodes" in given:
        _check_nodes(given["nnodes"], processes, sizes)
    if processes is not None:
        _check_processes(processes, sizes)


def _check_nodes(asked: str, processes: int | None, sizes: Sequence[int]) -> None:
    least, _, most = asked.partition(":")
    if not least.isdecimal() or not (most or least).isdecimal():
        raise RequestError(f"torchrun's --nnodes '{shown(asked)}' is not a number: leave it out, it is filled in")
    right = f"-N {int(least)}"
    if processes is not None and not _agree(processes, sizes):
        right += f" --gpus-per-node {processes}"
    if not sizes:
        raise RequestError(f"torchrun's --nnodes is {asked}, and how many nodes the job gets is open: add {right}")
    nodes = len(sizes)
    if not int(least) <= nodes <= int(most or least):
        has = f"the job has {nodes} node{'s' * (nodes != 1)}"
        raise RequestError(f"torchrun's --nnodes is {asked}, {has}: use {right}, or leave out --nnodes")


def _check_processes(asked: int, sizes: Sequence[int]) -> None:
    said = f"torchrun's --nproc-per-node is {asked}"
    if not sizes:
        wanted = f"add --gpus-per-node {asked}, or leave out --nproc-per-node"
        raise RequestError(f"{said}, and how many GPUs a node gives is open: {wanted}")
    if _agree(asked, sizes):
        return
    if len(set(sizes)) > 1:
        counts = " and ".join(map(str, dict.fromkeys(sizes)))
        raise RequestError(f"{said}, the job's nodes have {counts} GPUs: leave it out, each is told its own")
    has = f"{sizes[0]} GPU{'s' * (sizes[0] != 1)} on {'its node' if len(sizes) == 1 else 'each of its nodes'}"
    raise RequestError(f"{said}, the job has {has}: use --gpus-per-node {asked}, or leave out --nproc-per-node")


def _agree(processes: int, sizes: Sequence[int]) -> bool:
    """Without GPUs any number does."""
    return bool(sizes) and (not any(sizes) or set(sizes) == {processes})


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
