"""A submission: the command, the options as somebody gave them, what goes along from here.

What is said of it comes as notices: only a front end knows where to say them.
"""

from __future__ import annotations

import os

from mgpu.client.command import surprises
from mgpu.client.http import MasterError, bad_request
from mgpu.client.options import KEYS, SHIP_AROUND, WIRE_KEYS, FromScript, resolve
from mgpu.client.own_config import load_own_config
from mgpu.client.surroundings import NO_EXPORT, exported, virtual_env, working_directory
from mgpu.client.zone import own_zone
from mgpu.lean.typing import TYPE_CHECKING, Any, Mapping, NamedTuple

if TYPE_CHECKING:
    from mgpu.client.ship import Shipment

SLURMS_FORMS = (("gpus", ":"), ("gpus_per_node", ":"), ("nodes", "-"))  # --gpus a100:2, --nodes 2-2


class Prepared(NamedTuple):
    """A submission ready to send, and the options in force (those of the client among them)."""

    body: dict[str, Any]
    options: dict[str, str | bool]
    notices: list[str]
    shipment: Any = None  # what is still to be sent along, as in client.ship


def prepare(
    given: Mapping[str, Any],
    command: Mapping[str, Any],
    kind: str,
    named: str = "",
    env: Mapping[str, str] | None = None,
) -> Prepared:
    """`command` as the wire has it; `named`: its first word, as somebody wrote it. `env`: variables that go along
    whatever their values hold. Raises MasterError (bad_request)."""
    given, notices = in_our_terms(given, kind)
    own = load_own_config(os.environ)
    paths = ("chdir", "output", "error") if kind == "srun" else ("chdir",)
    beside_it = {
        key: os.path.join(own.folder, os.path.expanduser(own.options[key])) for key in paths if key in own.options
    }
    of_their_file = {key: value for key, value in {**own.options, **beside_it}.items() if value != ""}
    options = resolve(given, os.environ, of_their_file, *directives(named, command, notices))
    export = str(options.get("export", ""))
    told = wire_keys(kind) - ({"chdir"} if "ship" in options else set())  # that is the place in the tree then
    body: dict[str, Any] = {
        "request_id": os.urandom(16).hex(),
        "kind": kind,
        "command": command,
        "options": {key: value for key, value in options.items() if key in told},
        "env": {**exported(export, os.environ, own.env, notices), **(env or {})},
        "cwd": working_directory(),
        "virtual_env": "" if export in NO_EXPORT else virtual_env(os.environ),
    }
    if options.get("begin"):
        body["zone"] = own_zone()
    if options.get("request_id"):
        body["key"] = options["request_id"]
    shipment = shipment_of(options, os.getcwd()) if "ship" in options else None
    notices += surprises(named, command)
    return Prepared(body, options, notices, shipment)


def shipment_of(options: Mapping[str, str | bool], cwd: str) -> Shipment:
    """What would go along. Raises MasterError."""
    from mgpu.client import ship

    given = str(options["ship"])
    if not given:
        raise bad_request("--ship= is empty: is a variable unset?", "name a folder, or write --ship alone")
    return ship.look("" if given == SHIP_AROUND else given, cwd, str(options.get("chdir") or ""))


def in_our_terms(given: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], list[str]]:
    """Without options, and forms of values, that are Slurm's alone; and what has to be said of them."""
    typed = {key: value for key, value in given.items() if value not in (None, (), False)}
    plain = KEYS.issuperset(typed) and "ntasks_per_node" not in typed  # which multiplies others
    if plain and not any(sign in typed.get(key, "") for key, sign in SLURMS_FORMS):
        return given, []
    from mgpu.client.slurm import Said, settle

    said = {key: Said(value, f"--{key.replace('_', '-')}") for key, value in typed.items()}
    settled, notices = settle(said, ("ntasks", "ntasks_per_node") if kind == "srun" else ("ntasks_per_node",))
    return {**{key: None for key in given if key in KEYS}, **settled}, notices


def directives(named: str, command: Mapping[str, Any], notices: list[str]) -> list[dict[str, Any]]:
    """The options that a script holds itself, those that count more behind the others."""
    if not any(tag in command.get("script", "") for tag in ("#SBATCH", "#MGPU")):
        return []
    from mgpu.client.directives import read

    found = read(named or command["script_name"], command["script"])
    notices += found.notices
    return found.layers


def wire_keys(kind: str) -> set[str]:
    """The files of srun's -o and -e are ours to write, and only it has an -n; nobody stays with what is submitted."""
    keys = WIRE_KEYS | {"gpus_per_task"}
    return keys - {"output", "error"} | {"ntasks"} if kind == "srun" else keys - {"kill_on_disconnect"}


def with_place(error: MasterError, options: Mapping[str, str | bool]) -> MasterError:
    """Of a value that the master quotes, where in the script it stands."""
    for value in options.values():
        if isinstance(value, FromScript) and f"'{value}'" in error.message:
            return MasterError(error.code, f"{value.where}: {error.message}", error.hint, error.exit_code)
    return error
