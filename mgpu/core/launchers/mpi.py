"""mpirun, started once, on rank 0; the other parts wait for what it has to start on their nodes.

mpirun starts its daemons (Open MPI: orted, prted; MPICH: hydra_pmi_proxy) with whatever it is told to use in place of
ssh. Here that is the agent of `spawning`: no node needs a key for another one, and what is started belongs to the part
there, to its leases and to its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from mgpu.core.errors import RequestError
from mgpu.core.gang import Gang
from mgpu.core.launchers.spawning import AGENT, WAIT
from mgpu.core.model import Command, CommandForm
from mgpu.core.shelltext import become, quote, unless_there

FOLDER = "spawn"  # in the run directories


def settle(command: Command, sizes: Sequence[int]) -> Command:
    """More ranks than slots only where the user says how: Open MPI would refuse them once the job has its nodes."""
    asked = _ranks(command)
    slots = sum(size or 1 for size in sizes)
    if asked is not None and slots and asked[1] > slots:
        option, ranks = asked
        where = f"{len(sizes)} nodes have" if len(sizes) > 1 else "its node has"
        have = f"{slots} slot{'' if slots == 1 else 's'}"
        raise RequestError(
            f"{command.words[0]} {option} {ranks}: {where} {have}, one for each GPU or as --ntasks-per-node says",
            f"ask for {ranks}, or have {option} {slots}, or add --oversubscribe for several ranks a slot",
        )
    return command


def variables(gang: Gang) -> dict[str, str]:
    """That ranks start with what their own node says is hydra's affair; Open MPI's do."""
    return {
        "HYDRA_ENV": "none",
        "HYDRA_LAUNCHER": "ssh",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        **_interface(gang),
    }


def ending(gang: Gang) -> str:
    if gang.part.rank > 0:
        return WAIT
    if why := _nowhere(gang):
        return f"printf 'mgpu: %s\\n' {quote(why)} >&2\nexit 2"
    command = gang.job.spec.command
    return "\n".join([_prepared(gang), *unless_there(command, gang.part.node), become(command)])


def _nowhere(gang: Gang) -> str:
    """Why mpirun would not find the hosts; "" = it will."""
    known = [address for address in gang.addresses if address]
    if gang.several and len(known) < len(gang.addresses):
        node = gang.parts[gang.addresses.index("")].node
        return f"where the other nodes reach {node} is not known: network.address in the inventory can say it"
    if len(set(known)) < len(known):
        return "nodes of this job are one machine, which mpirun takes for one node: --mpi needs a machine for each"
    return ""


def _interface(gang: Gang) -> dict[str, str]:
    """What rank 0's node is told counts on all of them: only where it has one name there."""
    if not gang.several or not gang.interface or len(set(gang.interfaces)) > 1:
        return {}
    names = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")
    return dict.fromkeys(names, gang.interface)


def slots(gang: Gang) -> list[int]:
    """One for each GPU; without GPUs one a node, or as many as were asked for."""
    return [gang.job.spec.tasks_per_node or len(part.uuids) or 1 for part in gang.parts]


def _prepared(gang: Gang) -> str:
    """The files that mpirun is pointed to. Open MPI knows its own node by the name that this has for itself; hydra by
    address too, and then has that for what connects back to it: names need not resolve between nodes."""
    reached = (address or part.address or part.node for address, part in zip(gang.addresses, gang.parts, strict=True))
    counts = list(zip(reached, slots(gang), strict=True))
    others = "".join(f"{address} slots={count}\n" for address, count in counts[1:])
    hydra = "".join(f"{address}:{count}\n" for address, count in counts)
    lines = [
        f'mgpu_spawn="${{0%/*}}/{FOLDER}"',
        "(",
        "umask 077",
        'mkdir -p "$mgpu_spawn"',
        "read -r mgpu_host </proc/sys/kernel/hostname",
        f'printf "%s slots=%s\\n%s" "$mgpu_host" {counts[0][1]} {quote(others)} >"$mgpu_spawn/hosts"',
        f'printf %s {quote(hydra)} >"$mgpu_spawn/hydra.hosts"',
        f'printf %s {quote(AGENT)} >"$mgpu_spawn/agent"',
        'chmod 700 "$mgpu_spawn/agent"',
        ")",
        'export OMPI_MCA_plm_rsh_agent="/bin/sh $mgpu_spawn/agent" PRTE_MCA_plm_ssh_agent="/bin/sh $mgpu_spawn/agent"',
        'export OMPI_MCA_orte_default_hostfile="$mgpu_spawn/hosts" PRTE_MCA_prte_default_hostfile="$mgpu_spawn/hosts"',
        'export HYDRA_LAUNCHER_EXEC="$mgpu_spawn/agent" HYDRA_HOST_FILE="$mgpu_spawn/hydra.hosts"',
        # what differs from this when mpirun runs was set by the job itself, and goes along to the other nodes
        '(umask 077; env -0 | tr "\\n\\0" "\\001\\n" >"$mgpu_spawn/world")',
        "unset mgpu_spawn",
    ]
    return "\n".join(lines)


# Options of mpirun by the words that follow them. Only where all before the program are known is it clear which -np is
# mpirun's and not the program's.
_NUMBER = ("-np", "--np", "-n", "--n", "-c")
_ALONE = (
    *("-q", "--quiet", "-v", "--verbose", "-verbose", "--allow-run-as-root", "--tag-output", "--timestamp-output"),
    *("-l", "-prepend-rank", "--nooversubscribe"),
)
_WITH_ONE = (
    *("-x", "-wdir", "--wdir", "-wd", "--bind-to", "-bind-to", "--output", "--stdin", "--timeout", "-timeout"),
    *("-genvlist", "-ppn"),
)
_WITH_TWO = ("-mca", "--mca", "--prtemca", "--pmixmca", "-genv", "-env")


def is_mpirun(command: Command) -> str:
    """Its name, without folders; "" = it is another command, or one of which that is not known."""
    name = command.words[0].rpartition("/")[2] if command.form is CommandForm.ARGV else ""
    return name if name in ("mpirun", "mpiexec") else ""


def _ranks(command: Command) -> tuple[str, int] | None:
    """The option that says how many, and the number."""
    if not is_mpirun(command):
        return None
    asked, words = None, list(command.words[1:])
    while words and words[0].startswith("-"):
        option = words.pop(0)
        taken = 2 if option in _WITH_TWO else 1 if option in (*_WITH_ONE, *_NUMBER) else 0
        if taken > len(words) or not (taken or option in _ALONE):
            return None
        if option in _NUMBER:
            if not (words[0].isascii() and words[0].isdigit()):
                return None
            asked = option, int(words[0][:9])
        del words[:taken]
    return asked
