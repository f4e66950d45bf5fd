"""Nodes that come and go without an editor: a line each in a file of their own, beside the others of the inventory.

`mgpu node add` and the master's route for nodes that register write it by this one way.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgpu.config.model import Config, NodeConfig
from mgpu.config.writing import beside, yaml_text
from mgpu.core.errors import ConfigError, MgpuError, NotFound, RequestError
from mgpu.core.hostlist import expand, nearest

FILE = "added.yaml"
HEAD = "# Nodes that `mgpu node add` wrote, a line each; `mgpu node remove` takes a line away.\nnodes:\n"
FIRST = """\
# The cluster, as mgpu sees it: begun when the first node was registered, yours to edit.
# Every key, unit and default: docs/configuration.md. After a change: mgpu config reload (jobs run on).

inventory: inventory/                   # every .yaml file there: the nodes
"""
OF_THE_NODE = ("hostname", "ip", "connection", "gpu_count", "devices", "gpu_type", "partition")
OF_SSH = ("user", "port", "identity_file")
ENTRY = "  - "
Load = Callable[[Path], Config]
_NODE_ID = re.compile(r'  - \{node_id: ("(?:[^"\\]|\\.)*"|[^,}\s]+)')


@contextmanager
def changing(config: Path, load: Load) -> Iterator[Added]:
    """One after the other: who comes later sees what the one before has written. Raises ConfigError, RequestError,
    OSError."""
    descriptor = os.open(_folder(config, _loaded(config, load)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Added(config, load)
    finally:
        os.close(descriptor)


def begin(config: Path) -> None:
    """A first configuration, with an inventory that nodes can be added to. Raises OSError, RequestError."""
    path = config.parent / "inventory" / FILE
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    for place, text in ((path, HEAD), (config, FIRST)):  # where there is a configuration, what it names is there too
        if not place.exists():
            beside(place, text, "mend its folder's permissions").replace(place)


def unbegin(config: Path) -> None:
    """What `begin` wrote is gone again, where nothing has been added to it."""
    path = config.parent / "inventory" / FILE
    for place, text in ((config, FIRST), (path, HEAD)):
        if place.exists() and place.read_text("utf-8") == text:
            place.unlink()


class Added:
    """That file: what it holds, and a change that is undone if the configuration would not load with it."""

    def __init__(self, config: Path, load: Load) -> None:
        """Raises ConfigError, and RequestError where there is no inventory that files can be added to."""
        self.config = config
        self._load = load
        loaded = _loaded(config, load)
        self.known = [] if loaded.implied else [str(node.name) for node in loaded.nodes]
        self.path = _folder(config, loaded) / FILE
        self.before = self.path.read_text("utf-8") if self.path.exists() else None
        self.warnings: tuple[str, ...] = ()
        self.nodes: tuple[NodeConfig, ...] = ()  # after the change
        self.changed = True  # what was to be added did not stand there before

    @property
    def lines(self) -> list[str]:
        return (self.before or HEAD).splitlines(keepends=True)

    def add(self, name: str, given: Mapping[str, Any], instead: bool = False) -> None:
        """`instead`: of a line of ours about that very name. Raises RequestError, ConfigError with all faults, and then
        nothing has changed."""
        lines = [line for line in self.lines if not (instead and node_id(line) == name)]
        if len(lines) == len(self.lines):
            self._require_new(name)
        made = entry(name, given)
        self.changed = made not in self.lines
        if self.changed:
            self._change("".join([*lines, made]), len(lines) + 1)

    def remove(self, name: str) -> None:
        """Raises RequestError or NotFound, saying why that cannot be."""
        left = [line for line in self.lines if node_id(line) != name]
        if len(left) == len(self.lines):
            raise self._not_there(name)
        alone = not any(file for file in self.path.parent.glob("[!.]*.y*ml") if file != self.path)
        empty = not any(line.startswith(ENTRY) for line in left)
        self._change(None if empty and not alone else "".join(left), 0)

    def undo(self) -> None:
        self._write(self.before)

    def fresh(self) -> list[NodeConfig]:
        """What has come with the change."""
        return [node for node in self.nodes if str(node.name) not in self.known]

    def _change(self, after: str | None, line: int) -> None:
        self._write(after)
        try:
            loaded = self._load(self.config)
        except ConfigError as error:
            self.undo()
            faults = [self._in_words_of_the_line(fault, line) for fault in error.faults]
            raise ConfigError(faults, "nothing was changed") from error
        self.warnings, self.nodes = loaded.warnings, loaded.nodes

    def _require_new(self, name: str) -> None:
        """Raises RequestError if a node of it is there. What is wrong with the name itself the configuration says."""
        try:
            names = expand(name)
        except RequestError:
            return
        there = next((one for one in names if one in self.known), None)
        if there is not None:
            hint = f"give another name, or edit the one that is there: mgpu show node {there}"
            raise RequestError(f"there is already a node {there}", hint)

    def _not_there(self, name: str) -> MgpuError:
        """Why that node cannot be removed here."""
        for line in self.lines:
            whole = node_id(line)
            try:
                names = expand(whole)
            except RequestError:
                continue
            if name in names:
                return RequestError(
                    f"{name} was added with others as {whole}",
                    f"remove that, or edit {self.path}: then mgpu config reload",
                )
        if name in self.known:
            hint = "remove it where it stands, then: mgpu config reload"
            return RequestError(f"{name} does not stand in {self.path}", hint)
        near = nearest(name, self.known)
        meant = f": did you mean {near!r}?" if near else ""
        return NotFound(f"there is no node {name!r}{meant}", "mgpu nodes lists them")

    def _in_words_of_the_line(self, fault: str, line: int) -> str:
        """A fault of what was just added is one of an option: nobody has seen the file yet."""
        found = re.fullmatch(rf".*{re.escape(FILE)}:{line}:\d+: nodes\.\d+\.([\w.]+):? (.*)", fault)
        if not found:
            return fault
        key = found[1].removeprefix("ssh.").replace("_", "-")
        return f"{'NODE' if key == 'node-id' else f'--{key}'} {found[2]}"

    def _write(self, content: str | None) -> None:
        if content is None:
            self.path.unlink(missing_ok=True)
            return
        beside(self.path, content, "mend its folder's permissions").replace(self.path)


def _loaded(config: Path, load: Load) -> Config:
    try:
        return load(config)
    except ConfigError as error:
        raise ConfigError(error.faults, "mend it first") from error


def _folder(config: Path, loaded: Config) -> Path:
    """Of the inventory. Raises RequestError where there is none."""
    folders = [path for path in loaded.files if path.is_dir()]
    if not folders:
        raise RequestError(f"the nodes stand in {config} itself", "edit it there, then: mgpu config reload")
    return folders[0]


def node_id(line: str) -> str:
    """Of a line that `entry` wrote; "" = it is none."""
    found = _NODE_ID.match(line)
    word = found[1] if found else ""
    return str(json.loads(word)) if word.startswith('"') else word


def entry(name: str, given: Mapping[str, Any]) -> str:
    """A line of the file: JSON's strings and lists are YAML's."""
    words = [f"node_id: {yaml_text(name)}"]
    words += _pairs(OF_THE_NODE, given)
    if ssh := _pairs(OF_SSH, given):
        words.append("ssh: {" + ", ".join(ssh) + "}")
    return ENTRY + "{" + ", ".join(words) + "}\n"


def _pairs(keys: tuple[str, ...], given: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {json.dumps(given[key], ensure_ascii=False)}" for key in keys if given.get(key) is not None]
