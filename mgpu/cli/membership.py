"""mgpu node add and remove: nodes come and go without an editor, in a file of their own beside the others."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from mgpu.cli.config import ask_to_reload
from mgpu.cli.session import Session, bad_request, check_name
from mgpu.cli.setup.draft import text
from mgpu.cli.setup.files import beside
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError, NoMaster
from mgpu.lean_typing import Any
from mgpu.wording.letters import clean

FILE = "added.yaml"
LOOKED_UP = 16  # names
LOOK_UP_S = 5.0
HEAD = "# Nodes that `mgpu node add` wrote, a line each; `mgpu node remove` takes a line away.\nnodes:\n"
ADD_EXAMPLES = """
Examples:
  mgpu node add gpu05
  mgpu node add 'gpu[05-08]' --hostname 'gpu[05-08].example.org' --gpu-count 8
"""


class Added:
    """That file: what it holds, and a change that is undone if the configuration would not load with it."""

    def __init__(self, config: str) -> None:
        """Raises MasterError where there is no inventory that files can be added to."""
        from mgpu.config import load
        from mgpu.core.errors import ConfigError

        if not config:
            raise bad_request("there is no configuration: this machine is the only node", "mgpu init writes one")
        self.config = Path(config)
        try:
            loaded = load(self.config)
        except ConfigError as error:
            raise MasterError("bad_config", "\n".join(error.faults), "mend it first", 2) from error
        self.known = [str(node.name) for node in loaded.nodes]
        folders = [path for path in loaded.files if path.is_dir()]
        if not folders:
            raise bad_request(f"the nodes stand in {config} itself", "edit it there, then: mgpu config reload")
        self.path = folders[0] / FILE
        self.before = self.path.read_text("utf-8") if self.path.exists() else None
        self.warnings: tuple[str, ...] = ()
        self.nodes: tuple[Any, ...] = ()  # after the change

    @property
    def lines(self) -> list[str]:
        return (self.before or HEAD).splitlines(keepends=True)

    def change(self, after: str | None) -> None:
        """Raises MasterError with all faults, and then nothing has changed."""
        from mgpu.config import load
        from mgpu.core.errors import ConfigError

        self._write(after)
        try:
            loaded = load(self.config)
        except ConfigError as error:
            self._write(self.before)
            faults = [self._in_words_of_the_line(fault) for fault in error.faults]
            raise MasterError("bad_config", "\n".join(faults), "nothing was changed", 2) from error
        self.warnings, self.nodes = loaded.warnings, loaded.nodes

    def _in_words_of_the_line(self, fault: str) -> str:
        """A fault of what was just added is one of an option: nobody has seen the file yet."""
        found = re.fullmatch(rf".*{re.escape(FILE)}:{len(self.lines) + 1}:\d+: nodes\.\d+\.([\w.]+):? (.*)", fault)
        if not found:
            return fault
        key = found[1].removeprefix("ssh.").replace("_", "-")
        return f"{'NODE' if key == 'node-id' else f'--{key}'} {found[2]}"

    def undo(self) -> None:
        self._write(self.before)

    def _write(self, content: str | None) -> None:
        if content is None:
            self.path.unlink(missing_ok=True)
            return
        beside(self.path, content, "mend its folder's permissions").replace(self.path)


@command(
    Argument("name", "NODE"),
    Option("--hostname", "NAME", "What ssh is asked for, if not NODE."),
    Option("--ip", "ADDRESS", "Where to connect to, if not what ssh would take."),
    Option("--user", "LOGIN", "Account there; default: as ssh has it."),
    Option("--port", "N", "Port of its sshd; default: as ssh has it.", least=1),
    Option("--identity-file", "FILE", "Private key; default: as ssh has it."),
    Option("--gpu-count", "N", "How many GPUs should be there.", least=0),
    Option("--gpu-type", "TYPE", "For --gpu-type of jobs."),
    Option("--partition", "NAME", "Its partition."),
    examples=ADD_EXAMPLES,
)
def add(session: Session, /, name: str, **given: Any) -> int:
    """Add a node, or a range of them, to the inventory and to the master that runs. Jobs run on."""
    for key, value in given.items():
        if value == "":
            raise bad_request(f"--{key.replace('_', '-')} is empty", "leave it out")
    session.require_here("node add")
    added = Added(session.config_path())
    require_new(check_name(name), added)
    added.change("".join([*added.lines, entry(name, given)]))
    for trouble in unknown_names([node for node in added.nodes if str(node.name) not in added.known]):
        say(trouble)
    words = f"{name} stands in {added.path}; next: mgpu node trust {text(name)}; mgpu nodes"
    return take_up(session, added, {"added": name}, words)


def require_new(name: str, added: Added) -> None:
    """Raises MasterError if a node of it is there. What is wrong with the name itself the configuration says."""
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand

    try:
        names = expand(name)
    except RequestError:
        return
    there = next((one for one in names if one in added.known), None)
    if there is not None:
        raise bad_request(
            f"there is already a node {there}",
            "give another name, or edit the one that is there: mgpu show node " + there,
        )


@command(Argument("name", "NODE"), examples="\nExample:\n  mgpu node remove gpu05\n")
def remove(session: Session, /, name: str) -> int:
    """Take away a node that `node add` wrote. One that still has jobs stays."""
    session.require_here("node remove")
    added = Added(session.config_path())
    mine = re.compile(rf"  - \{{node_id: {re.escape(text(name))}[,}}]")
    left = [line for line in added.lines if not mine.match(line)]
    if len(left) == len(added.lines):
        raise not_there(check_name(name), added)
    added.change("".join(left) if any(line.startswith("  - ") for line in left) else None)
    return take_up(session, added, {"removed": name}, f"{name} is gone from {added.path}")


def not_there(name: str, added: Added) -> MasterError:
    """Why that node cannot be removed here."""
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand, nearest

    for line in added.lines:
        whole = node_id(line)
        try:
            names = expand(whole)
        except RequestError:
            continue
        if name in names:
            return bad_request(
                f"{name} was added with others as {whole}",
                f"remove that, or edit {added.path}: then mgpu config reload",
            )
    if name in added.known:
        return bad_request(
            f"{name} does not stand in {added.path}", "remove it where it stands, then: mgpu config reload"
        )
    near = nearest(name, added.known)
    meant = f": did you mean {near!r}?" if near else ""
    return MasterError("not_found", f"there is no node {name!r}{meant}", "mgpu nodes lists them")


def node_id(line: str) -> str:
    """Of a line that `entry` wrote; "" = it is none."""
    found = re.match(r'  - \{node_id: ("(?:[^"\\]|\\.)*"|[^,}\s]+)', line)
    word = found[1] if found else ""
    return str(json.loads(word)) if word.startswith('"') else word


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


def entry(name: str, given: dict[str, Any]) -> str:
    """A line of the file: JSON's strings are YAML's."""
    keys: dict[str, Any] = {key: given[key] for key in ("hostname", "ip", "gpu_count", "gpu_type", "partition")}
    ssh = {key: given[key] for key in ("user", "port", "identity_file") if given[key] is not None}
    words = [f"node_id: {text(name)}"]
    words += [f"{key}: {json.dumps(value)}" for key, value in keys.items() if value is not None]
    if ssh:
        words.append("ssh: {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in ssh.items()) + "}")
    return "  - {" + ", ".join(words) + "}\n"


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
