"""What a node is told to run: one shell text that sets the job's world up and then becomes the command.

Order within it: the user's exported values, the node's and the user's `setup`, then what mgpu itself says about the job
(a start-up file must not override which GPUs were granted), then `exec` of the command. Everything from outside is
quoted; the text travels on stdin and lies 0600 in the run directory, so nothing of it is ever on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgpu.core.environment import ASSUMED, environment
from mgpu.core.gang import Gang
from mgpu.core.launchers import LAUNCHERS, ends_with_rank_0
from mgpu.core.model import CommandForm, Job, JobKind, Part, Tree
from mgpu.core.shelltext import defaults, exports, exports_of_file, quote


@dataclass(frozen=True, slots=True)
class Launch:
    """`shell` "bash" = bash where there is one, else sh. `directory` "" = the account's home; where it need not exist
    and does not, the home directory is taken instead. `job_file` is the user's script, "" = none. `append`: to what
    earlier attempts left in the job's own files. `signal`, `input`: as in JobSpec. `tree`: digest of one that is to be
    unpacked; `directory` lies in it then, and begins with a dot. `port`: where somebody else listens there, it does not
    start; None = nobody is looked for. `requeue`: it may have itself queued again."""

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
    port: int | None = None
    requeue: bool = True


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


def render(gang: Gang, world: NodeWorld) -> Launch:
    job, part, spec = gang.job, gang.part, gang.job.spec
    launcher = LAUNCHERS[spec.launcher]
    around, shell = surroundings(world, spec.env, spec.virtual_env, spec.setup, spec.export_file)
    batch = spec.kind is JobKind.BATCH
    requeue = batch and spec.requeue
    lines = [
        *around,
        *exports({**environment(gang, world.renumbered), **launcher.variables(gang)}),
        *(['export PATH="${0%/*}/bin:$PATH"'] if gang.several or requeue else []),
        *defaults(ASSUMED),
        launcher.ending(gang),
    ]
    return Launch(
        script="\n".join(lines) + "\n",
        job_file=spec.command.script,
        shell=shell,
        directory=_in_tree(spec.tree) if spec.tree else spec.chdir or world.workdir or spec.submit_dir,
        directory_must_exist=bool(spec.chdir or world.workdir),
        output=fill_pattern(spec.output, job, part) if batch else "",
        error=fill_pattern(spec.error, job, part) if batch else "",
        time_limit_s=spec.time_limit_s,
        gang=gang.several,
        append=part.attempt > 1,
        signal=_warning(gang),
        input="" if gang.part.rank and ends_with_rank_0(job) else spec.input,  # who waits for work reads nothing
        tree=spec.tree.digest if spec.tree else "",
        port=gang.attempt.port if part.rank == 0 else None,
        requeue=requeue,
    )


def surroundings(
    world: NodeWorld, env: Mapping[str, str], virtual_env: str = "", setup: str = "", export_file: str = ""
) -> tuple[list[str], str]:
    """What comes before anything of ours, and the shell for it, as in a Launch. The nearer to the job it was said, the
    later it is set."""
    texts = [text for text in (LOGIN if world.login_shell else "", world.setup, setup) if text.strip()]
    values = [*exports(world.env), *exports_of_file(export_file), *exports(env)]
    lines = [*values, *_virtual_env(virtual_env), *map(_setup, texts)]
    return lines, "bash" if texts else "sh"


def _warning(gang: Gang) -> str:
    """Before the time limit. mpirun passes it on to its ranks; daemons on the other nodes would die of it."""
    word = gang.job.spec.signal
    if not word or not ends_with_rank_0(gang.job):
        return word
    alone = gang.job.spec.command.form is CommandForm.ARGV and not word.startswith("B:")
    return "" if gang.part.rank else f"B:{word}" if alone else word


def _in_tree(tree: Tree) -> str:
    return f"./{tree.place}" if tree.place else "."


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
