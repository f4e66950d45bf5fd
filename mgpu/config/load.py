"""Files -> Config, or every fault in them at once."""

from __future__ import annotations

import socket
from pathlib import Path

from mgpu.config.document import Document, read
from mgpu.config.faults import Fault, did_you_mean
from mgpu.config.model import Config, NodeConfig, PartitionConfig, SshSettings
from mgpu.config.nodes import Placed, external_policy, filled, read_defaults, read_nodes
from mgpu.config.older import modernise
from mgpu.config.schema import NAME, InventoryFile, NodeDefaults, Settings
from mgpu.config.trust import trusted
from mgpu.config.validate import validate
from mgpu.core.errors import ConfigError
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts


def load(path: Path | None) -> Config:
    """The configuration in the file at `path` and in its inventory. None = no file: this machine is the only node.

    Raises ConfigError with all faults, in the order of the files and lines.
    """
    if path is None:
        return Config(path=None, nodes=(this_machine(),))
    refusal = _refusal(path) or (f"{path}: is a folder, not a file" if path.is_dir() else "")
    if refusal:
        raise ConfigError([refusal])
    main = read(path)
    warnings = modernise(main)
    settings = validate(main, Settings, main.data)
    documents = [main, *_inventory(main)]
    for document in documents[1:]:
        warnings += modernise(document)
        validate(document, InventoryFile, document.data)
    placed = _placed(documents, settings)
    _check_twice(placed)
    _check_partitions(main, placed)
    faults = [fault for document in documents for fault in _in_order(document)]
    if settings is None or faults:
        raise ConfigError(faults)
    return _config(path, settings, placed, warnings + _counted_twice(placed))


def this_machine() -> NodeConfig:
    """The node where there is no inventory."""
    hostname = socket.gethostname()
    short = hostname.split(".")[0]
    name = NodeName(short if NAME.fullmatch(short) else "localhost")
    return NodeConfig(name, "local", SshSettings("localhost"), NodeFacts(name, hostname=hostname))


def _refusal(path: Path) -> str:
    """ "" or the one line that says why this file or folder will not be read."""
    try:
        why = trusted(path)
        if not why and path.is_file():
            path.open("rb").close()
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return f"{path}: not trusted: {why}" if why else ""


def _inventory(main: Document) -> list[Document]:
    """The files of `inventory:`, in the order of their names."""
    said = main.data.get("inventory")
    if not isinstance(said, str) or not said:
        return []
    root = Path(main.file).parent / Path(said).expanduser()
    refusal = _refusal(root)
    if refusal:
        main.blame(("inventory",), refusal)
        return []
    if not root.is_dir():
        return [read(root)]
    files = [file for file in sorted(root.iterdir()) if file.suffix in (".yaml", ".yml") and file.name[0] != "."]
    if not files:
        main.blame(("inventory",), f"{root} holds no .yaml file")
    documents = []
    for file in files:
        refusal = _refusal(file)
        if refusal:
            main.blame(("inventory",), refusal)
        else:
            documents.append(read(file))
    return documents


def _placed(documents: list[Document], settings: Settings | None) -> list[Placed]:
    """The nodes of all files; the main file's `defaults:` serve in the others too."""
    shared = NodeDefaults(external=settings.external) if settings else NodeDefaults()
    placed: list[Placed] = []
    for document in documents:
        defaults = filled(read_defaults(document), shared)
        if document is documents[0]:
            shared = defaults
        placed += read_nodes(document, defaults)
    return placed


def _check_twice(placed: list[Placed]) -> None:
    first: dict[NodeName, Placed] = {}
    for item in placed:
        earlier = first.setdefault(item.node.name, item)
        if earlier is not item:
            where = earlier.document.place((*earlier.path, "node_id"))
            item.document.blame((*item.path, "node_id"), f"{item.node.name!r} is given twice, first at {where}")


def _counted_twice(placed: list[Placed]) -> list[str]:
    """Warnings for nodes that are one machine and share GPUs there: mgpu would give those to two jobs."""
    warnings = []
    first: dict[object, Placed] = {}
    for item in placed:
        node, ssh = item.node, item.node.ssh
        machine = "this machine" if node.connection == "local" else (ssh.host, ssh.port or 22, ssh.proxy_jump)
        earlier = first.setdefault(machine, item)
        ours, theirs = node.facts.devices, earlier.node.facts.devices
        if earlier is not item and (ours is None or theirs is None or set(ours) & set(theirs)):
            place = item.document.place((*item.path, "node_id"))
            where = "this machine" if node.connection == "local" else ssh.host
            warnings.append(
                f"{place}: {node.name} and {earlier.node.name} are both {where}: "
                "their GPUs count twice unless each has its own devices:"
            )
    return warnings


def _check_partitions(main: Document, placed: list[Placed]) -> None:
    """With `partitions:` in the main file, a node may name no others."""
    known = main.data.get("partitions")
    if not isinstance(known, dict):
        return
    for item in placed:
        for name in item.node.facts.partitions:
            if name not in known:
                what = f"{name!r} is not among the partitions of {main.file}{did_you_mean(name, known)}"
                item.document.blame((*item.path, "partition"), what)


def _partitions(settings: Settings, placed: list[Placed]) -> dict[str, PartitionConfig]:
    """Those of `partitions:`; without that key, those that nodes name."""
    if settings.partitions is None:
        named = dict.fromkeys(name for item in placed for name in item.node.facts.partitions)
        return {name: PartitionConfig(name) for name in named}
    return {
        name: PartitionConfig(
            name=name,
            default_time_s=section.default_time,
            max_time_s=section.max_time,
            planning_time_s=section.planning_time,
            priority=section.priority,
            allow_users=tuple(section.allow_users),
        )
        for name, section in settings.partitions.items()
    }


def _in_order(document: Document) -> list[str]:
    """A range with the same fault in each of its nodes says it once."""
    return [str(fault) for fault in sorted(set[Fault](document.faults))]


def _config(
    path: Path,
    settings: Settings,
    placed: list[Placed],
    warnings: list[str],
) -> Config:
    networking, retries = settings.networking, settings.retries
    return Config(
        path=path.absolute(),
        nodes=tuple(item.node for item in placed) or (this_machine(),),
        cluster_name=settings.cluster.name,
        state_dir=settings.master.state_dir,
        idle_exit_s=settings.master.idle_exit,
        partitions=_partitions(settings, placed),
        heartbeat_interval_s=networking.heartbeat_interval,
        timeout_s=networking.timeout,
        login_timeout_s=networking.login_timeout,
        probe_timeout_s=networking.probe_timeout,
        default_policy=settings.scheduling.default_policy,
        backfill=settings.scheduling.backfill,
        retries_max=retries.max,
        requeues_max=retries.requeues,
        backoff_s=retries.backoff,
        backoff_max_s=retries.backoff_max,
        unhealthy_after=settings.health.unhealthy_after,
        output_max=settings.output.max_size,
        external=external_policy(settings.external),
        warnings=tuple(warnings),
    )
