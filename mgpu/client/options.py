"""The options of a job, and where a value comes from: flag > variable > the user's own file.

Values stay the text that was typed: only the master reads meaning into them.
"""

from __future__ import annotations

from mgpu.client.http import bad_request
from mgpu.client.option import Option
from mgpu.lean.typing import Any, Iterable, Mapping
from mgpu.numeral import numeral

SHIP_AROUND = "auto"  # the repository around us, else the folder that we are in

# In the order of the help. The wire's key is the long name with `_`.
RESOURCES = [
    Option("-G --gpus", "N", "GPUs in all (default 1)."),
    Option("-N --nodes", "N", "Number of nodes."),
    Option("--gpus-per-node", "N", "GPUs on each node."),
    Option("-w --nodelist", "NODES", "Run on all these nodes, as in gpu[001-004]."),
    Option("-x --exclude", "NODES", "Never on these nodes."),
    Option("--gpu-ids", "0,1", "These GPUs, on each node of the job; 0.2 is MIG instance 2 of GPU 0."),
    Option("--node-gpu-ids", "SPEC", 'These GPUs of these nodes: "node001:0,1;node002:0".'),
    Option("--gpu-type", "TYPE", "Kind of GPU, as in A100 or A100|H100; `any` allows a mixture."),
    Option("--gpu-mem", "SIZE", "Memory of each GPU at least, as in 24G."),
    Option("-c --cpus-per-task", "N", "Cores on each node (default: the share that goes with its GPUs)."),
    Option("--mem", "SIZE", "Host memory on each node, as in 64G; a number alone is MiB."),
    Option("--exclusive", "", "Nothing else on the job's nodes."),
    Option("--policy", "NAME", "How to choose among nodes: fill_first, spread."),
]
PROCESSES = [
    Option("--launcher", "NAME", "What starts its processes: none, torchrun, mpi."),
    Option("--distributed", "", "--launcher torchrun: COMMAND is torchrun, or a Python program for it."),
    Option("--mpi", "", "--launcher mpi: COMMAND is mpirun."),
    Option(
        "--tasks-per-node --ntasks-per-node",
        "N",
        "COMMAND N times on each node, side by side, each with a rank of its own; -n N: so many in all.",
    ),
]
CARE = [
    Option("-t --time", "LIMIT", "Time limit: MIN, MIN:SEC, H:MIN:SEC, D-H, D-H:MIN, D-H:MIN:SEC; 0 = none."),
    Option("--signal", "[B:]SIG[@S]", "Send it S seconds (60) before the time limit; B: to the first process alone."),
    Option("-p --partition", "NAME", "Partition to run in."),
    Option("-A --account", "NAME", "Whose share of the GPUs it uses; default: the first account that lists you."),
    Option("--priority", "N", "Higher runs earlier; above 0 for admins."),
    Option("--nice", "N", "Let others go first: so much lower a priority (100 if not said).", bare="100"),
    Option("-H --hold", "", "Queue it held: it waits until `mgpu release`."),
    Option(
        "-d --dependency",
        "LIST",
        "Wait for other jobs: afterok:17:18, afternotok, afterany, after, singleton; with , (all) or ? (any).",
    ),
    Option("--kill-on-invalid-dep", "yes|no", "no: wait, and do not end, when that can never be."),
    Option("-b --begin", "TIME", "Not before TIME: 16:00, tomorrow, 2026-12-01T08:00, now+1hour."),
    Option("-J --job-name", "NAME", "Name of the job."),
    Option("--retries", "N", "Run again up to N times if the command fails."),
    Option("--no-requeue", "", "Never run again after node trouble."),
    Option(
        "--mail-type", "LIST", "Have somebody told: BEGIN, END, FAIL, REQUEUE, TIME_LIMIT_90, ARRAY_TASKS, ALL, ..."
    ),
    Option("--mail-user", "NAME", "Whom, a login or an address; you, if it is left out."),
]
SURROUNDINGS = [
    Option(
        "-o --output",
        "FILE",
        "File for stdout (%j job, %A array, %a its index, %n node, %r rank): srun writes it here, submit on the node.",
    ),
    Option("-e --error", "FILE", "File for stderr, likewise."),
    Option("-D --chdir", "DIR", "Directory on the node; must exist there."),
    Option(
        "--export",
        "WHAT",
        "Variables: NAME, NAME=VALUE, ALL, NONE, with commas between; may be repeated.",
        repeated=True,
    ),
    Option(
        "--export-file",
        "FILE",
        "Variables from this file on the node ('~/FILE' in quotes: in your home there): lines of NAME=VALUE, or as "
        "`env -0` writes them.",
    ),
    Option(
        "--ship",
        "[=DIR]",
        "Send the git work tree (or DIR) along and run in it; without git all but what .mgpuignore names.",
        bare=SHIP_AROUND,
    ),
    Option("--setup", "CMD", "Shell text to run before the command."),
]
QUIET = Option("-Q --quiet", "", "Say nothing but errors on stderr.")
STATUS_FILE = Option("--status-file", "FILE", "Write how it ended to FILE, as JSON.")
LABEL = Option("-l --label", "", "Begin each line of output with the rank of its node.")
FOLLOWING = [
    QUIET,
    LABEL,
    Option("--rank", "R", "Show the output of this rank of a node alone."),
    STATUS_FILE,
    Option("--session-timeout", "S", "Stop following after S seconds in all."),
    Option("--max-wait-time", "S", "Stop following after S seconds without output."),
    Option(
        "--connection-timeout",
        "S",
        "Try to reach the master for S seconds; stop following S seconds after it was lost.",
    ),
    Option("--max-consecutive-timeouts", "N", "Stop following after N failures in a row to reach the master."),
]
IMMEDIATE = Option(
    "-I --immediate",
    "[S]",
    "Give up (exit 75) unless it starts within S seconds, written without a blank: -I5, --immediate=5; alone: 1.",
    bare="1",
)
KILL_ON_DISCONNECT = Option(
    "--kill-on-disconnect",
    "[S]",
    "End the job when no client of it was connected for S seconds, as in --kill-on-disconnect=60; alone: 30.",
    bare="30",
)
REQUEUE_ON_EXIT = Option("--requeue-on-exit", "N[,M]", "Queue it again when it ends with one of these exit codes.")
TEST_ONLY = Option("--test-only", "", "Say when and where it would start, and queue nothing.")
INTERACTIVE = Option("--interactive", "", "Follow the job in the foreground, as srun does.")
ARRAY = Option("-a --array", "0-99%4", "Many jobs with one number: a task for each index; %4: at most 4 at once.")
REQUEST_ID = Option("--request-id", "KEY", "Submitted again with the same KEY, it is the same job and not another.")
EACH_LINE = Option("--each-line", "FILE", "An array: a task for each line of FILE (-: stdin), a shell's command line.")
WAIT = Option("-W --wait", "", "Return when it has ended, with its exit status; of an array the highest of its tasks.")
OF_SUBMIT = [ARRAY, EACH_LINE, REQUEUE_ON_EXIT, INTERACTIVE, TEST_ONLY, WAIT]

# These name what the job that we run in was given, not what to ask for.
OF_THE_JOB_AROUND_US = {"gpus", "nodelist", "rank"}
# Each is a launcher in one word.
LAUNCHERS_IN_SHORT = {"distributed": "torchrun", "mpi": "mpi"}
# Each says how many GPUs: one of them puts aside what a place that counts less says with another.
COUNTS = {"gpus", "gpus_per_node", "gpu_ids", "node_gpu_ids"}


class FromScript(str):
    """A value that stands in a script: what is said of it begins with `where`."""

    where = ""


def from_script(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    found = FromScript(value)
    found.where = where
    return found


def job_options(*extra: Option) -> list[Option]:
    """The options of a job, and `extra` ones, in the order of the help."""
    return [*RESOURCES, *PROCESSES, *CARE, *SURROUNDINGS, REQUEST_ID, *extra, *FOLLOWING]


def resolve(
    given: Mapping[str, Any], environ: Mapping[str, str], *below: Mapping[str, str | bool]
) -> dict[str, str | bool]:
    """The values in force, by key. `given`: by the command line (None, False, () = not; an empty one is the master's to
    refuse). `below`: by the user's own file, then by a script's directives, those that count more behind the others;
    variables count more than these.

    Raises MasterError (bad_request) for a switch that is neither on nor off.
    """
    typed = {key: value for key, value in given.items() if value not in (None, (), False)}
    typed = {key: ",".join(value) if isinstance(value, tuple) else value for key, value in typed.items()}
    chosen: dict[str, str | bool] = {}
    for said in (*below, variables(given, environ), typed):
        layer = _with_launcher(said, environ)
        if not COUNTS.isdisjoint(layer):
            chosen = {key: value for key, value in chosen.items() if key not in COUNTS}
        chosen.update(layer)
    for key in SWITCHES & chosen.keys():
        chosen[key] = switched_on(key, chosen[key], environ)
    return {key: value for key, value in chosen.items() if value is not False}


def _with_launcher(said: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """--distributed and --mpi by their launcher's name. Raises MasterError for two launchers in one place."""
    layer = {key: value for key, value in said.items() if key not in LAUNCHERS_IN_SHORT}
    named = f"--launcher {layer.get('launcher')}"
    for key, launcher in LAUNCHERS_IN_SHORT.items():
        if key not in said or not switched_on(key, said[key], environ):
            continue
        if str(layer.setdefault("launcher", launcher)).strip().lower() != launcher:
            raise bad_request(f"--{key} contradicts {named}", "leave out one of them")
        named = f"--{key}"
    return layer


def variables(keys: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment says of these options."""
    apart = OF_THE_JOB_AROUND_US if "MGPU_JOB_ID" in environ else ()
    set_here = set(environ)  # each look at a variable that is not set costs an exception
    names = {key: f"MGPU_{key.upper()}" for key in keys if key in OF_VARIABLES and key not in apart}
    return {key: environ[name] for key, name in names.items() if name in set_here and environ[name]}


def switched_on(key: str, value: str | bool, environ: Mapping[str, str]) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    variable = f"MGPU_{key.upper()}"
    source = variable if environ.get(variable) == value else f"{key} in your own config.yaml"
    raise bad_request(f"{source} is {value!r}", "write true or false")


_ALL = [*RESOURCES, *PROCESSES, *CARE, *SURROUNDINGS, REQUEST_ID, *FOLLOWING, IMMEDIATE, KILL_ON_DISCONNECT, *OF_SUBMIT]
KEYS = {option.key for option in _ALL}
OF_ONE_COMMAND = {REQUEST_ID.key, STATUS_FILE.key}  # the next one means another job: no variable or file gives them
OF_VARIABLES = KEYS - OF_ONE_COMMAND
SWITCHES = {option.key for option in _ALL if not option.metavar}
# What the master is told; the rest concerns the client alone.
WIRE_KEYS = {
    option.key for option in [*RESOURCES, *PROCESSES, *CARE, *SURROUNDINGS, ARRAY, REQUEUE_ON_EXIT, KILL_ON_DISCONNECT]
} - {"export", "ship", *LAUNCHERS_IN_SHORT}


def seconds(options: Mapping[str, str | bool], key: str) -> float | None:
    """An option of the client that is a number. Raises MasterError (bad_request)."""
    value = options.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise bad_request(f"--{key.replace('_', '-')} {value}: not a number", "give one that is 0 or more")
    return number


def whole_number(options: Mapping[str, str | bool], key: str) -> int | None:
    """Likewise, of a count."""
    value = options.get(key)
    if value is None:
        return None
    number = numeral(str(value))
    if number is None:
        raise bad_request(f"--{key.replace('_', '-')} {value}: not a whole number", "give one that is 0 or more")
    return number
