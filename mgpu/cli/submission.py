"""From a command line to a submission: the words, the options as typed, the variables that go along."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from mgpu.cli.options import KEYS, WIRE_KEYS, FromScript, resolve, seconds
from mgpu.cli.own_config import load_own_config
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Words
from mgpu.cli.text import say
from mgpu.client.http import MasterError
from mgpu.client.zone import own_zone
from mgpu.lean_typing import Any, NamedTuple
from mgpu.wording.letters import clean

SCRIPT_LIMIT_B = 4 << 20
SCRIPT_ENDINGS = (".sh", ".bash", ".slurm", ".sbatch", ".py")
# What describes this login or this machine, and would be wrong on another. --export PATH still sends it.
NOT_IN_ALL = {
    "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "MAIL",
    "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
}  # fmt: skip
NOT_IN_ALL_PREFIXES = ("MGPU_", "SLURM_", "SSH_", "XDG_")
NO_EXPORT = ("NONE", "NIL")
SLURMS_FORMS = (("gpus", ":"), ("gpus_per_node", ":"), ("nodes", "-"))  # --gpus a100:2, --nodes 2-2


class Prepared(NamedTuple):
    """A submission ready to send, and the options in force (those of the client among them)."""

    body: dict[str, Any]
    options: dict[str, str | bool]
    shipment: Any = None  # what is still to be sent along, as in client.ship


def prepare(given: Mapping[str, Any], typed: Words, kind: str) -> Prepared:
    """Raises MasterError (bad_request)."""
    given, notices = in_our_terms(given, kind)
    words = typed.words
    command = command_of(typed, kind, given)
    own = load_own_config(os.environ)
    paths = ("chdir", "output", "error") if kind == "srun" else ("chdir",)
    beside_it = {
        key: os.path.join(own.folder, os.path.expanduser(own.options[key])) for key in paths if key in own.options
    }
    of_their_file = {key: value for key, value in {**own.options, **beside_it}.items() if value != ""}
    options = resolve(given, os.environ, of_their_file, *directives(words, command, notices))
    export = str(options.get("export", ""))
    told = wire_keys(kind) - ({"chdir"} if "ship" in options else set())  # that is the place in the tree then
    body: dict[str, Any] = {
        "request_id": os.urandom(16).hex(),
        "kind": kind,
        "command": command,
        "options": {key: value for key, value in options.items() if key in told},
        "env": exported(export, os.environ, own.env),
        "cwd": working_directory(),
        "virtual_env": "" if export in NO_EXPORT else virtual_env(os.environ),
    }
    if options.get("begin"):
        body["zone"] = own_zone()
    if options.get("request_id"):
        body["key"] = options["request_id"]
    shipment = None
    if "ship" in options:
        from mgpu.cli.ship import shipment_of

        shipment = shipment_of(options, os.getcwd())
    if not options.get("quiet"):
        for notice in (*notices, *surprises(words, command)):
            say(notice)
    return Prepared(body, options, shipment)


def in_our_terms(given: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], list[str]]:
    """Without options, and forms of values, that are Slurm's alone; and what has to be said of them."""
    typed = {key: value for key, value in given.items() if value not in (None, (), False)}
    plain = KEYS.issuperset(typed) and "ntasks_per_node" not in typed  # which multiplies others
    if plain and not any(sign in typed.get(key, "") for key, sign in SLURMS_FORMS):
        return given, []
    from mgpu.cli.slurm import Said, settle

    said = {key: Said(value, f"--{key.replace('_', '-')}") for key, value in typed.items()}
    settled, notices = settle(said, ("ntasks", "ntasks_per_node") if kind == "srun" else ("ntasks_per_node",))
    return {**{key: None for key in given if key in KEYS}, **settled}, notices


def directives(words: list[str], command: Mapping[str, Any], notices: list[str]) -> list[dict[str, Any]]:
    """The options that a script holds itself, those that count more behind the others."""
    if not any(tag in command.get("script", "") for tag in ("#SBATCH", "#MGPU")):
        return []
    from mgpu.cli.directives import read

    found = read(words[0] if words else command["script_name"], command["script"])
    notices += found.notices
    return found.layers


def surprises(words: list[str], command: Mapping[str, Any]) -> Iterator[str]:
    """What a submission does not mean, though it looks so."""
    if command["form"] == "shell" and words and words[0].endswith(SCRIPT_ENDINGS) and not words[0].split()[1:]:
        yield f"{words[0]} is no file here: it is run as a shell command line on the node"


def wire_keys(kind: str) -> set[str]:
    """The files of srun's -o and -e are ours to write, and only it has an -n; nobody stays with what is submitted."""
    keys = WIRE_KEYS | {"gpus_per_task"}
    return keys - {"output", "error"} | {"ntasks"} if kind == "srun" else keys - {"kill_on_disconnect"}


def test_only(session: Session, prepared: Prepared) -> None:
    """Says when and where it would start. Raises MasterError for what would be refused."""
    from mgpu.wording.jobs import expected_on, prospects

    answer = session.call("POST", "/v1/jobs/test", prepared.body)
    if session.json:
        session.print_json(answer)
        return
    for notice in () if prepared.options.get("quiet") else answer["notices"]:
        say(notice)
    lines = prospects(answer)
    if answer["held"]:
        lines = ["it would be held", *_others(answer)]
    elif answer.get("waits_for"):
        lines = [*_others(answer), *lines]
        if answer.get("untold"):
            lines.append(f"when it would start cannot be told: {answer['untold']}")
    elif answer["now"]:
        lines = [f"it would start now on {expected_on(answer['expected_on'])}"]
    elif not answer["expected_start"]:
        because = f"{answer['reason']}: {answer['detail']}" if answer.get("reason") else "others come first"
        lines.insert(0, f"when it would start cannot be told: {clean(because)}")
    session.print_lines(lines)


def _others(answer: Mapping[str, Any]) -> list[str]:
    """What it would wait for of other jobs; an older master does not say."""
    waits_for = answer.get("waits_for")
    if not waits_for:
        return []
    return [f"it would wait for what can never be: {waits_for}" if answer["never"] else f"it would wait: {waits_for}"]


def bring(session: Session, prepared: Prepared) -> None:
    """What goes along has to be there before the job. Raises MasterError."""
    if prepared.shipment is not None and "tree" not in prepared.body:
        from mgpu.cli.ship import send_tree

        prepared.body["tree"] = send_tree(session, prepared.shipment, bool(prepared.options.get("quiet")))


def send(session: Session, prepared: Prepared) -> tuple[int, bool]:
    """Submits and shows the master's notices: the job's number, and whether it is a new one. Raises MasterError."""
    session.patience_s = seconds(prepared.options, "connection_timeout")
    bring(session, prepared)
    try:
        answer = session.call("POST", "/v1/jobs", prepared.body)
    except MasterError as error:
        raise with_place(error, prepared.options) from error
    for notice in () if prepared.options.get("quiet") else answer.get("notices") or ():
        say(notice)
    job_id, created = int(answer["job_id"]), bool(answer.get("created", True))
    if not created and prepared.body.get("key"):
        say(f"job {job_id} was submitted before with --request-id {prepared.body['key']}: it is not submitted again")
    return job_id, created


def with_place(error: MasterError, options: Mapping[str, str | bool]) -> MasterError:
    """Of a value that the master quotes, where in the script it stands."""
    for value in options.values():
        if isinstance(value, FromScript) and f"'{value}'" in error.message:
            return MasterError(error.code, f"{value.where}: {error.message}", error.hint, error.exit_code)
    return error


def command_of(typed: Words, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    words = typed.words
    for option in ("wrap", "each_line"):
        if given.get(option) and words:
            named = f"--{option.replace('_', '-')}"
            raise bad_request(f"{named} gives the command, and so does {words[0]!r}", "leave out one of them")
    if given.get("wrap"):
        return {"form": "shell", "words": [given["wrap"]]}
    if given.get("each_line"):
        return lines(given["each_line"])
    if not words:
        name = "srun" if kind == "srun" else "submit"
        raise bad_request(f"no command: what should {name} run?", f"mgpu {name} --help")
    return argv(words) if kind == "srun" or typed.dashed else batch_command(words)


def argv(words: list[str]) -> dict[str, Any]:
    return {"form": "argv", "words": words}


def batch_command(words: list[str]) -> dict[str, Any]:
    """Without `--`: a file is a script, one other word a shell's command line, several are an argv."""
    if os.path.isfile(words[0]):
        with open(words[0], "rb") as file:
            content = file.read(SCRIPT_LIMIT_B + 1)
        if b"\0" not in content:  # a program is not a script: its path is run on the node
            return script(words, content)
    return {"form": "shell", "words": words} if len(words) == 1 and not os.path.isfile(words[0]) else argv(words)


def lines(name: str) -> dict[str, Any]:
    """Commands, one a line; `-` = stdin."""
    if name == "-":
        content = sys.stdin.buffer.read(SCRIPT_LIMIT_B + 1)
    else:
        with open(name, "rb") as file:
            content = file.read(SCRIPT_LIMIT_B + 1)
    if len(content) > SCRIPT_LIMIT_B:
        raise bad_request(f"--each-line {name}: more than 4 MiB", "split it")
    shown = "stdin" if name == "-" else os.path.basename(name)
    return {"form": "lines", "words": [], "script": content.decode(errors="surrogateescape"), "script_name": shown}


def script(words: list[str], content: bytes) -> dict[str, Any]:
    name = os.path.basename(words[0])
    if len(content) > SCRIPT_LIMIT_B:
        raise bad_request(f"{words[0]} is over 4 MiB", "a script should be smaller: let it call a program")
    if name.endswith(".py") and not content.startswith(b"#!"):
        raise bad_request(
            f"{words[0]} has no #! line, so a shell would run it", f"add one, or: mgpu submit -- python {words[0]}"
        )
    text = content.decode(errors="surrogateescape")
    return {"form": "script", "words": words[1:], "script": text, "script_name": name}


def exported(export: str, environ: Mapping[str, str], own_env: Mapping[str, str]) -> dict[str, str]:
    """The variables that go along. `export`: NAME, NAME=VALUE, ALL, NONE with commas between; "" = only `own_env`."""
    if export in NO_EXPORT:
        return {}
    env = dict(own_env)
    for item in filter(None, export.split(",")):
        name, equals, value = item.partition("=")
        if item == "NONE":
            raise bad_request("--export NONE stands alone", "leave out NONE, or the rest")
        if item == "ALL":
            env.update(all_variables(environ))
        elif not is_name(name):
            raise bad_request(f"--export {item}: {name!r} is no variable's name", "write NAME, NAME=VALUE, ALL or NONE")
        elif equals:
            env[name] = value
        elif name in environ:
            env[name] = environ[name]
        else:
            say(f"--export {name}: not set here, so not sent")
    return env


def all_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if is_name(name) and name not in NOT_IN_ALL and not name.startswith(NOT_IN_ALL_PREFIXES)
    }


def is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def virtual_env(environ: Mapping[str, str]) -> str:
    """The active virtual environment: with both kinds active, the one whose bin comes first in PATH."""
    roots = [root for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := environ.get(name, ""))]
    path = environ.get("PATH", "").split(":")
    places = [path.index(f"{root}/bin") if f"{root}/bin" in path else len(path) for root in roots]
    return roots[places.index(min(places))] if roots else ""


def working_directory() -> str:
    """Where we stand, under the name that the shell uses for it: automounted homes have a truer one than getcwd's."""
    try:
        here = os.getcwd()
    except OSError as error:
        raise bad_request("the directory that you stand in is gone", "cd to another") from error
    shown = os.environ.get("PWD", "")
    return shown if os.path.isabs(shown) and os.path.isdir(shown) and os.path.samefile(shown, here) else here
