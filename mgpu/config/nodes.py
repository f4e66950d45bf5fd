"""Entries of an inventory -> nodes: defaults filled in, ranges expanded, each node with the entry where it stands.

An entry with faults is read as far as it goes, so that its nodes take part in the checks of all.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mgpu.config.document import Document, Raw
from mgpu.config.faults import KeyPath
from mgpu.config.model import NodeConfig, SshSettings
from mgpu.config.node_schema import External, NodeDefaults, NodeEntry
from mgpu.config.section import Section
from mgpu.config.validate import validate
from mgpu.config.values import NAME
from mgpu.core.errors import RequestError
from mgpu.core.hostlist import expand, in_step
from mgpu.core.model import NodeName
from mgpu.core.plan import ExternalPolicy, NodeFacts
from mgpu.core.shape import MAX_NODES

S = TypeVar("S", bound=Section)

_COLUMNS: Final = ("hostname", "ip", "network.address")  # ranges that run in step with node_id
_FOR_A_SHELL: Final = re.compile(r"[\s'`\"$\\;&<>|(){}]")  # an ssh_config may give a host to one; ssh refuses these too


@dataclass(frozen=True, slots=True)
class Entry:
    """One of `nodes:`, or a `defaults:`. `own` is what it says itself; `filled`, with what it leaves open taken from
    the defaults `above`."""

    document: Document
    path: KeyPath
    own: NodeDefaults
    filled: NodeDefaults
    above: Entry | None

    def where(self, key: str) -> KeyPath:
        return (*self.path, *key.split("."))

    def is_read(self, key: str) -> bool:
        """Whether there is no doubt about it, nor about what holds it."""
        where = self.where(key)
        return not any(where[:end] in self.document.unread for end in range(len(self.path), len(where) + 1))

    def origin(self, key: str) -> Entry | None:
        """The entry whose word on `key` counts here: this one or the nearest above it, even if it was not readable."""
        entry: Entry | None = self
        while entry is not None and entry.is_read(key) and not _says(entry.own, key):
            entry = entry.above
        return entry

    def word(self, key: str) -> Any:
        """What counts here for `key`; None where nobody says it, or what is said there is in doubt."""
        origin = self.origin(key)
        return _value(origin.own, key) if origin is not None and origin.is_read(key) else None


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, and the entry that it comes from."""

    node: NodeConfig
    entry: Entry


def read_entries(document: Document, defaults: Entry) -> list[Entry]:
    """The `nodes:` of one file, `defaults` filled in where they say nothing."""
    listed = document.data.get("nodes") or []
    if not isinstance(listed, list):
        document.blame(("nodes",), "must be a list: one '- node_id: ...' for each node")
        return []
    entries = []
    for index, raw in enumerate(listed):
        own = validate(document, NodeEntry, raw, ("nodes", index))
        if own is not None:
            entries.append(Entry(document, ("nodes", index), own, filled(own, defaults.filled), defaults))
    return entries


def read_defaults(document: Document, above: Entry | None, under: NodeDefaults) -> Entry:
    """The `defaults:` of one file, over those of the main one (`above`) and over `under`, what it says for all."""
    raw: Raw = document.data.get("defaults") or {}
    own = validate(document, NodeDefaults, raw, ("defaults",)) or NodeDefaults()
    return Entry(document, ("defaults",), own, filled(own, above.filled if above else under), above)


def filled(over: S, under: Section) -> S:
    """`over` with what it leaves open taken from `under`: sections and mappings key by key, lists as a whole."""
    update: dict[str, Any] = {}
    for name in under.model_fields_set:
        below = getattr(under, name)
        if name not in over.model_fields_set:
            update[name] = below
        elif isinstance(below, Section):
            update[name] = filled(getattr(over, name), below)
        elif isinstance(below, dict):
            update[name] = {**below, **getattr(over, name)}
    return over.model_copy(update=update)


def external_policy(section: External) -> ExternalPolicy:
    return ExternalPolicy(section.policy, tuple(section.ignore), section.memory_threshold_mib)


def expanded(entry: Entry) -> list[Placed]:
    """The nodes that an entry of `nodes:` stands for. Faults of its ranges are told, impossible names left out."""
    names = _names(entry)
    columns = {key: _column(entry, key, len(names)) for key in _COLUMNS}
    return [
        Placed(_node(entry.filled, name, {key: column[index] for key, column in columns.items()}), entry)
        for index, name in enumerate(names)
        if NAME.fullmatch(name)
    ]


def _says(section: Section, key: str) -> bool:
    name, _, rest = key.partition(".")
    return name in section.model_fields_set and (not rest or _says(getattr(section, name), rest))


def _value(section: Section, key: str) -> Any:
    name, _, rest = key.partition(".")
    return _value(getattr(section, name), rest) if rest else getattr(section, name)


def _names(entry: Entry) -> list[str]:
    """[] where they are not known; what they are beside is then not compared with them."""
    document, where = entry.document, entry.where("node_id")
    if not entry.is_read("node_id"):
        return []
    if not _says(entry.own, "node_id"):
        document.blame(where, "is missing")
        return []
    try:
        names = expand(_value(entry.own, "node_id"))
    except RequestError as error:
        document.blame(where, error.message)
        return []
    if not names:
        document.blame(where, "is empty: a node needs a name")
    if len(names) > MAX_NODES:
        document.blame(where, f"stands for {len(names)} nodes, a cluster has {MAX_NODES} at most")
        return []
    bad = [name for name in names if not NAME.fullmatch(name)]
    if bad:
        document.blame(where, f"{_first(bad)} is no name: letters, digits and . _ - only, at most 63")
    return names


def _column(entry: Entry, key: str, count: int) -> list[str]:
    """The values of `key` for the `count` nodes of the entry (0: how many is not known), "" = not said.

    A fault of a default is told where that stands, for the first of the nodes that it does not suit.
    """
    blanks = [""] * count
    origin, text = entry.origin(key), entry.word(key)
    if origin is None or not text:
        return blanks
    fault = ""
    try:
        values = in_step(text, count) if count else expand(text)
    except RequestError as error:
        fault, values = error.message, blanks
    fault = fault or _address_fault(key, values)
    if fault:
        origin.document.blame(origin.where(key), fault)
        origin.document.unread.add(origin.where(key))
    return values


def _address_fault(key: str, values: list[str]) -> str:
    dashed = [value for value in values if value.startswith("-")]
    if dashed:
        return f"{_first(dashed)} starts with a dash"
    unsafe = [value for value in values if _FOR_A_SHELL.search(value)]
    if unsafe:
        return f"{_first(unsafe)} is no host's name: ssh takes none that means something to a shell"
    wrong = [value for value in values if value and not _is_address(value)] if key != "hostname" else []
    if wrong and key == "network.address":
        return f"{_first(wrong)} is no IP address: a name may mean another one to each node"
    return f"{_first(wrong)} is no IP address: a name belongs into hostname" if wrong else ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _first(values: list[str]) -> str:
    return f"{values[0]!r}" + (f" (and {len(values) - 1} more)" if len(values) > 1 else "")


def _node(entry: NodeDefaults, name: str, beside: Mapping[str, str]) -> NodeConfig:
    hostname = beside["hostname"] or name
    here = entry.connection == "local" and not beside["hostname"]  # its name need not be one that anybody resolves
    ssh = entry.ssh
    return NodeConfig(
        name=NodeName(name),
        connection=entry.connection,
        ssh=SshSettings(
            host=beside["ip"] or ("localhost" if here else hostname),
            port=ssh.port,
            user=ssh.user,
            identity_file=ssh.identity_file,
            known_hosts=ssh.known_hosts,
            proxy_jump=ssh.proxy_jump,
            name=hostname,
        ),
        facts=NodeFacts(
            name=NodeName(name),
            hostname=hostname,
            gpu_count=entry.gpu_count,
            devices=None if entry.devices is None else tuple(entry.devices),
            gpu_type=entry.gpu_type,
            partitions=tuple(entry.partition),
            switch=entry.switch,
            gpu_memory_mib=None if entry.gpu_memory is None else entry.gpu_memory >> 20,
            maintenance=tuple(entry.maintenance),
            cpus=entry.cpus,
            host_memory_mib=None if entry.host_memory is None else entry.host_memory >> 20,
        ),
        external=external_policy(entry.external),
        network_address=beside["network.address"],
        network_interface=entry.network.interface,
        nvidia_smi=entry.nvidia_smi,
        workdir=entry.workdir,
        setup=entry.setup,
        login_shell=entry.login_shell,
        env=dict(entry.env),
        run_dir=entry.run_dir,
        check=entry.health.check,
        check_timeout_s=entry.health.check_timeout,
    )
