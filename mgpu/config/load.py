"""Files -> Config, or every fault in them at once.

Each phase tells its faults and hands on what it could read, so that the later ones still look at the rest:

    document    YAML -> mappings, lists, text, each with its place
    older       words of former times
    keys        unknown ones, read on as what was meant
    validate    values against the schema
    nodes       defaults filled in, ranges expanded
    checks      what must hold between nodes, files and sections

Only what a fault leaves in doubt goes unchecked, and no phase tells what follows from a fault of an earlier one.
"""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import replace
from math import inf
from pathlib import Path

from mgpu.config.checks import check_devices, check_number, check_partitions, check_twice, counted_twice
from mgpu.config.document import Document, read
from mgpu.config.faults import Fault
from mgpu.config.model import Config, NodeConfig, Notify, PartitionConfig, SshSettings
from mgpu.config.node_schema import NodeDefaults, NodeHealth
from mgpu.config.nodes import Entry, Placed, expanded, external_policy, read_defaults, read_entries
from mgpu.config.older import modernise
from mgpu.config.schema import InventoryFile, Settings
from mgpu.config.trust import trusted
from mgpu.config.validate import validate
from mgpu.config.values import NAME, home_path
from mgpu.core.errors import ConfigError
from mgpu.core.fairshare import FairShare
from mgpu.core.logins import Logins
from mgpu.core.model import NodeName
from mgpu.core.plan import AccountFacts, NodeFacts
from mgpu.core.usage import IdleRule
from mgpu.users import user_name


def load(path: Path | None) -> Config:
    """The configuration in the file at `path` and in its inventory. None = no file: this machine is the only node.

    Raises ConfigError with all faults, in the order of the files and lines.
    """
    if path is None:
        return Config(path=None, nodes=(this_machine(),), implied=True)
    refusal = _refusal(path)
    if refusal:
        raise ConfigError([refusal])
    main = read(path)
    warnings = modernise(main)
    settings = validate(main, Settings, main.data) or Settings()
    documents = [main, *_inventory(main)]
    for document in documents[1:]:
        warnings += modernise(document)
        validate(document, InventoryFile, document.data)
    defaults, nodes = _entries(documents, settings)
    placed = [node for entry in nodes for node in expanded(entry)]
    for entry in (*defaults, *nodes):
        check_devices(entry)
    check_partitions(main, (*defaults, *nodes))
    check_number(placed)
    check_twice(placed)
    faults = [fault for document in documents for fault in _in_order(document)]
    if faults:
        raise ConfigError(faults)
    if settings.users and settings.master.run_as == "service":
        warnings.append(f"{path}: users: of no use without master: {{run_as: submitter}}")
    if settings.notify is not None and shutil.which(program := settings.notify.command[0]) is None:
        warnings.append(f"{path}: notify: {program} is not there, or cannot be run: nobody is told of anything")
    found = _config(path, settings, placed, warnings + counted_twice(placed))
    return replace(found, files=_files(documents))


def _files(documents: list[Document]) -> tuple[Path, ...]:
    """With the folders of the inventory, where other files may come."""
    files = [Path(document.file).absolute() for document in documents]
    return (*files, *dict.fromkeys(file.parent for file in files[1:]))


def this_machine() -> NodeConfig:
    """The node where there is no inventory."""
    hostname = socket.gethostname()
    short = hostname.split(".")[0]
    name = NodeName(short if NAME.fullmatch(short) else "localhost")
    return NodeConfig(name, "local", SshSettings("localhost"), NodeFacts(name, hostname=hostname))


def _refusal(path: Path, *, folder: bool = False) -> str:
    """ "" or the one line that says why this file, or folder where that is meant too, will not be read."""
    try:
        why = trusted(path)
        if why:
            return f"{path}: not trusted: {why}"
        if path.is_file():
            path.open("rb").close()
        elif not path.is_dir():  # a pipe would be waited for
            return f"{path}: is no file"
        elif not folder:
            return f"{path}: is a folder, not a file"
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return ""


def _inventory(main: Document) -> list[Document]:
    """The files of `inventory:`, in the order of their names."""
    said = main.data.get("inventory")
    if not isinstance(said, str) or not said:
        return []
    try:
        root = Path(main.file).parent / home_path(said)
    except ValueError:  # told by the schema
        return []
    refusal = _refusal(root, folder=True)
    if refusal:
        main.blame(("inventory",), refusal)
        return []
    if not root.is_dir():
        return [read(root)]
    files = [file for file in sorted(root.iterdir()) if file.suffix in (".yaml", ".yml") and file.name[0] != "."]
    files = [file for file in files if file.absolute() != Path(main.file).absolute()]
    if not files:
        main.blame(("inventory",), f"{root} holds no .yaml file: write one there, like nodes: [{{node_id: gpu01}}]")
    documents = []
    for file in files:
        refusal = _refusal(file)
        if refusal:
            main.blame(("inventory",), refusal)
        else:
            documents.append(read(file))
    return documents


def _entries(documents: list[Document], settings: Settings) -> tuple[list[Entry], list[Entry]]:
    """The `defaults:` and the `nodes:` of all files; the main file's defaults serve in the others too."""
    checks = NodeHealth(check=settings.health.check, check_timeout=settings.health.check_timeout)
    shared = NodeDefaults(external=settings.external, health=checks)
    defaults: list[Entry] = []
    nodes: list[Entry] = []
    for document in documents:
        defaults.append(read_defaults(document, defaults[0] if defaults else None, shared))
        nodes += read_entries(document, defaults[-1])
    return defaults, nodes


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
            limits=section.limits.read(),
            user_limits=section.user_limits.read(),
        )
        for name, section in settings.partitions.items()
    }


def _logins(settings: Settings, placed: list[Placed]) -> Logins:
    if settings.master.run_as == "service":
        return Logins()
    own = {user_name(os.getuid()), *(item.node.ssh.user for item in placed)}
    return Logins(settings.users, frozenset({"root", *filter(None, own)}))


def _fair_share(settings: Settings) -> FairShare:
    said = settings.scheduling.fair_share
    half_life = None if said.half_life == inf else said.half_life
    return FairShare(
        half_life, said.longest_wait, {name: section.shares for name, section in settings.accounts.items()}
    )


def _notify(settings: Settings) -> Notify | None:
    said = settings.notify
    return None if said is None else Notify(said.command, said.events, said.timeout, said.retries)


def _with_windows(node: NodeConfig, settings: Settings) -> NodeConfig:
    """Those of all nodes come on top of its own."""
    windows = (*node.facts.maintenance, *settings.maintenance)
    return replace(node, facts=replace(node.facts, maintenance=windows))


def _in_order(document: Document) -> list[str]:
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
        nodes=tuple(_with_windows(item.node, settings) for item in placed)
        or (_with_windows(this_machine(), settings),),
        implied=not placed,
        cluster_name=settings.cluster.name,
        state_dir=settings.master.state_dir,
        shared=settings.master.mode == "shared",
        socket_group=settings.master.socket_group,
        idle_exit_s=settings.master.idle_exit,
        listen=settings.master.listen(),
        partitions=_partitions(settings, placed),
        accounts={
            name: AccountFacts(name, section.shares, tuple(section.users), section.limits.read())
            for name, section in settings.accounts.items()
        },
        fair_share=_fair_share(settings),
        user_limits=settings.scheduling.user_limits.read(),
        admins=tuple(settings.admins),
        run_as=settings.master.run_as,
        via=settings.master.via,
        logins=_logins(settings, placed),
        privacy=settings.privacy,
        heartbeat_interval_s=networking.heartbeat_interval,
        timeout_s=networking.timeout,
        login_timeout_s=networking.login_timeout,
        probe_timeout_s=networking.probe_timeout,
        master_ports=networking.master_ports,
        preflight=networking.preflight,
        default_policy=settings.scheduling.default_policy,
        backfill=settings.scheduling.backfill,
        retries_max=retries.max,
        requeues_max=retries.requeues,
        backoff_s=retries.backoff,
        backoff_max_s=retries.backoff_max,
        unhealthy_after=settings.health.unhealthy_after,
        output_max=settings.output.max_size,
        ship_max=settings.ship.max_size,
        keep_jobs_s=settings.retention.jobs,
        keep_output_s=settings.retention.output,
        keep_samples_s=settings.retention.samples,
        idle=IdleRule(settings.idle.after, settings.idle.below),
        notify=_notify(settings),
        log_format=settings.log.format,
        external=external_policy(settings.external),
        warnings=tuple(warnings),
    )
