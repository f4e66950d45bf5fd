"""From the client to the master: the state directory, the socket, who answers there, and in which environment it lives.
What works by hand and fails from a service mostly differs in the last."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mgpu
from mgpu import clock
from mgpu.client import http
from mgpu.client.locate import Location
from mgpu.client.lock import lock_path
from mgpu.client.service import unit_of
from mgpu.client.start import command, log_path
from mgpu.config.model import Config
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.doctor.case import MasterView
from mgpu.file_system import file_system_of, why_unfit

ANSWER_S = 5.0
SLOW_ANSWER_S = 1.0
LOW_MIB = 512
SHOWN_ERRORS = 3


class Master:
    """What it answers, asked once. `status` None = nobody answers; `error` says why."""

    def __init__(self, place: Location) -> None:
        self.place = place
        self.status: Mapping[str, Any] | None = None
        self.nodes: Mapping[str, Mapping[str, Any]] = {}
        self.error: http.MasterError | None = None
        self.took_s = 0.0
        began = clock.monotonic()
        try:
            self.status = self._ask("/v1/status")
            self.took_s = clock.monotonic() - began
            self.nodes = {node["node_id"]: node for node in self._ask("/v1/nodes")["nodes"]}
        except http.MasterError as error:
            self.error = error

    def _ask(self, path: str) -> Any:
        """As the client does, with less patience."""
        endpoint = self.place.endpoint
        head = http.request_head(endpoint, "GET", path, "1.0", {})
        connection = http.connect(endpoint)
        try:
            connection.settimeout(ANSWER_S)
            connection.sendall(head)
            response = http.read_response(connection)
        except OSError as error:
            raise http.MasterError("error", f"it does not answer: {error}") from error
        finally:
            connection.close()
        http.raise_for_error(response)
        try:
            return json.loads(response.body)
        except ValueError as error:
            raise http.MasterError("error", "its answer cannot be read") from error

    @property
    def environment(self) -> Mapping[str, str] | None:
        """None = it does not tell."""
        told = (self.status or {}).get("environment")
        return told if isinstance(told, dict) else None

    def view(self, name: str) -> MasterView | None:
        """What it says of a node; None = it does not run."""
        if self.status is None:
            return None
        told = self.environment
        agent = None if told is None else str(told.get("SSH_AUTH_SOCK", ""))
        return MasterView(self.nodes.get(name), agent, lambda: self._enter(name))

    def _enter(self, name: str) -> tuple[str, str]:
        response = http.request(self.place.endpoint, "POST", "/v1/enroll", {"nodes": name})
        http.raise_for_error(response)
        [tried] = json.loads(response.body)["nodes"]
        return tried["login"], tried["why"]


def look(master: Master, config: Config) -> Iterator[Finding]:
    """All of it, in order."""
    yield from configuration(master.place, config)
    yield from state_directory(master.place)
    yield from who_answers(master)
    if master.status is not None:
        yield from same(master, master.status)
        yield from environment(master)


def configuration(place: Location, config: Config) -> Iterator[Finding]:
    for text in (*place.warnings, *config.warnings):
        yield warning("config", text, "mgpu config check says the same")
    number = f"{len(config.nodes)} node{'s' * (len(config.nodes) != 1)}"
    yield ok("config", f"{place.config}: {number}" if place.config else "none: this machine alone")


def state_directory(place: Location) -> Iterator[Finding]:
    folder = place.state_dir
    another = "name another with --state-dir or master: {state_dir: ...}"
    try:
        facts = Path(folder).stat()
    except FileNotFoundError:
        yield ok("state", f"{folder} is not there yet: the first master makes it")
        return
    except OSError as error:
        yield failure("state", f"{folder}: {error.strerror}", another)
        return
    kind = file_system_of(folder)
    free_mib = shutil.disk_usage(folder).free >> 20
    if facts.st_uid not in (os.getuid(), 0) and facts.st_uid in place.endpoint.uids:
        yield ok("state", f"{folder}: of the master that uid {facts.st_uid} runs for all")
    elif facts.st_uid not in (os.getuid(), 0):
        yield failure("state", f"{folder} belongs to uid {facts.st_uid}", another)
    elif facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield failure("state", f"others can write {folder}", f"chmod go-w {shlex.quote(folder)}")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield failure("state", f"{folder} cannot be written", f"mend its rights, or {another}")
    elif unfit := why_unfit(kind):
        yield failure("state", f"{folder} lies {unfit}: a database there gets damaged", another)
    elif free_mib < LOW_MIB:
        yield warning("state", f"{folder} has {free_mib} MiB free", "output of jobs is kept there: make room")
    else:
        yield ok("state", f"{folder}, on {kind or 'an unknown file system'}, {free_mib / 1024:.1f} GiB free")


def who_answers(master: Master) -> Iterator[Finding]:
    path = master.place.endpoint.socket_path
    if master.status is not None:
        who = f"pid {master.status.get('pid')} of uid {master.status.get('uid')}"
        text = f"{who} answers at {path} in {1000 * master.took_s:.0f} ms"
        if master.took_s > SLOW_ANSWER_S:
            yield warning("socket", text, "the machine is overloaded, or its disk is slow: uptime; mgpu status")
        else:
            yield ok("socket", f"{text}; a unix socket: no address, route or firewall is between")
        return
    holder = holder_of(lock_path(master.place.state_dir))
    log = log_path(master.place.state_dir)
    if isinstance(master.error, http.NoMaster) and not master.place.personal:
        hint = "start that master, or leave --master and MGPU_MASTER out to use one of your own"
        if for_all := http.how_to_start_for_all(master.place.endpoint.uids):
            yield failure("socket", f"no master answers at {path}", for_all)
        else:
            yield failure("socket", f"no master answers at {path}, which --master or MGPU_MASTER names", hint)
    elif isinstance(master.error, http.NoMaster) and holder is None:
        unit = unit_of(master.place.state_dir)
        if unit is not None:
            what = f"no master runs for {path}: it is the service {unit.name}, which is {unit.state() or 'unknown'}"
            yield failure("socket", what, f"{unit.how_to_start}; {unit.log} says more")
            return
        starter = f"any command that asks it, such as mgpu nodes, starts one: {shlex.join(command(master.place))}"
        yield skipped("socket", f"no master runs for {path}; {starter}")
    elif isinstance(master.error, http.NoMaster):
        hint = f"it starts, ends or hangs: look at {log}; kill {holder} ends it, jobs run on"
        yield failure("socket", f"pid {holder} holds {master.place.state_dir}, but nobody answers at {path}", hint)
    elif master.error is not None:
        hint = master.error.hint or f"it hangs: look at {log}" + (
            f"; kill {holder} ends it, jobs run on" if holder else ""
        )
        yield failure("socket", f"{path}: {master.error.message}", hint)


def holder_of(path: str) -> int | None:
    """Who has that file locked, as the kernel tells it: to try the lock would keep out a master that just starts."""
    try:
        inode = Path(path).stat().st_ino
        locks = Path("/proc/locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    return next((pid for line in locks if (pid := _flock_of(line, inode)) is not None), None)


def _flock_of(line: str, inode: int) -> int | None:
    """`1: FLOCK  ADVISORY  WRITE 4242 fe:01:1234 0 EOF` -> 4242"""
    words = line.split()
    if len(words) < 6 or words[1] != "FLOCK" or words[5].rpartition(":")[2] != str(inode):
        return None
    return int(words[4]) if words[4].isdigit() else None


def same(master: Master, status: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether it is the one that we mean."""
    if master.error is not None:
        yield failure("same", master.error.message, master.error.hint or "see its log")
    elif status.get("version") != mgpu.__version__:
        text = f"the master is version {status.get('version')}, this command {mgpu.__version__}"
        yield warning("same", text, "mgpu restart takes up the code that lies there now, jobs run on")
    else:
        yield ok("same", f"same configuration, same version ({mgpu.__version__})")
    listens = str(status.get("listens") or "")
    if listens.startswith("not "):
        yield warning("listens", f"{listens}: clients elsewhere do not reach it", "docs/remote.md")
    elif listens:
        yield ok("listens", f"for clients elsewhere at {listens}")
    yield from errors(status)


def errors(status: Mapping[str, Any]) -> Iterator[Finding]:
    """What went wrong lately, as the master itself tells it."""
    for text in list(status.get("errors") or [])[-SHOWN_ERRORS:]:
        yield warning("errors", f"the master says: {text}", "mgpu status shows them all")


def environment(master: Master) -> Iterator[Finding]:
    theirs = master.environment
    if theirs is None:
        yield skipped("environment", "this master does not tell its environment")
        return
    if master.status is not None and master.status.get("uid") != os.getuid():
        yield skipped("environment", "the master runs as somebody else, with an environment of its own")
        return
    differences = list(compare(theirs, os.environ))
    yield from differences
    if not differences:
        yield ok("environment", "the master has the same home, ssh and ssh-agent as this shell")


def compare(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[Finding]:
    """Only what matters for logging in somewhere."""
    again = "mgpu stop, then any command in this shell starts it anew; for a service, set it in the unit"
    home, our_home = theirs.get("HOME", ""), ours.get("HOME", "")
    if home != our_home:
        yield warning("environment", f"HOME of the master is {home or 'not set'}, here {our_home or 'not set'}", again)
    ssh, our_ssh = (shutil.which("ssh", path=each.get("PATH", "")) for each in (theirs, ours))
    if our_ssh and not ssh:
        text = f"the master finds no ssh in PATH={theirs.get('PATH', '')}: it does not read ~/.ssh/config"
        yield failure("environment", text, again)
    elif ssh != our_ssh:
        yield warning("environment", f"ssh of the master is {ssh}, here {our_ssh or 'there is none'}", again)
    agent, our_agent = theirs.get("SSH_AUTH_SOCK", ""), ours.get("SSH_AUTH_SOCK", "")
    if agent == our_agent:
        return
    if agent and not _is_socket(agent):
        text = f"the ssh-agent of the master is gone: {agent}"
        yield warning("environment", f"{text} (it ended with the login that the master was started from?)", again)
    elif our_agent and not agent:
        yield warning("environment", "this shell has an ssh-agent, the master has none", again)
    else:
        text = f"the ssh-agent of the master is {agent}, here {our_agent or 'there is none'}"
        yield warning("environment", text, "mgpu doctor NODE says whether that matters for a node")


def _is_socket(path: str) -> bool:
    try:
        return Path(path).is_socket()
    except OSError:
        return False
