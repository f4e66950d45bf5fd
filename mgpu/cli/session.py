"""What the global options of one command line add up to, and the way to its master."""

from __future__ import annotations

import os
import sys

from mgpu.cli.text import say
from mgpu.client.config_home import config_home
from mgpu.client.http import MasterError, advised, bad_request, quote
from mgpu.client.locate import ELSEWHERE, SSH, SYSTEM_CONFIG, Location, find_config, locate
from mgpu.client.master import Master
from mgpu.client.own_master import own_master
from mgpu.client.place import find, patience, read_state_dir, url_of
from mgpu.lean.json import dumps, indented
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.figures import in_local_time
from mgpu.wording.letters import clean

if TYPE_CHECKING:
    from mgpu.cli.status_file import StatusFile
    from mgpu.client.head import Head
    from mgpu.core.errors import MgpuError

__all__ = ["bad_request"]  # which commands take from here, beside what is a session's

LONGEST_NAME = 255  # more than any node's


class Session:
    """Made of the global options."""

    def __init__(
        self,
        config: str = "",
        state_dir: str = "",
        master_url: str = "",
        json: bool = False,
        verbose: bool = False,
        master_host: str = "",
        master_port: str = "",
    ) -> None:
        self.config = config or None
        self.state_dir = state_dir or None
        self.master_url = master_url or None
        self.master_at = (master_host, master_port)
        self.json = json
        self.verbose = verbose
        self.patience_s: float | None = None  # with a master that does not answer
        self._location: Location | None = None
        self.status_file: StatusFile | None = None

    def location(self) -> Location:
        """Raises MasterError when the options or variables name what is not there."""
        if self._location is None:
            place = find(self.config, self.state_dir, self.named_master(), os.environ)
            for warning in place.warnings:
                say(warning)
            if self.verbose and place.endpoint.dialer is not None:
                say(f"the master is reached through {place.endpoint.socket_path}")
            elif self.verbose:
                config = place.config or "none, this machine alone"
                say(f"configuration {config}; state in {place.state_dir}; socket {place.endpoint.socket_path}")
            self._location = place
        return self._location

    def stay_with_its_master(self) -> None:
        """From now on that one is meant which has answered, whatever configuration it comes to: what this command asks
        of it may give it another. Raises MasterError."""
        place = self.location()
        self._location = place._replace(endpoint=place.endpoint._replace(config=None))

    def named_master(self) -> str:
        """Where this command, or a variable, says that the master is. Raises MasterError."""
        if any(self.master_at):
            if self.master_url:
                raise bad_request("--master and --host or --port both say where the master is", "give one of them")
            return url_of(*self.master_at, os.environ, self.config, self.state_dir)
        return self.master_url or os.environ.get("MGPU_MASTER", "")

    def elsewhere(self) -> str:
        """The machine where the master is, "" = this one. Raises MasterError."""
        dialer = self.location().endpoint.dialer
        return dialer.shown if dialer is not None else ""

    def head(self) -> Head | None:
        """The machine that ssh reaches the master through. Raises MasterError."""
        url = self.location().endpoint.socket_path
        if not url.startswith(SSH):
            return None
        from mgpu.client.head import parse_head

        return parse_head(url)

    def require_here(self, what: str) -> None:
        """For what reads or changes the master's configuration. Raises MasterError when that lies elsewhere."""
        if machine := self.elsewhere():
            raise bad_request(f"{what}: the configuration is the master's, on {machine}", "log in there and do it")

    def location_here(self) -> Location:
        """For what is the master, or stands beside it: a name for one elsewhere, meant for this user's other commands
        (or coming from a home that machines share), counts for nothing. Raises MasterError."""
        if any(self.master_at):
            what = "--host and --port name the master of a client; where it listens stands in its configuration"
            raise bad_request(what, "master: {host: ..., port: ...}")
        if self.master_url and self.master_url.startswith(ELSEWHERE):
            raise bad_request(f"--master {self.master_url}: this is done on the master's own machine", "log in there")
        url = self.named_master() or own_master(config_home(os.environ)) or ""
        environ = {**os.environ, "MGPU_MASTER": ""}
        return locate(self.config, self.state_dir, "" if url.startswith(ELSEWHERE) else url, environ, read_state_dir)

    def config_path(self) -> str:
        """The configuration in force, "" = none, whether or not it loads."""
        path, warnings = find_config(self.config, os.environ, SYSTEM_CONFIG)
        for warning in warnings:
            say(warning)
        return path

    def master(self, start_if_missing: bool = True) -> Master:
        if self.patience_s is None:
            self.patience_s = patience(os.environ)
        return Master(self.location(), start_if_missing, self.patience_s)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The master's answer. Raises MasterError."""
        return self.master().call(method, path, body)

    def print_json(self, document: Any) -> None:
        print(indented(document) if os.isatty(1) else dumps(document))

    def print_lines(self, lines: list[str]) -> None:
        print(in_local_time("\n".join(lines)))

    def print_error(self, error: MasterError) -> None:
        """What and what to do, in one line; a JSON document when --json was given."""
        if self.json:
            print(dumps({"error": error.as_json()}), file=sys.stderr)
            return
        *lines, last = error.message.splitlines() or [error.code]
        for line in lines:  # a configuration's faults come one a line
            print(clean(line), file=sys.stderr)
        say(advised(last, error.hint))

    def write_status_to(self, path: str) -> None:
        """From now on. Raises MasterError."""
        from mgpu.cli.status_file import StatusFile

        self.status_file = StatusFile(path)

    def leave_untold(self, exit_status: int, code: str, message: str, hint: str = "") -> None:
        """It is not known how the job ended: a status file says why, unless something was said there."""
        if self.status_file is not None and not self.status_file.told:
            self.status_file.tell(None, exit_status, {"code": code, "message": message, "hint": hint})


def check_name(name: str) -> str:
    """Of a node, or of several: not a variable that was empty. Raises MasterError."""
    if not name.strip():
        raise bad_request("a node's name is missing", "mgpu nodes lists them")
    return name


def node_path(name: str) -> str:
    """Where the master answers for a node. Raises MasterError for what can be none: no server takes any path."""
    if len(name) > LONGEST_NAME:
        raise MasterError("not_found", f"there is no node {name!r}", "mgpu nodes lists them")
    return f"/v1/nodes/{quote(check_name(name))}"


def refusal(error: MgpuError) -> MasterError:
    """What the core, the configuration or the store refuses to a command that asks them itself."""
    return MasterError(error.code, error.message, error.hint, error.exit_code)
