"""What becomes of the options of Slurm's sbatch and srun that are not ours by name, and what the translated ones mean.

Loaded only for a script with directives and for a command line that names one of these. docs/slurm-options.md lists
all options of sbatch with what becomes of each, and a test tries them.
"""

from __future__ import annotations

from mgpu.client.http import bad_request
from mgpu.client.option import Option
from mgpu.client.options import from_script
from mgpu.lean.typing import Any, Callable, Collection, Mapping, NamedTuple


class Said(NamedTuple):
    """The value of an option, and where it stands: what is said of it begins with that."""

    value: Any
    where: str


# What stands here means something else, or something in more than one of our options. See _MEANINGS.
TRANSLATED = [
    Option("--gres", "LIST", "GPUs of each node: gpu, gpu:2, gpu:a100:2."),
    Option("--gpus-per-task", "N", "Times the tasks it is GPUs."),
    Option("--cpus-per-gpu", "N", "Times the GPUs it is -c."),
    Option("--mem-per-cpu", "SIZE", "Times the cores it is --mem."),
    Option("--mem-per-gpu", "SIZE", "Times the GPUs it is --mem."),
    Option("--requeue", "", "The default here."),
    Option("--spread-job", "", "--policy spread."),
    Option("-F --nodefile", "FILE", "A file with names for -w."),
    Option("--wrap", "COMMAND", "A shell's command line."),
    Option("--parsable", "", "Print the number alone."),
]

_LAUNCH = "mgpu starts the script once on each of its nodes"
_TASKS_ELSEWHERE = f"{_LAUNCH}; its own --ntasks-per-node, on the command line or behind #MGPU, starts so many"
_BINDING = "mgpu binds no process to cores or memory"
_GPU_BINDING = "a job sees its own GPUs and no others"
_COST = "mgpu keeps no accounting of that kind"
_POWER = "mgpu neither boots nor clocks machines"

# The job is what it would be without: said, and passed over.
NOTED = [
    Option("-n --ntasks", "N", _TASKS_ELSEWHERE),
    Option("--ntasks-per-core", "N", _LAUNCH),
    Option("--ntasks-per-gpu", "N", _LAUNCH),
    Option("--ntasks-per-socket", "N", _LAUNCH),
    Option("-O --overcommit", "", _LAUNCH),
    Option("-m --distribution", "HOW", _LAUNCH),
    Option("--stepmgr", "", _LAUNCH),
    Option("--sockets-per-node", "N", _BINDING),
    Option("--cores-per-socket", "N", _BINDING),
    Option("--threads-per-core", "N", _BINDING),
    Option("-B --extra-node-info", "S:C:T", _BINDING),
    Option("-S --core-spec", "N", _BINDING),
    Option("--thread-spec", "N", _BINDING),
    Option("--hint", "TYPE", _BINDING),
    Option("--mem-bind", "HOW", _BINDING),
    Option("--gpu-bind", "HOW", _GPU_BINDING),
    Option("--gres-flags", "TYPE", _GPU_BINDING),
    Option("--tres-bind", "HOW", _GPU_BINDING),
    Option("-s --share --oversubscribe", "", "no GPU is ever given to two jobs; nodes are shared unless --exclusive"),
    Option("--acctg-freq", "LIST", _COST),
    Option("--profile", "LIST", _COST),
    Option("--wckey", "KEY", _COST),
    Option("--comment", "TEXT", _COST),
    Option("--extra", "TEXT", _COST),
    Option("-q --qos", "NAME", "mgpu has no such classes: partitions have limits and priorities (-p)"),
    Option("--mcs-label", "LABEL", "mgpu has no security labels"),
    Option("--get-user-env", "[WHEN]", "a job's environment is that of its account on the node", bare="yes"),
    Option("--propagate", "[LIST]", "limits are those of the account on the node", bare="ALL"),
    Option("--cpu-freq", "HOW", _POWER),
    Option("--gpu-freq", "HOW", _POWER),
    Option("--power", "FLAGS", _POWER),
    Option("--delay-boot", "MINUTES", _POWER),
    Option("--wait-all-nodes", "0|1", "a job of several nodes always begins on all of them together"),
    Option("--ignore-pbs", "", "#PBS lines are never read"),
    Option("--time-min", "LIMIT", "the limit is what -t says"),
    Option("--use-min-nodes", "", "mgpu uses as few nodes as will do by itself"),
    Option("--contiguous", "", "mgpu knows of no order of nodes"),
    Option("--segment", "N", "mgpu knows of no blocks of nodes"),
    Option("--spread-segments", "", "mgpu knows of no blocks of nodes"),
    Option("--consolidate-segments", "", "mgpu knows of no blocks of nodes"),
    Option("--switches", "N[@TIME]", "nodes at one switch are never waited for"),
    Option("--prefer", "LIST", "mgpu's nodes have no features: --gpu-type names a kind of GPU"),
    Option("--network", "TYPE", "networks are not given out"),
    Option("--resv-ports", "[N]", "networks are not given out", bare="1"),
    Option("--oom-kill-step", "[0|1]", "the kernel decides what it kills", bare="1"),
]

# Asked for, and not to be had: to run without it could do something else than was meant.
REFUSED = [
    Option("-C --constraint", "LIST", "mgpu's nodes have no features: --gpu-type names a kind of GPU, -w or -p nodes"),
    Option("--cluster-constraint", "LIST", "there is one cluster: leave it out"),
    Option("-M --clusters", "NAMES", "there is one cluster: leave it out, or name its master with --master"),
    Option("--batch", "LIST", "mgpu's nodes have no features: --gpu-type names a kind of GPU, -w or -p nodes"),
    Option("--bb", "SPEC", "there are no burst buffers: copy what is needed in the script"),
    Option("--bbf", "FILE", "there are no burst buffers: copy what is needed in the script"),
    Option("--container", "PATH", "mgpu starts no containers: let the script do it"),
    Option("--container-id", "ID", "mgpu starts no containers: let the script do it"),
    Option("--deadline", "TIME", "mgpu keeps no deadlines: -t limits how long it runs"),
    Option("--uid", "USER", "a job is its submitter's: submit it as that user"),
    Option("--gid", "GROUP", "a job runs with the groups of its account: leave it out"),
    Option("--gpus-per-socket", "N", "sockets are not counted: -G or --gpus-per-node say how many GPUs"),
    Option("--mincpus", "N", "cores are asked for with -c"),
    Option("--tmp", "SIZE", "disks are not counted: leave it out, or name nodes with -w"),
    Option("--tres-per-task", "LIST", "nothing is counted by the task: -G says how many GPUs"),
    Option("-i --input", "FILE", "a job's stdin is empty: let the script read the file"),
    Option("-L --licenses", "LIST", "licenses are not counted: leave it out"),
    Option("-k --no-kill", "", "a job ends with any of its nodes: leave it out"),
    Option("--open-mode", "append|truncate", "a first attempt truncates, later ones append: let -o name another file"),
    Option("--reboot", "", "mgpu reboots no node: leave it out"),
    Option("--reservation", "NAMES", "nothing can be reserved by name: leave it out, or name nodes with -w"),
    Option("--usage", "", "mgpu submit --help tells it"),
    Option("--autocomplete", "FLAG", "it is for a shell, not for a job: leave it out"),
]

# Of Slurm's srun alone.
OF_SRUN = [
    Option("-u --unbuffered", "", "output comes as it is written"),
    Option("-K --kill-on-bad-exit", "[0|1]", "the first rank that fails ends the others", bare="1"),
    Option("--cpu-bind", "HOW", _BINDING),
]
NOT_OF_SRUN = ("wrap", "parsable", "requeue", "input", "batch", "usage", "ignore_pbs", "get_user_env")

OF_THE_LINE = ("wrap", "each_line")  # they give the command, which a script does itself
OPTIONS = [*TRANSLATED, *NOTED, *REFUSED]
_TASKS = ("ntasks", "ntasks_per_node")
_BY_TASK = ("gpus_per_task", "cpus_per_task", "mem_per_cpu")
_WHY_NOT = {option.key: option.help for option in REFUSED}
_WHY_NOTHING = {option.key: option.help for option in (*NOTED, *OF_SRUN)} | {"ntasks_per_node": _TASKS_ELSEWHERE}


def options_of_srun() -> list[Option]:
    return [*(option for option in OPTIONS if option.key not in NOT_OF_SRUN), *OF_SRUN]


def settle(said: Mapping[str, Said], started: Collection[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Options of Slurm and of ours, by key, in terms of ours alone; and what has to be said of them. `started`: those
    of _TASKS that mean processes which mgpu starts here. Raises MasterError for what is not to be had."""
    options: dict[str, Any] = {}
    notices: list[str] = []
    for key, one in said.items():
        if key == "open_mode" and str(one.value).startswith("t"):
            continue  # as it is anyway
        if key in _WHY_NOT or (key in OF_THE_LINE and not one.where.startswith("--")):
            what, _, instead = _WHY_NOT.get(key, "it is for the command line").partition(": ")
            raise bad_request(f"{one.where}: {what}", instead)
        if key in _TASKS and key not in started and not said.keys().isdisjoint(_BY_TASK):
            continue  # it multiplies these
        if key in _WHY_NOTHING and key not in started:
            notices.append(f"{one.where} changes nothing: {_WHY_NOTHING[key]}")
        else:
            meant = _MEANINGS[key](one, said) if key in _MEANINGS else {key: one.value}
            if key == "gpus_per_task" and any(name in said for name in started):
                meant[key] = _typed(key, one, one.value)[key]  # as each of them then sees no others
            options.update(meant if one.where.startswith("--") else _placed(meant, one.where))
    return options, notices


def _placed(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {key: from_script(value, where) for key, value in options.items()}


def _gpus(key: str) -> Callable[[Said, Mapping[str, Said]], dict[str, Any]]:
    """`2`, `a100:2`."""

    def meaning(one: Said, _said: Mapping[str, Said]) -> dict[str, Any]:
        return {key: one.value} if ":" not in one.value and "," not in one.value else _typed(key, one, one.value)

    return meaning


def _typed(key: str, one: Said, text: str) -> dict[str, Any]:
    """`2`, `a100:2` or `a100`, as --gres has them behind `gpu:`."""
    if "," in text:
        raise bad_request(f"{one.where}: all GPUs of a job are of one kind", "name one, or --gpu-type any")
    kind, colon, count = text.rpartition(":")
    if not colon and not text.isdigit():
        kind, count = text, "1"
    return {key: count, **({"gpu_type": kind} if kind else {})}


def _gres(one: Said, _said: Mapping[str, Said]) -> dict[str, Any]:
    text = one.value.lower().removeprefix("gres:")
    if text in ("none", ""):
        return {}
    others = [item for item in text.split(",") if item.partition(":")[0].removeprefix("gres/") != "gpu"]
    if others:
        raise bad_request(
            f"{one.where}: there is no {others[0].partition(':')[0]!r} to be had, only gpu", "leave it out"
        )
    items = [item.partition(":")[2] for item in text.split(",")]
    return _typed("gpus_per_node", one, ",".join(items) or "1")


def _gpus_per_task(one: Said, said: Mapping[str, Said]) -> dict[str, Any]:
    """Slurm starts one task, or one a node where -N says how many."""
    found = _typed("count", one, one.value)
    count = _number(one, found.pop("count"))
    if "ntasks" in said or not said.keys() & {"ntasks_per_node", "nodes"}:
        return {"gpus": str(count * _asked(said, "ntasks")), **found}
    return {"gpus_per_node": str(count * _tasks_on_a_node(said)), **found}


def _number(one: Said, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise bad_request(f"{one.where}: {text!r} is not a number", "write one")
    return int(text)


def _asked(said: Mapping[str, Said], key: str) -> int:
    """1 where nothing is."""
    return _number(said[key], str(said[key].value).partition("-")[0]) if key in said else 1


def _tasks_on_a_node(said: Mapping[str, Said]) -> int:
    if "ntasks_per_node" in said:
        return _asked(said, "ntasks_per_node")
    return -(-_asked(said, "ntasks") // max(1, _asked(said, "nodes")))


def _gpus_on_a_node(said: Mapping[str, Said]) -> int:
    found: dict[str, Any] = {}
    for key in ("gpus", "gpus_per_node", "gres", "gpus_per_task"):
        if key in said:
            found |= _MEANINGS[key](said[key], said)
            where = said[key]
    if "gpus_per_node" in found:
        return _number(where, found["gpus_per_node"])
    return -(-_number(where, found["gpus"]) // max(1, _asked(said, "nodes"))) if found else 1


def _cores_on_a_node(said: Mapping[str, Said]) -> int:
    if "cpus_per_gpu" in said:
        return _asked(said, "cpus_per_gpu") * _gpus_on_a_node(said)
    return _asked(said, "cpus_per_task") * _tasks_on_a_node(said)


def _cores(one: Said, said: Mapping[str, Said]) -> dict[str, Any]:
    return {"cpus_per_task": str(_cores_on_a_node(said))}


def _memory(on_a_node: Callable[[Mapping[str, Said]], int]) -> Callable[[Said, Mapping[str, Said]], dict[str, Any]]:
    """So much for each of what is on a node; without a unit MiB."""

    def meaning(one: Said, said: Mapping[str, Said]) -> dict[str, Any]:
        size = one.value.strip().rstrip("bB").rstrip("i")
        unit = size[-1:].upper() if size[-1:].isalpha() else "M"
        return {"mem": f"{_number(one, size.rstrip('kKmMgGtT')) * on_a_node(said)}{unit}"}

    return meaning


def _nodes(one: Said, _said: Mapping[str, Said]) -> dict[str, Any]:
    """`2`, or `2-2`."""
    least, dash, most = one.value.partition("-")
    if not least:
        return {"nodes": one.value}  # a number below zero
    if dash and least != most:
        raise bad_request(f"{one.where}: the number of nodes is fixed here", f"write {least}, or -G N alone")
    return {"nodes": least}


def _node_file(one: Said, _said: Mapping[str, Said]) -> dict[str, Any]:
    try:
        with open(one.value, encoding="utf-8") as file:
            names = file.read(1 << 16).replace(",", " ").split()
    except (OSError, ValueError) as error:
        raise bad_request(f"{one.where}: cannot be read ({getattr(error, 'strerror', '') or error})") from error
    return {"nodelist": ",".join(names)}


_MEANINGS: dict[str, Callable[[Said, Mapping[str, Said]], dict[str, Any]]] = {
    "gpus": _gpus("gpus"),
    "gpus_per_node": _gpus("gpus_per_node"),
    "gres": _gres,
    "gpus_per_task": _gpus_per_task,
    "cpus_per_task": _cores,
    "cpus_per_gpu": _cores,
    "mem_per_cpu": _memory(_cores_on_a_node),
    "mem_per_gpu": _memory(_gpus_on_a_node),
    "nodes": _nodes,
    "nodefile": _node_file,
    "requeue": lambda one, said: {"no_requeue": "no"},
    "spread_job": lambda one, said: {"policy": "spread"},
}
