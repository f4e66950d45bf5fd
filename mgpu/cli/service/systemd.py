"""The unit of systemd: written, enabled, started, and taken away again.

As root it is the system's, and the master in it runs as somebody else where that is said, or where sudo says who asks.
What is that user's (home, configuration, state directory) is found out by a process of that user: so it is also sure
that this user can run mgpu and read its configuration. Root takes these places from it, and no word of the unit.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

from mgpu.cli.service.master_line import MasterLine, master_line, require_plain
from mgpu.cli.service.unit import Facts, render
from mgpu.cli.session import Session, bad_request
from mgpu.cli.setup.files import beside
from mgpu.client import service
from mgpu.client.http import MasterError
from mgpu.client.locate import config_here
from mgpu.client.lock import is_held
from mgpu.client.service import PREFIX, Unit
from mgpu.lean.typing import Any
from mgpu.users import user_name
from mgpu.whereabouts import search_path

BOOTED = "/run/systemd/system"  # as sd_booted(3) has it
PATIENCE_S = 400  # more than the unit's own
CRON = "mgpu service install cron"


class Wanted:
    """`run_as` "" = whoever asks. Raises MasterError for what cannot be."""

    def __init__(self, name: str | None, own: bool, run_as: str | None) -> None:
        self.name = name or PREFIX
        self.own = own
        me = own_name()
        sudo = os.environ.get("SUDO_USER", "") if os.getuid() == 0 and not own else ""
        self.user = run_as or sudo or me
        self.other = self.user != me
        letters = self.name.replace("-", "").replace("_", "")
        if not (self.name.startswith(PREFIX) and letters.isascii() and letters.isalnum()):
            what = f"--name {self.name}: a name begins with {PREFIX}, and is of letters, digits, - and _"
            raise bad_request(what, "give another")
        if own and run_as:
            raise bad_request("--user is your own systemd: nobody else's master runs there", "leave --run-as out")
        if self.other and os.getuid():
            raise bad_request(f"--run-as {self.user}: only root can have others run it", "sudo, or leave it out")
        try:
            pwd.getpwnam(self.user)
        except KeyError as error:
            raise bad_request(f"there is no user {self.user!r} here", "name another with --run-as") from error

    def unit(self) -> Unit | None:
        return service.read(self.name, self.own)

    @property
    def path(self) -> str:
        return os.path.join(service.user_folder() if self.own else service.SYSTEM_FOLDER, f"{self.name}.service")


def describe(session: Session, wanted: Wanted) -> dict[str, Any]:
    """The unit, and what stands in it. Raises MasterError."""
    if wanted.other:
        line, is_node, shared = _as_user(session, wanted)
    else:
        line, _ = master_line(session)
        is_node, shared = for_whom(line)
    facts = Facts(wanted.name, line, wanted.user, wanted.own, is_node, shared)
    return {
        "path": wanted.path,
        "user": wanted.user,
        "config": line.config,
        "state_dir": line.state_dir,
        "is_node": facts.is_node,
        "shared": facts.shared,
        "text": render(facts),
    }


def for_whom(line: MasterLine) -> tuple[bool, bool]:
    """Whether this machine is a node, and whether the master is for all. Raises MasterError."""
    from mgpu.config.load import load
    from mgpu.core.errors import ConfigError

    try:
        config = load(Path(line.config) if line.config else None)
    except ConfigError as error:
        raise MasterError(error.code, "\n".join(error.faults), "mgpu config check says the same", 2) from error
    return any(node.connection == "local" for node in config.nodes), config.shared


def _as_user(session: Session, wanted: Wanted) -> tuple[MasterLine, bool, bool]:
    """What `describe` needs, as that user finds it. Raises MasterError."""
    here, distrust = config_here()
    named = session.config or os.environ.get("MGPU_CONFIG", "") or (here if not distrust else "")
    given = [("--config", named), ("--state-dir", session.state_dir or os.environ.get("MGPU_STATE_DIR", ""))]
    places = [word for flag, value in given if value for word in (flag, os.path.abspath(value))]
    words = ["--json", *places, "service", "install", "systemd", "--print", "--name", wanted.name]
    done = run_as(wanted.user, words)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        try:
            error = json.loads(said)["error"]
        except (ValueError, KeyError, TypeError):
            raise _cannot_run(wanted.user, said) from None
        raise MasterError(error["code"], f"as {wanted.user}: {error['message']}", error["hint"])
    try:
        found = json.loads(done.stdout)
        places = [os.path.abspath(str(found[name])) if found[name] else "" for name in ("config", "state_dir")]
        line = MasterLine(sys.executable, search_path(), *places)
        is_node, shared = bool(found["is_node"]), bool(found["shared"])
    except (ValueError, KeyError, TypeError) as error:
        raise _cannot_run(wanted.user, done.stdout[:200]) from error
    require_plain(line)
    return line, is_node, shared


def run_as(user: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """This mgpu, as that user sees the machine at a login. Raises MasterError."""
    who = pwd.getpwnam(user)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    kept |= {"PYTHONPATH": search_path()} if search_path() else {}
    try:
        return subprocess.run(
            [sys.executable, "-m", "mgpu", *words],
            cwd="/",  # Python looks for modules where it stands
            env={**kept, "HOME": who.pw_dir, "USER": user, "LOGNAME": user, "SHELL": who.pw_shell},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **({} if who.pw_uid == os.getuid() else _identity(who)),
        )
    except OSError as error:
        raise _cannot_run(user, error.strerror or str(error)) from error


def _identity(who: pwd.struct_passwd) -> dict[str, Any]:
    groups = os.getgrouplist(who.pw_name, who.pw_gid)
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": groups}


def _cannot_run(user: str, why: str) -> MasterError:
    hint = "install mgpu where that user may read it: scripts/install --prefix /opt/mgpu"
    return MasterError("not_allowed", f"{user} cannot run {sys.executable} -m mgpu: {why}", hint)


# --- acts ---------------------------------------------------------------------------------------------------------


def install(session: Session, wanted: Wanted) -> list[str]:
    """What was done and what to type next, a line each. Raises MasterError."""
    _require(wanted, "install")
    found = describe(session, wanted)
    text, state_dir = found["text"], found["state_dir"]
    _require_free(wanted, state_dir)
    folder = os.path.dirname(wanted.path)
    os.makedirs(folder, 0o755, exist_ok=True)
    place = Path(wanted.path)
    beside(place, text, "mend its folder's rights").replace(place)
    unit = Unit(wanted.name, wanted.path, wanted.own, state_dir)
    runs_as = "" if wanted.own else f" as {wanted.user}"
    config = found["config"] or "no configuration (this machine alone)"
    lines = [f"{wanted.path} is written: the master runs{runs_as}, with {config}, its state in {state_dir}"]
    _systemctl(wanted.own, "daemon-reload")
    _systemctl(wanted.own, "enable", unit.name)
    if unit.state() not in service.COMING and is_held(state_dir):
        run_as(wanted.user, ["--state-dir", state_dir, "stop"])
        lines.append("the master that ran was ended; jobs run on")
    _systemctl(wanted.own, "restart", unit.name, hint=f"{unit.log} says why; {' '.join(unit.systemctl('status'))}")
    lines.append(f"{unit.name} is enabled and runs")
    return lines + next_steps(unit, found["is_node"])


def next_steps(unit: Unit, is_node: bool) -> list[str]:
    own = unit.own
    lines = [
        f"its log: {unit.log} -f",
        f"how it is: {' '.join(unit.systemctl('status'))}; mgpu status",
        "after a change of the configuration: mgpu config reload",
        "after an upgrade: mgpu restart",
        f"to take it away: {'' if own or not os.getuid() else 'sudo '}mgpu service uninstall systemd{' --user' * own}",
    ]
    if not is_node:
        lines.append(
            "should this machine become a node (connection: local): install it again, it confines what it runs"
        )
    if own and not lingers():
        lines.append("it ends when you log out, unless this is said once: loginctl enable-linger")
    return lines


def lingers() -> bool:
    return os.path.exists(f"/var/lib/systemd/linger/{own_name()}")


def own_name() -> str:
    """Raises MasterError."""
    name = user_name(os.getuid())
    if not name:
        raise MasterError("error", f"uid {os.getuid()} has no name here", "log in as a user of this machine")
    return name


def uninstall(wanted: Wanted, unit: Unit) -> list[str]:
    """Raises MasterError."""
    _require(wanted, "uninstall")
    if not unit.state_dir:
        raise _of_others(unit)
    _systemctl(wanted.own, "disable", "--now", unit.name)
    os.unlink(unit.path)
    _systemctl(wanted.own, "daemon-reload")
    return [
        f"{unit.name} is stopped and {unit.path} removed; jobs run on",
        f"the state stays in {unit.state_dir}: the next command starts a master of its own for it",
    ]


def _require(wanted: Wanted, act: str) -> None:
    """Raises MasterError where that systemd is not to be had."""
    if not os.path.isdir(BOOTED):
        raise MasterError("error", "this machine was not started by systemd", f"{CRON} does without it")
    if not wanted.own and os.getuid():
        what = f"a service of the machine is root's to {act}"
        hint = f"sudo {sys.executable} -m mgpu service {act} systemd; or --user, for one of your own"
        raise MasterError("not_allowed", what, hint)
    if wanted.own:
        done = _run(["systemctl", "--user", "show-environment"])
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no session bus"])[0]
            hint = f"log in as this user by ssh or at the console (not by su or sudo), or: {CRON}"
            raise MasterError("error", f"your own systemd cannot be asked: {said}", hint)


def _require_free(wanted: Wanted, state_dir: str) -> None:
    unit = wanted.unit()
    if unit is not None and not unit.state_dir:
        raise _of_others(unit)
    if unit is not None and os.path.realpath(unit.state_dir) != os.path.realpath(state_dir):
        what = f"{unit.path} is the service of {unit.state_dir}, this would be that of {state_dir}"
        raise MasterError("error", what, "give this one a name of its own (--name mgpu-SOMETHING), or uninstall that")
    other = service.unit_of(state_dir)
    if other is not None and other.path != wanted.path:
        raise MasterError("error", f"{state_dir} has a service already: {other.path}", "uninstall that first")


def _of_others(unit: Unit) -> MasterError:
    what = f"{unit.path} was not written by mgpu service install: it is left alone"
    return MasterError("error", what, "give this one another name: --name mgpu-SOMETHING; or move that away")


def _systemctl(own: bool, *words: str, hint: str = "") -> None:
    done = _run(["systemctl", *(["--user"] if own else []), *words])
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise MasterError("error", f"systemctl {' '.join(words)} failed: {said}", hint)


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MasterError("error", f"{argv[0]} cannot be run: {error}", CRON) from error
