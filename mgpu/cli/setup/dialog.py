"""The way through `mgpu init`. The files stand complete before a node is asked anything: whatever ends it after that
leaves a configuration to go on with."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from mgpu.cli.config import ask_to_reload
from mgpu.cli.session import Session, bad_request, refusal
from mgpu.cli.setup import draft, key
from mgpu.cli.setup.files import Files
from mgpu.cli.setup.hosts import Host, choose, listed, looked_up
from mgpu.cli.setup.look import Look
from mgpu.cli.stop import stop
from mgpu.cli.text import say
from mgpu.client.http import Endpoint, MasterError, NoMaster
from mgpu.client.locate import SYSTEM_CONFIG, Location, find_config, find_state_dir, socket_path
from mgpu.client.master import Master
from mgpu.client.place import read_state_dir
from mgpu.config.load import load
from mgpu.config.sshhosts import user_config
from mgpu.core.errors import ConfigError
from mgpu.core.hostlist import fold
from mgpu.lean.typing import Sequence
from mgpu.wording.letters import clean

OWN_KNOWN_HOSTS = "known_hosts"  # the master's, in the state directory


class Wanted:
    """What the command line asks for."""

    def __init__(self, hosts: Sequence[str], output: str, force: bool, key: bool, probe: bool, yes: bool) -> None:
        self.hosts = hosts
        self.output = output
        self.force = force
        self.key = key
        self.probe = probe
        self.yes = yes
        self.terminal = os.isatty(0) and os.isatty(2)


def run(session: Session, wanted: Wanted) -> tuple[int, dict[str, Any]]:
    """The exit status, and what was written and found. Raises MasterError; before anything is written if it can."""
    files = Files(wanted.output, wanted.force)
    state_dir = find_state_dir(session.state_dir, "", os.environ, read_state_dir)
    running = other_master(session, files, state_dir) if wanted.probe else None
    try:
        hosts = hosts_of(wanted)
        made = key.own_key() if wanted.key else None
    except KeyboardInterrupt:
        print(file=sys.stderr)
        say("nothing was written")
        raise
    identity_file = key.IDENTITY_FILE if made else ""
    if made and made[1]:
        say(
            f"{identity_file} is made: it has no passphrase, so whoever can read it can log in on these nodes as you "
            "(ssh-keygen -p -f sets one; then an ssh-agent has to hold it)"
        )
    write(files, hosts, identity_file)
    ours = Session(str(files.config), state_dir)
    look = Look(ours, hosts)
    try:
        if running is not None:
            say("the master that runs does not know this configuration, the next one will")
            stop.run(running, {})
        if wanted.probe:
            look_around(ours, look, wanted, made[0] if made else None, Path(state_dir, OWN_KNOWN_HOSTS))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        say(f"ended early, but {files.config} is complete: mgpu node trust and mgpu node probe go on from there")
        raise
    finally:
        if look.seen:
            complete(files, draft.inventory(hosts, look.seen, identity_file), ours)
    following = next_command(hosts, look, wanted, prefix(files, session))
    print(f"Next: {following}")
    return (1 if look.troubles else 0), document(files, hosts, look, identity_file, following)


def other_master(session: Session, files: Files, state_dir: str) -> Session | None:
    """The way to a master that runs without a configuration, or with what stood in our place: it has to end.

    Raises MasterError for one that runs with another: that is not ours to end.
    """
    if session.master_url or os.environ.get("MGPU_MASTER"):
        raise bad_request(
            "init asks the nodes through a master of your own, another one is named",
            "leave --master and MGPU_MASTER out, or --no-probe writes the files alone",
        )
    config = str(files.config)
    uids = (os.getuid(), 0)
    place = Location(config, state_dir, Endpoint(socket_path(state_dir), None, uids), True)
    try:
        running = Master(place, start_if_missing=False).call("GET", "/v1/status")["config"]
    except NoMaster:
        return None
    if running and os.path.realpath(running) != os.path.realpath(config):
        raise bad_request(
            f"a master runs with {running}",
            "mgpu stop ends it (jobs run on); or name another --state-dir, or --no-probe",
        )
    return Session(state_dir=state_dir, master_url=place.endpoint.socket_path)


def hosts_of(wanted: Wanted) -> list[Host]:
    if wanted.hosts:
        return looked_up(wanted.hosts)
    found = listed()
    if not found:
        raise bad_request(f"{user_config()} names no hosts", "name them: mgpu init 'gpu[01-04].example.org'")
    if not wanted.yes:
        print(f"Hosts of {clean(user_config())}:", file=sys.stderr)
        return choose(found)
    chosen = [host for host in found if not host.against]
    if not chosen:
        raise bad_request(f"no host of {user_config()} is surely meant", "name them: mgpu init HOST...")
    return chosen


def write(files: Files, hosts: Sequence[Host], identity_file: str) -> None:
    """And tells. Raises MasterError, also where what is there already does not go with it."""
    files.write(draft.CLUSTER, draft.inventory(hosts, {}, identity_file))
    for copy in files.backups:
        print(f"Kept: {clean(copy)}")
    for path in (files.config, files.inventory):
        print(f"Written: {clean(path)}")
    for name in files.others():
        say(f"{files.inventory.with_name(name)} was there: it is read as well")
    try:
        warnings = load(files.config).warnings
    except ConfigError as error:
        raise refusal(error) from error
    for warning in warnings:
        say(warning)


def look_around(session: Session, look: Look, wanted: Wanted, own_key: Path | None, own_known_hosts: Path) -> None:
    session.call("GET", "/v1/status")  # starts the master, once
    look.trust(wanted.yes)
    if own_key:
        look.install(own_key, own_known_hosts, wanted.terminal)
    look.probe()


def complete(files: Files, inventory: str, session: Session) -> None:
    """Writes what was seen as well, and has our master take it up: it began with less."""
    if not files.complete(inventory):
        say(f"{files.inventory} was edited meanwhile: it is left as it is, without the GPUs that were seen")
        return
    try:
        ask_to_reload(session)
    except NoMaster:
        pass  # the next one reads it
    except MasterError as error:
        say(f"the master has not taken up {files.inventory}: {error.message}: mgpu config reload does it later")


def prefix(files: Files, session: Session) -> str:
    """`mgpu`, with what it needs to find all this again."""
    words = ["mgpu"]
    try:
        in_force, _ = find_config(None, os.environ, SYSTEM_CONFIG)
    except MasterError:  # MGPU_CONFIG names what is not there
        in_force = os.environ["MGPU_CONFIG"]
    if in_force != str(files.config):
        words += ["--config", str(files.config)]
        nearer = f"{in_force} comes first where you stand: go elsewhere, or name the new one"
        say(nearer if in_force else "mgpu does not look there by itself")
    if session.state_dir:
        words += ["--state-dir", os.path.abspath(session.state_dir)]
    return shlex.join(words)


def next_command(hosts: Sequence[Host], look: Look, wanted: Wanted, mgpu: str) -> str:
    if look.free:
        return f"{mgpu} srun --gpus 1 -- nvidia-smi -L"
    if look.untrusted and not look.seen:
        return f"{mgpu} node trust {shlex.quote(fold(look.untrusted))}"
    if look.shut_out and not look.seen and not wanted.key:
        again = ["mgpu", "init", "--force", "--key", *(["--output", wanted.output] if wanted.output else [])]
        return shlex.join([*again, *(host.login for host in hosts)])
    if not wanted.probe and any(not host.local for host in hosts):
        return f"{mgpu} node trust {shlex.quote(fold(host.name for host in hosts if not host.local))}"
    return f"{mgpu} nodes"


def document(files: Files, hosts: Sequence[Host], look: Look, identity_file: str, following: str) -> dict[str, Any]:
    """For --json."""
    nodes = [
        {
            "node_id": host.name,
            "gpus": look.seen[host.name].total if host.name in look.seen else None,
            "trouble": look.troubles.get(host.name, ""),
        }
        for host in hosts
    ]
    return {
        "config": str(files.config),
        "inventory": str(files.inventory),
        "kept": [str(path) for path in files.backups],
        "identity_file": identity_file,
        "nodes": nodes,
        "next": following,
    }
