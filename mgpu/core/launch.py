"""What a node is told to run: one shell text that sets the job's world up and then becomes the command.

Order within it: the user's exported values, the node's and the user's `setup`, then what mgpu itself says about the job
(a start-up file must not override which GPUs were granted), then `exec` of the command. Everything from outside is
quoted; the text travels on stdin and lies 0600 in the run directory, so nothing of it is ever on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mgpu.core import hostlist
from mgpu.core.array import array_of, count
from mgpu.core.model import Command, CommandForm, DeviceUuid, Job, JobKind, Part, Tree

PORTS = (20_000, 40_000)  # of MASTER_PORT


NO_UUID = "INDEX-"  # begins the name of a GPU that has none


@dataclass(frozen=True, slots=True)
class Launch:
    """`shell` "bash" = bash where there is one, else sh. `directory` "" = the account's home; where it need not exist
    and does not, the home directory is taken instead. `job_file` is the user's script, "" = none. `append`: to what
    earlier attempts left in the job's own files. `signal`, `input`: as in JobSpec. `tree`: digest of one that is to be
    unpacked; `directory` lies in it then, and begins with a dot."""

    script: str
    job_file: str = ""
    shell: str = "sh"
    directory: str = ""
    directory_must_exist: bool = False
    output: str = ""
    error: str = ""
    time_limit_s: int | None = None
    gang: bool = False
    append: bool = False
    signal: str = ""
    input: str = ""
    tree: str = ""


@dataclass(frozen=True, slots=True)
class NodeWorld:
    """What the inventory adds on one node. `renumbered`: indices cannot be trusted there, name GPUs by UUID.
    `login_shell`: its jobs read what a login reads."""

    workdir: str = ""
    setup: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    renumbered: bool = False
    login_shell: bool = False


# What bash reads at a login, in its order, before `setup` does anything.
LOGIN = """[ -r /etc/profile ] && . /etc/profile
for mgpu_file in ~/.bash_profile ~/.bash_login ~/.profile; do
  [ -r "$mgpu_file" ] && { . "$mgpu_file"; break; }
done; unset mgpu_file"""


def quote(text: str) -> str:
    """A word for any POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def render(
    job: Job, part: Part, parts: Sequence[Part], run_directory: str, world: NodeWorld, addresses: Sequence[str]
) -> Launch:
    """`addresses`: one a rank, where the other ranks reach it."""
    spec = job.spec
    setup = [text for text in (LOGIN if world.login_shell else "", world.setup, spec.setup) if text.strip()]
    lines = [
        *_exports({**world.env, **spec.env}),
        *_virtual_env(spec.virtual_env),
        *map(_setup, setup),
        *_exports(environment(job, part, parts, world, addresses)),
        *(['export PATH="${0%/*}/bin:$PATH"'] if spec.kind is JobKind.BATCH and spec.requeue else []),
        'export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"',
        _command(spec.command),
    ]
    batch = spec.kind is JobKind.BATCH
    return Launch(
        script="\n".join(lines) + "\n",
        job_file=spec.command.script,
        shell="bash" if setup else "sh",
        directory=_in_tree(spec.tree) if spec.tree else spec.chdir or world.workdir or spec.submit_dir,
        directory_must_exist=bool(spec.chdir or world.workdir),
        output=fill_pattern(spec.output, job, part) if batch else "",
        error=fill_pattern(spec.error, job, part) if batch else "",
        time_limit_s=spec.time_limit_s,
        gang=len(parts) > 1,
        append=part.attempt > 1,
        signal=spec.signal,
        input=spec.input,
        tree=spec.tree.digest if spec.tree else "",
    )


def _in_tree(tree: Tree) -> str:
    return f"./{tree.place}" if tree.place else "."


def environment(
    job: Job, part: Part, parts: Sequence[Part], world: NodeWorld, addresses: Sequence[str]
) -> dict[str, str]:
    """What every task is told. No SLURM_NTASKS or SLURM_PROCID here: libraries take them as "one process a GPU"."""
    nodes = hostlist.fold([other.node for other in parts])
    values = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices(part.devices, part.uuids, world.renumbered),
        "MGPU_JOB_ID": str(job.job_id),
        "MGPU_ATTEMPT": str(part.attempt),
        "MGPU_RANK": str(part.rank),
        "MGPU_NNODES": str(len(parts)),
        "MGPU_NODE_ID": part.node,
        "MGPU_NODELIST": nodes,
        "MGPU_GPUS": str(sum(len(other.uuids) for other in parts)),
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOBID": str(job.job_id),
        "SLURM_JOB_NAME": job.spec.name,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NNODES": str(len(parts)),
        "SLURM_JOB_NUM_NODES": str(len(parts)),
        "SLURM_NODEID": str(part.rank),
        "SLURM_GPUS_ON_NODE": str(len(part.uuids)),
        "SLURM_SUBMIT_DIR": job.spec.submit_dir,
        "SLURM_RESTART_COUNT": str(part.attempt - 1),
        **_array_variables(job),
        **_tree_variables(job.spec.tree),
    }
    if len(parts) > 1 and addresses[0]:
        values["MASTER_ADDR"] = addresses[0]
        values["MASTER_PORT"] = str(master_port(job, part.attempt))
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


def master_port(job: Job, attempt: int) -> int:
    """Jobs that run at the same time have near numbers, so the port follows from the number."""
    low, high = PORTS
    return low + (job.job_id * 7 + attempt) % (high - low)


def visible_devices(indices: Sequence[int], uuids: Sequence[DeviceUuid], by_uuid: bool) -> str:
    """CUDA_VISIBLE_DEVICES; MIG instances and renumbered GPUs only by UUID."""
    told = all(not uuid.startswith(NO_UUID) for uuid in uuids)
    if (by_uuid and told) or any(uuid.startswith("MIG-") for uuid in uuids):
        return ",".join(uuids)
    return ",".join(map(str, indices))


def fill_pattern(pattern: str, job: Job, part: Part) -> str:
    """%j job id, %A that of the array, %a array index (0), %n or %N node, %r rank, %u user, %x job name, %% a percent
    sign; others stay. A digit in between is how many digits a number has at least: %3a."""
    values = {
        "j": str(job.job_id),
        "A": str(job.job_id if job.array_id is None else job.array_id),
        "a": str(job.array_index or 0),
        "n": part.node,
        "N": part.node,
        "u": job.user,
        "r": str(part.rank),
        "x": job.spec.name.replace("/", "_"),
        "%": "%",
    }
    filled, rest = "", pattern
    while "%" in rest:
        before, _, rest = rest.partition("%")
        digits = rest[:1] if rest[:1] in "123456789" and rest[1:2] in "jAar" else ""
        letter = rest[len(digits) : len(digits) + 1]
        filled += before + values.get(letter, "%" + letter).rjust(int(digits or 0), "0")
        rest = rest[len(digits) + 1 :]
    return filled + rest


def _exports(values: Mapping[str, str]) -> list[str]:
    return [f"export {name}={quote(value)}" for name, value in values.items()]


def _setup(text: str) -> str:
    """A text of its own, so that one which ends in the middle (a quote, a here-document) swallows nothing of ours. Its
    last line does not run then, and the job says so instead of beginning in half a world."""
    said = quote("mgpu: setup ends in the middle of something (a quote, a here-document?): the command is not run")
    return (
        f"mgpu_setup=; eval {quote(text + _SETUP_ENDS)}\n"
        f'[ -n "$mgpu_setup" ] || {{ printf "%s\\n" {said} >&2; exit 2; }}; unset mgpu_setup'
    )


_SETUP_ENDS = "\n\nmgpu_setup=1"


def _virtual_env(path: str) -> list[str]:
    """The user's environment first in PATH where the node has it, else one line that says so."""
    if not path:
        return []
    binaries = quote(path.rstrip("/") + "/bin")
    absent = quote(f"mgpu: {path} is not on this node: its programs are not in PATH")
    return [f'if [ -d {binaries} ]; then export PATH={binaries}:"$PATH"; else printf "%s\\n" {absent} >&2; fi']


def _command(command: Command) -> str:
    words = " ".join(quote(word) for word in command.words)
    if command.form is CommandForm.ARGV:
        return f"exec {words}"
    if command.form is CommandForm.SHELL:
        # in this shell, so that functions which `setup` brought (conda) are there
        return command.words[0]
    # the script is read by its interpreter, not executed: the run directory may be on a noexec mount
    return f'exec {_interpreter(command.script)} "${{0%/*}}/job" {words}'.rstrip()


def _interpreter(script: str) -> str:
    """Of the `#!` line as the kernel reads it: one program, at most one argument."""
    first = script.split("\n", 1)[0]
    if not first.startswith("#!"):
        return "/bin/sh"
    program, _, argument = first[2:].strip().partition(" ")
    argument = argument.strip()
    return f"{quote(program)} {quote(argument)}" if argument else quote(program or "/bin/sh")
