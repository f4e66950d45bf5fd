"""A submission as the user typed it -> a JobSpec, or one line that says what is wrong and what would be right.

Whatever cannot be met by the inventory as known is refused here; what merely does not fit now is the planner's to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mgpu.core import array, hostlist
from mgpu.core import payload as read
from mgpu.core.accounts import account_of
from mgpu.core.ask import ask_for
from mgpu.core.capacity import known_indices
from mgpu.core.command import name_of, parse_command
from mgpu.core.dependency import parse_dependency
from mgpu.core.devices import listed, parse_indices
from mgpu.core.errors import RequestError
from mgpu.core.gputype import check_types, parse_types
from mgpu.core.launchers import settle
from mgpu.core.mail import parse_mail_type, parse_mail_user
from mgpu.core.model import Command, CommandForm, Dependency, JobKind, JobSpec, LauncherName, NodeName, Request
from mgpu.core.partitions import admit
from mgpu.core.plan import AccountFacts, NodeView, PartitionFacts
from mgpu.core.policies import POLICIES
from mgpu.core.shape import MAX_GPUS, MAX_NODES, check_shape, shape_of
from mgpu.core.signals import parse_warning
from mgpu.core.stdin import on_one_node, parse_input, window_of
from mgpu.core.tasks import (
    launcher_not_called,
    many_scripts,
    parse_launcher,
    parse_share,
    parse_tasks,
    srun_within,
    uneven,
    without_launcher,
)
from mgpu.core.tree import parse_tree, tree_notices

_KEYS = ("request_id", "key", "kind", "command", "options", "env", "cwd", "virtual_env", "zone", "tree")
OPTIONS = (
    *("gpus", "nodes", "gpus_per_node", "nodelist", "exclude", "gpu_ids", "node_gpu_ids", "gpu_type", "gpu_mem"),
    *("time", "partition", "priority", "job_name", "policy", "chdir", "output", "error", "retries", "no_requeue"),
    *("requeue_on_exit", "signal", "hold", "begin", "nice", "dependency", "kill_on_invalid_dep", "array"),
    *("exclusive", "setup", "cpus_per_task", "mem", "account", "kill_on_disconnect", "input"),
    *("launcher", "ntasks_per_node", "ntasks", "gpus_per_task", "export_file", "mail_type"),
    "mail_user",
)
# Given, they say something: an empty one is a variable that is not set. What is not here says so in its own words.
_NEVER_EMPTY = (
    *("time", "partition", "policy", "chdir", "output", "error", "array", "kill_on_invalid_dep", "gpu_mem", "mem"),
    *("account", "begin", "input", "launcher", "export_file", "mail_type"),
    "mail_user",
)
_OURS = re.compile(r"MGPU_\w*|SLURM_\w*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|NVIDIA_VISIBLE_DEVICES", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MEMORY = re.compile(r"(?P<size>\d{1,9}(?:\.\d{1,3})?)\s*(?P<unit>[KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_UNITS_MIB: Mapping[str, float] = {"K": 1 / 1024, "M": 1, "": 1024, "G": 1024, "T": 1024 * 1024}
_EXIT_CODE = re.compile(r"\d{1,3}", re.ASCII)
_UNBOUNDED_TASKS = 100  # of an array that needs no GPU, at once
_MAX_CPUS = 65536
_MAX_ABSENCE_S = 365 * 86_400
MAX_PRIORITY = 1_000_000
NO_ACCOUNTS: Mapping[str, AccountFacts] = {}


def parse_submission(
    payload: Mapping[str, Any],
    nodes: Sequence[NodeView],
    partitions: Mapping[str, PartitionFacts],
    user: str,
    accounts: Mapping[str, AccountFacts] = NO_ACCOUNTS,
) -> tuple[JobSpec, list[str]]:
    """The job and notices for the user's stderr. Raises RequestError, or NotAllowed for a partition or an account that
    is closed to the user."""
    read.only_keys(payload, _KEYS, "the key")
    options = read.Options(read.mapping(payload, "options"))
    read.only_keys(options, OPTIONS, "the option")
    read.not_empty(options, _NEVER_EMPTY)
    kind = _kind(payload)
    command = parse_command(read.mapping(payload, "command"))
    given = parse_input(read.line(options, "input", 64), kind)
    launcher = parse_launcher(options)
    request, tasks = parse_tasks(options, parse_request(options, nodes), launcher, kind)
    if window_of(given):
        request = on_one_node(request, tasks if launcher is LauncherName.NONE else None)
    admission = admit(request, read.line(options, "time", 64), nodes, partitions, user)
    request = replace(request, partition=admission.partition)
    notices = check_types(request.gpu_types, nodes)
    ask = ask_for(request, nodes)
    if ask.impossible:
        raise RequestError(ask.impossible)
    settled = settle(launcher, command, ask.sizes, tasks)
    told = [uneven(ask.sizes), many_scripts(command, launcher, tasks), srun_within(command)]
    told += [without_launcher(command, launcher, ask.sizes), launcher_not_called(command, launcher)]
    notices += filter(None, told)
    account, account_notices = account_of(read.line(options, "account", 255).strip(), accounts, user)
    indices, array_notices = _bounded(_array(options, command, kind), request)
    env, env_notices = _environment(read.mapping(payload, "env"))
    plain = _plain(payload, options, JobSpec(settled, request, name_of(options, command), kind))
    retry_notices = (
        ["not tried again, whatever --retries says: its stdin is given once"] if given and plain.retries else []
    )
    spec = replace(
        plain,
        time_limit_s=admission.time_limit_s,
        env=env,
        retries=0 if given else plain.retries,
        signal=_signal(options, admission.time_limit_s),
        tier=admission.priority,
        array=indices,
        account=account,
        input=given,
        launcher=launcher,
        tasks_per_node=tasks,
        gpus_per_task=parse_share(options, launcher, tasks, ask.sizes),
    )
    return spec, notices + account_notices + array_notices + env_notices + retry_notices + tree_notices(spec)


def _plain(payload: Mapping[str, Any], options: Mapping[str, Any], spec: JobSpec) -> JobSpec:
    """With what follows from one option, or one key, alone."""
    cwd = _absolute(payload, "cwd")
    return replace(
        spec,
        chdir=_directory(read.line(options, "chdir"), cwd),
        submit_dir=cwd,
        setup=read.text(options, "setup"),
        virtual_env=_absolute(payload, "virtual_env"),
        output=read.line(options, "output"),
        error=read.line(options, "error"),
        retries=read.whole(options, "retries", "--retries", 0, 1000) or 0,
        requeue=not read.flag(options, "no_requeue"),
        requeue_exits=_requeue_exits(options, spec.kind),
        priority=read.whole(options, "priority", "--priority", -MAX_PRIORITY, MAX_PRIORITY) or 0,
        nice=read.whole(options, "nice", "--nice", -MAX_PRIORITY, MAX_PRIORITY) or 0,
        dependency=_dependency(options),
        client_absence_s=read.whole(options, "kill_on_disconnect", "--kill-on-disconnect", 1, _MAX_ABSENCE_S),
        tree=parse_tree(read.mapping(payload, "tree")),
        export_file=read.line(options, "export_file"),
        mail_type=parse_mail_type(read.line(options, "mail_type", 1024)),
        mail_user=parse_mail_user(read.line(options, "mail_user", 1024).strip()),
    )


def parse_request(options: Mapping[str, Any], nodes: Sequence[NodeView]) -> Request:
    """The resource part of the options, names expanded and checked, contradictions refused."""
    gpu_types, mixed = (
        parse_types(read.line(options, "gpu_type")) if options.get("gpu_type") is not None else ((), False)
    )
    memory = read.line(options, "gpu_mem", 64)
    request = Request(
        gpus=read.whole(options, "gpus", "-G", 0, MAX_GPUS),
        nodes=read.whole(options, "nodes", "-N", 1, MAX_NODES),
        gpus_per_node=read.whole(options, "gpus_per_node", "--gpus-per-node", 0, MAX_GPUS),
        nodelist=parse_names(options, "nodelist", "-w", nodes),
        exclude=parse_names(options, "exclude", "-x", nodes),
        gpu_ids=_gpu_ids(options),
        pins=_pins(options, nodes),
        gpu_types=gpu_types,
        mixed=mixed,
        gpu_memory_mib=parse_memory_mib(memory) if memory else None,
        partition=",".join(dict.fromkeys(filter(None, read.line(options, "partition").split(",")))),
        exclusive=read.flag(options, "exclusive"),
        policy=read.line(options, "policy", 200),
        cpus=read.whole(options, "cpus_per_task", "-c", 0, _MAX_CPUS),
        host_memory_mib=_host_memory(read.line(options, "mem", 64)),
    )
    if request.policy and request.policy not in POLICIES:
        near = read.did_you_mean(request.policy, list(POLICIES))
        raise RequestError(
            f"unknown policy '{read.shown(request.policy)}'{near or ': there are ' + ', '.join(POLICIES)}"
        )
    check_shape(request)
    return request


def parse_memory_mib(word: str) -> int:
    """`24G`, `24` (GiB), `24576M`, `0.5T` -> MiB."""
    if (size := _mib(word, _UNITS_MIB)) < 1:
        raise RequestError(f"--gpu-mem '{read.shown(word)}' cannot be read: write 24G, 24576M, or 24 (GiB)")
    return size


def _host_memory(word: str) -> int | None:
    """Without a unit MiB, as Slurm has it: of the two that people could mean, the one that scripts say."""
    if not word:
        return None
    if (size := _mib(word, {**_UNITS_MIB, "": 1})) < 1:
        hint = "; for all of a node: --exclusive" if word.strip() == "0" else ""
        raise RequestError(f"--mem '{read.shown(word)}' cannot be read: write 64G, 65536M, or 65536 (MiB){hint}")
    return size


def _mib(word: str, units: Mapping[str, float]) -> int:
    """0 = cannot be read."""
    found = _MEMORY.fullmatch(word.strip())
    return int(float(found["size"]) * units[found["unit"].upper()]) if found else 0


# --- nodes and GPUs -------------------------------------------------------------------------------------------------


def parse_names(options: Mapping[str, Any], key: str, option: str, nodes: Sequence[NodeView]) -> tuple[NodeName, ...]:
    """Of known nodes; () if none are given."""
    given = read.line(options, key, read.MAX_OPTION)
    if options.get(key) is None:
        return ()
    names = tuple(dict.fromkeys(hostlist.expand(given))) if given.strip() else ()
    if not names:
        raise RequestError(f"{option} names no node")
    return tuple(_known(name, nodes, option) for name in names)


def _known(name: str, nodes: Sequence[NodeView], option: str) -> NodeName:
    there = [node.name for node in nodes]
    if name not in there:
        more = read.did_you_mean(name, there) or f": the nodes are {hostlist.fold(there) or 'none'}"
        raise RequestError(f"{option}: unknown node '{read.shown(name)}'{more}")
    return NodeName(name)


def _gpu_ids(options: Mapping[str, Any]) -> tuple[int, ...]:
    given = read.line(options, "gpu_ids")
    return () if options.get("gpu_ids") is None else parse_indices(given, f"--gpu-ids '{read.shown(given)}'")


def _pins(options: Mapping[str, Any], nodes: Sequence[NodeView]) -> tuple[tuple[NodeName, tuple[int, ...]], ...]:
    """`node001:0,1;node002:0`: the order is that of the ranks."""
    given = read.line(options, "node_gpu_ids", read.MAX_OPTION)
    if options.get("node_gpu_ids") is None:
        return ()
    pins: dict[NodeName, tuple[int, ...]] = {}
    for part in given.strip().rstrip(";").split(";"):
        names, colon, ids = part.strip().partition(":")
        where = f"--node-gpu-ids '{read.shown(part.strip())}'"
        if not colon or not names.strip():
            raise RequestError(f"{where} cannot be read: write node:indices, as in node001:0,1;node002:0")
        indices = parse_indices(ids, where)
        for word in hostlist.expand(names):
            name = _known(word, nodes, "--node-gpu-ids")
            if name in pins:
                both = ",".join(map(str, dict.fromkeys(pins[name] + indices)))
                raise RequestError(f"--node-gpu-ids names {name} twice: write all its GPUs in one place, {name}:{both}")
            _check_range(name, indices, nodes)
            pins[name] = indices
    return tuple(pins.items())


def _check_range(name: NodeName, indices: Sequence[int], nodes: Sequence[NodeView]) -> None:
    known = next(known_indices(node) for node in nodes if node.name == name)
    missing = [] if known is None else [index for index in indices if index not in known]
    if known is not None and missing:
        there = listed(known) or "none"
        raise RequestError(f"--node-gpu-ids: {name} has no GPU {listed(missing)}: its GPUs are {there}")


# --- command and environment ----------------------------------------------------------------------------------------


def _kind(payload: Mapping[str, Any]) -> JobKind:
    given = read.line(payload, "kind", 64)
    if given not in (kind.value for kind in JobKind):
        raise RequestError(f"'kind' must be srun or batch, not '{read.shown(given)}'")
    return JobKind(given)


def _signal(options: Mapping[str, Any], time_limit_s: int | None) -> str:
    if options.get("signal") is None:
        return ""
    warning = parse_warning(read.line(options, "signal", 64))
    if time_limit_s is None:
        raise RequestError("--signal needs a time limit, to come before it: give -t")
    return warning


def _dependency(options: Mapping[str, Any]) -> Dependency | None:
    word = read.line(options, "kill_on_invalid_dep", 64).lower() or "yes"
    if word not in ("yes", "no"):
        raise RequestError(f"--kill-on-invalid-dep '{read.shown(word)}': write yes or no")
    if options.get("dependency") is None:
        return None
    return parse_dependency(read.line(options, "dependency"), keep=word == "no")


def _requeue_exits(options: Mapping[str, Any], kind: JobKind) -> tuple[int, ...]:
    """`85` or `85,86`: exit codes."""
    given = read.line(options, "requeue_on_exit", 1024)
    if options.get("requeue_on_exit") is None:
        return ()
    if kind is not JobKind.BATCH or read.flag(options, "no_requeue"):
        other = "--no-requeue" if kind is JobKind.BATCH else "srun, which waits for the end of one command"
        raise RequestError(f"--requeue-on-exit does not go with {other}")
    found = [word.strip() for word in given.split(",")]
    for word in found:
        if not _EXIT_CODE.fullmatch(word) or not 1 <= int(word) <= 255:
            raise RequestError(f"--requeue-on-exit '{read.shown(given)}': write exit codes from 1 to 255, as in 85,86")
    return tuple(dict.fromkeys(map(int, found)))


def _array(options: Mapping[str, Any], command: Command, kind: JobKind) -> str:
    """ "" = it is none. Of lines each that holds a command is a task; `%4` alone says how many run at once."""
    given = read.line(options, "array", read.MAX_OPTION).strip()
    lines = command.form is CommandForm.LINES
    if not given and not lines:
        return ""
    if kind is not JobKind.BATCH:
        raise RequestError("srun follows one job, and an array is many: give --array to mgpu submit")
    if not lines:
        return array.render_array(array.parse_array(given))
    there = array.lines_to_run(command.script)
    if not there:
        raise RequestError(f"{read.shown(command.script_name)} holds no command: every line is empty or a comment")
    if array.count(there) > array.MOST_TASKS:
        raise RequestError(f"{read.shown(command.script_name)} holds more than {array.MOST_TASKS} commands: split it")
    if not given or given.startswith("%"):
        given = array.render_indices(there) + given
    wanted = array.parse_array(given)
    if missing := array.apart(wanted.indices, there):
        named = f"{read.shown(command.script_name)} has no command in line {array.render_indices(missing)}"
        raise RequestError(f"--array '{read.shown(given)}': {named}")
    return array.render_array(wanted)


def _bounded(text: str, request: Request) -> tuple[str, list[str]]:
    """Where neither GPUs nor cores hold tasks back, all of them would begin at once."""
    if not text or shape_of(request).total or request.cpus:
        return text, []
    indices, cap = array.array_of(text)
    if cap or array.count(indices) <= _UNBOUNDED_TASKS:
        return text, []
    told = f"its tasks need no GPU: {_UNBOUNDED_TASKS} run at once, unless --array ...%N, or -c, says otherwise"
    return array.render_array(array.Array(indices, _UNBOUNDED_TASKS)), [told]


def _environment(source: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The exported values. Names that the job gets from us, or that no shell could export, are left out, and said."""
    env: dict[str, str] = {}
    ours, odd, size = [], [], 0
    for name, given in source.items():
        value = read.checked_text(given, "env", read.MAX_ENV)
        size += read.size_of(name, "env") + read.size_of(value, "env") + 2
        if size > read.MAX_ENV:
            raise RequestError("the exported environment is larger than 1 MiB: export fewer names with --export")
        if _OURS.fullmatch(name):
            ours.append(name)
        elif _ENV_NAME.fullmatch(name):
            env[name] = value
        else:
            odd.append(read.shown(name))
    notices = [f"not exported, set by mgpu itself: {_some(ours)}"] if ours else []
    return env, notices + ([f"not exported, not a variable's name: {_some(odd)}"] if odd else [])


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(sorted(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _absolute(payload: Mapping[str, Any], key: str) -> str:
    path = read.text(payload, key, 4096)
    if path and not path.startswith("/"):
        raise RequestError(f"'{key}' must be an absolute path, not '{read.shown(path)}'")
    return path


def _directory(given: str, cwd: str) -> str:
    """-D, relative to where the user stood."""
    if not given or given.startswith(("/", "~")) or not cwd:
        return given
    return f"{cwd.rstrip('/')}/{given}"
