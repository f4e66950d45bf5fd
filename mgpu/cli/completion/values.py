"""What the value of an option or an argument is, told by its metavar and its name: so that it can be offered."""

from __future__ import annotations

from mgpu.cli.syntax import Argument, Option
from mgpu.lean.typing import NamedTuple

# what a shell knows itself
FILES, FOLDERS, COMMANDS = "files", "folders", "commands"
# what the master knows
JOBS, NODES, PARTITIONS, USERS, GPU_TYPES = "jobs", "nodes", "partitions", "users", "GPU types"
NOTHING = ""

STATES = ("PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
SIGNALS = (
    "HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "CONT",
    "STOP", "TSTP", "XCPU",
)  # fmt: skip
LAUNCHERS = ("none", "torchrun", "mpi")
POLICIES = ("fill_first", "spread")
ORDERS = ("default", "fifo", "sjf")
BACKFILLS = ("easy", "skip", "none")
THEMES = ("dark", "light", "colour-blind", "plain")
MAIL_TYPES = (
    "ALL", "NONE", "BEGIN", "END", "FAIL", "INVALID_DEPEND", "REQUEUE", "STAGE_OUT", "TIME_LIMIT", "TIME_LIMIT_90",
    "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS",
)  # fmt: skip


class Value(NamedTuple):
    """`kind`: one of the above; `choices`: all that it can be. `between`: what stands between several in one word."""

    kind: str = NOTHING
    choices: tuple[str, ...] = ()
    between: str = ""


FREE = Value()
BY_METAVAR = {
    "FILE": Value(FILES),
    "FILE.svg": Value(FILES),
    "DIR": Value(FOLDERS),
    "[=DIR]": Value(FOLDERS),
    "NODE": Value(NODES),
    "NODES": Value(NODES, between=","),
    "NODE[:GPUS]": Value(NODES),
    "IDS": Value(JOBS, between=","),
    "STATES": Value(choices=STATES, between=","),
    "TYPE": Value(GPU_TYPES, between="|"),
    "SIGNAL": Value(choices=SIGNALS),
    "ORDER": Value(choices=ORDERS),
    "KIND": Value(choices=BACKFILLS),
    "TRACE": Value(FILES),
}
# where the metavar does not tell
BY_KEY = {
    "partition": Value(PARTITIONS),
    "user": Value(USERS),
    "run_as": FREE,
    "node": Value(NODES),
    "job": Value(JOBS),
    "launcher": Value(choices=LAUNCHERS),
    "policy": Value(choices=POLICIES),
    "theme": Value(choices=THEMES),
    "mail_type": Value(choices=MAIL_TYPES, between=","),
    "job_id": Value(JOBS),
    "ids": Value(JOBS),
    "targets": Value(JOBS),
    "names": Value(NODES),
    "file": Value(FILES),
}
# A LOGIN is one of another machine.
NOT_KNOWN = {
    "0,1", "0-99%4", "ADDRESS", "CMD", "H", "HOST", "HOST:PORT", "ID", "ID|NAME", "K", "KEY", "LABEL", "LIMIT", "LIST",
    "LOGIN", "N", "NAME", "NxG[,...]", "N[,M]", "ORDER[/BACKFILL[/POLICY]]", "P", "PATTERN", "R", "S", "SECONDS",
    "SHA256:...", "SIZE", "SPEC", "TEXT", "TIME", "U", "URL", "USER", "WHAT", "WORD", "[B:]SIG[@S]", "[S]", "",
}  # fmt: skip


def value_of(parameter: Option | Argument) -> Value | None:
    """None: nobody has said what it is."""
    metavar = parameter.metavar
    if isinstance(parameter, Argument):
        metavar = metavar.removesuffix("...").strip("[]") if metavar != "NODE[:GPUS]..." else "NODE[:GPUS]"
    found = BY_METAVAR.get(metavar)
    if found is None and metavar != "LOGIN":
        found = BY_KEY.get(parameter.key)
    if found is None and "|" in metavar and metavar.replace("|", "").isalpha() and "ID" not in metavar:
        found = Value(choices=tuple(metavar.split("|")))
    if found is None and metavar in NOT_KNOWN:
        found = FREE
    return found
