"""mgpu node add and remove: nodes come and go without an editor, in a file of their own beside the others."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from mgpu.cli.config import ask_to_reload
from mgpu.cli.session import Session, bad_request, check_name
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError, NoMaster
from mgpu.client.option import FROM_0, PORTS
from mgpu.config.added import Added
from mgpu.config.added import changing as change_added
from mgpu.config.writing import yaml_text
from mgpu.lean.typing import Any, Iterator, Sequence
from mgpu.wording.letters import clean

LOOKED_UP = 16  # names
LOOK_UP_S = 5.0
ADD_EXAMPLES = """
Examples:
  mgpu node add gpu05
  mgpu node add 'gpu[05-08]' --hostname 'gpu[05-08].example.org' --gpu-count 8
"""


@command(
    Argument("name", "NODE"),
    Option("--hostname", "NAME", "What ssh is asked for, if not NODE."),
    Option("--ip", "ADDRESS", "Where to connect to, if not what ssh would take."),
    Option("--user", "LOGIN", "Account there; default: as ssh has it."),
    Option("--port", "N", "Port of its sshd; default: as ssh has it.", whole=PORTS),
    Option("--identity-file", "FILE", "Private key; default: as ssh has it."),
    Option("--gpu-count", "N", "How many GPUs should be there.", whole=FROM_0),
    Option("--gpu-type", "TYPE", "For --gpu-type of jobs."),
    Option("--partition", "NAME", "Its partition."),
    examples=ADD_EXAMPLES,
)
def add(session: Session, /, name: str, **given: Any) -> int:
    """Add a node, or a range of them, to the inventory and to the master that runs. Jobs run on."""
    for key, value in given.items():
        if value == "":
            raise bad_request(f"--{key.replace('_', '-')} is empty", "leave it out")
    check_name(name)
    if session.elsewhere():
        return add_elsewhere(session, name, given)
    with changing(session) as added:
        added.add(name, given)
        for trouble in unknown_names(added.fresh()):
            say(trouble)
        return take_up(session, added, {"added": name}, f"{name} stands in {added.path}; {next_steps(name)}")


def add_elsewhere(session: Session, name: str, given: dict[str, Any]) -> int:
    """By the master itself, where its inventory lies."""
    body = {"node_id": name, **{key: value for key, value in given.items() if value is not None}}
    answer = session.call("POST", "/v1/nodes", body)
    if session.json:
        session.print_json({"file": answer["file"], "added": name, "reloaded": True})
        return 0
    for warning in answer["warnings"]:
        say(warning)
    print(clean(f"{name} stands in {answer['file']} on {session.elsewhere()}; {next_steps(name)}"))
    return 0


def next_steps(name: str) -> str:
    return f"next: mgpu node trust {yaml_text(name)}; mgpu nodes"


@command(Argument("name", "NODE"), examples="\nExample:\n  mgpu node remove gpu05\n")
def remove(session: Session, /, name: str) -> int:
    """Take away a node that `node add` wrote. One that still has jobs stays."""
    session.require_here("node remove")
    check_name(name)
    with changing(session) as added:
        added.remove(name)
        return take_up(session, added, {"removed": name}, f"{name} is gone from {added.path}")


@contextmanager
def changing(session: Session) -> Iterator[Added]:
    """The file of added nodes. Raises MasterError."""
    from mgpu.config.load import load
    from mgpu.core.errors import MgpuError

    config = session.config_path()
    if not config:
        raise bad_request("there is no configuration: this machine is the only node", "mgpu init writes one")
    try:
        with change_added(Path(config), load) as file:
            yield file
    except MgpuError as error:
        raise MasterError(error.code, error.message, error.hint, error.exit_code) from error


def unknown_names(nodes: Sequence[Any]) -> list[str]:
    """Of the first of these, those whose name nobody knows, in words: it may be known later, so it is no fault."""
    import socket
    from concurrent.futures import ThreadPoolExecutor
    from concurrent.futures import TimeoutError as NoAnswer

    from mgpu.config import resolve
    from mgpu.core.errors import ConfigError

    troubles = []
    pool = ThreadPoolExecutor(1)  # a name server that is gone is not waited for
    for node in nodes[:LOOKED_UP]:
        try:
            target = resolve(node.ssh)
            if target.proxy_command or target.hops:
                continue  # found from there
            pool.submit(socket.getaddrinfo, target.host, target.port).result(LOOK_UP_S)
        except ConfigError as error:
            troubles.append(f"{node.name}: {error.faults[0]}")
        except NoAnswer:
            return [*troubles, f"{node.name}: no name server answers for {node.ssh.host}"]
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else "") or error
            troubles.append(f"{node.name}: {node.ssh.host} has no address: {why}; --ip or --hostname gives one")
    return troubles


def take_up(session: Session, added: Added, change: dict[str, str], words: str) -> int:
    """The master's reload, and what was done: in words, or as JSON."""
    done = reload(session, added)
    if session.json:
        session.print_json({"file": str(added.path), **change, "reloaded": done})
    else:
        print(clean(words))
    return 0


def reload(session: Session, added: Added) -> bool:
    """Whether a master runs that has taken it up. One that refuses leaves everything as it was."""
    try:
        ask_to_reload(session, all_nodes=True)  # what is removed here was named
    except NoMaster:
        return False
    except MasterError:
        added.undo()
        raise
    finally:
        for warning in added.warnings:
            say(warning)
    return True
