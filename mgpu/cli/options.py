"""The options of a job, and where a value comes from: flag > variable > the user's own file.

Values stay the text that was typed: only the master reads meaning into them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from mgpu.cli.command import Function, OptionalValue, with_options
from mgpu.cli.session import bad_request

# (flags, metavar or "" for a switch, help), in the order of the help. The wire's key is the long name with `_`.
RESOURCES = [
    (("-G", "--gpus"), "N", "GPUs in all (default 1)."),
    (("-N", "--nodes"), "N", "Number of nodes."),
    (("--gpus-per-node",), "N", "GPUs on each node."),
    (("-w", "--nodelist"), "NODES", "Run on all these nodes, as in gpu[001-004]."),
    (("-x", "--exclude"), "NODES", "Never on these nodes."),
    (("--gpu-ids",), "0,1", "These GPUs, on each node of the job."),
    (("--node-gpu-ids",), "SPEC", 'These GPUs of these nodes: "node001:0,1;node002:0".'),
    (("--gpu-type",), "TYPE", "Kind of GPU, as in A100 or A100|H100; `any` allows a mixture."),
    (("--gpu-mem",), "SIZE", "Memory of each GPU at least, as in 24G."),
    (("--exclusive",), "", "Nothing else on the job's nodes."),
    (("--policy",), "NAME", "How to choose among nodes: fill_first, spread."),
]
CARE = [
    (("-t", "--time"), "LIMIT", "Time limit: MIN, MIN:SEC, H:MIN:SEC, D-H, D-H:MIN, D-H:MIN:SEC; 0 = none."),
    (("--signal",), "[B:]SIG[@S]", "Send it S seconds (60) before the time limit; B: to the first process alone."),
    (("-p", "--partition"), "NAME", "Partition to run in."),
    (("--priority",), "N", "Higher runs earlier."),
    (("-J", "--job-name"), "NAME", "Name of the job."),
    (("--retries",), "N", "Run again up to N times if the command fails."),
    (("--no-requeue",), "", "Never run again after node trouble."),
]
SURROUNDINGS = [
    (
        ("-o", "--output"),
        "FILE",
        "File for stdout (%j job, %a array index, %n node, %r rank): srun writes it here, submit on the node.",
    ),
    (("-e", "--error"), "FILE", "File for stderr, likewise."),
    (("-D", "--chdir"), "DIR", "Directory on the node; must exist there."),
    (("--export",), "WHAT", "Variables: NAME, NAME=VALUE, ALL, NONE, with commas between; may be repeated."),
    (("--setup",), "CMD", "Shell text to run before the command."),
]
FOLLOWING = [
    (("-Q", "--quiet"), "", "Say nothing but errors on stderr."),
    (("-l", "--label"), "", "Begin each line of output with its rank."),
    (("--session-timeout",), "S", "Stop following after S seconds in all."),
    (("--max-wait-time",), "S", "Stop following after S seconds without output."),
    (("--connection-timeout",), "S", "Stop following S seconds after the master was lost."),
    (("--max-consecutive-timeouts",), "N", "Stop following after N failures in a row to reach the master."),
]
IMMEDIATE = (("-I", "--immediate"), "[S]", "Give up (exit 75) unless it starts within S seconds (alone: 1).")
REQUEUE_ON_EXIT = (("--requeue-on-exit",), "N[,M]", "Queue it again when it ends with one of these exit codes.")
INTERACTIVE = (("--interactive",), "", "Follow the job in the foreground, as srun does.")

# These name what the job that we run in was given, not what to ask for.
OF_THE_JOB_AROUND_US = {"gpus", "nodelist", "rank"}


def job_options(*extra: tuple[tuple[str, ...], str, str]) -> Callable[[Function], Function]:
    """Adds the options of a job, and `extra` ones, to a command."""
    return with_options([make_option(*spec) for spec in (*RESOURCES, *CARE, *SURROUNDINGS, *extra, *FOLLOWING)])


def make_option(flags: tuple[str, ...], metavar: str, text: str) -> click.Option:
    if metavar == "[S]":
        return OptionalValue(list(flags), metavar=metavar, help=text, bare="1")
    if not metavar:
        return click.Option(list(flags), is_flag=True, default=None, help=text)
    return click.Option(list(flags), metavar=metavar, help=text, multiple=flags == ("--export",))


def resolve(given: Mapping[str, Any], environ: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str | bool]:
    """The values in force, by key. `given`: click's (None or () = not given); `defaults`: the user's own file's.

    Raises MasterError (bad_request) for a switch that is neither on nor off.
    """
    inside_job = "MGPU_JOB_ID" in environ
    chosen: dict[str, str | bool] = {}
    for key, value in given.items():
        variable = "" if inside_job and key in OF_THE_JOB_AROUND_US else environ.get(f"MGPU_{key.upper()}", "")
        if value not in (None, (), False):
            chosen[key] = ",".join(value) if isinstance(value, tuple) else value
        elif text := variable or defaults.get(key, ""):
            source = f"MGPU_{key.upper()}" if variable else f"{key} in your own config.yaml"
            chosen[key] = text if key not in SWITCHES else switched_on(source, text)
    return {key: value for key, value in chosen.items() if value is not False}


def switched_on(source: str, text: str) -> bool:
    word = text.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise bad_request(f"{source} is {text!r}", "write true or false")


def _key(flags: tuple[str, ...]) -> str:
    return flags[-1].lstrip("-").replace("-", "_")


_ALL = [*RESOURCES, *CARE, *SURROUNDINGS, *FOLLOWING, IMMEDIATE, REQUEUE_ON_EXIT, INTERACTIVE]
KEYS = {_key(flags) for flags, _, _ in _ALL}
SWITCHES = {_key(flags) for flags, metavar, _ in _ALL if not metavar}
# What the master is told; the rest concerns the client alone.
WIRE_KEYS = {_key(flags) for flags, _, _ in [*RESOURCES, *CARE, *SURROUNDINGS, REQUEUE_ON_EXIT]} - {"export"}


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
