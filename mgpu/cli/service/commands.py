"""mgpu service: the commands."""

from __future__ import annotations

import os

from mgpu.cli.service import cron, systemd
from mgpu.cli.service.cron import Entry
from mgpu.cli.service.master_line import MasterLine, master_line
from mgpu.cli.service.systemd import Wanted
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import say
from mgpu.client import service as units
from mgpu.client import start
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any
from mgpu.wording.letters import clean

KINDS = ("systemd", "cron")
COMMANDS = {
    "install": ("mgpu.cli.service.commands:install", "Have systemd or cron see to it that a master runs."),
    "uninstall": ("mgpu.cli.service.commands:uninstall", "Take that away again; jobs run on."),
    "status": ("mgpu.cli.service.commands:status", "What is installed for this state directory."),
}
INSTALL_EXAMPLES = """
Examples:
  sudo mgpu service install systemd --run-as gpuq   for all, as that account
  mgpu service install systemd --user               in your own systemd
  mgpu service install cron                         no root, no systemd
  mgpu service install cron --tick                  no process that stays
  mgpu service install systemd --user --print       only shows the unit
"""
UNINSTALL_EXAMPLES = """
Examples:
  mgpu service uninstall systemd --user
  mgpu service uninstall cron
"""

EXAMPLES = """
Examples:
  mgpu service install systemd --user     or: cron, without systemd
  mgpu service status
  mgpu service uninstall
"""

service = Group("service", "The master as a service of this machine.", COMMANDS, examples=EXAMPLES)

_KIND = Argument("kind", "systemd|cron")
_USER = Option("--user", "", "Your own systemd, and not the machine's.", key="own")
_NAME = Option("--name", "NAME", "The unit's name (mgpu); another for a second cluster.")


@command(
    _KIND,
    _USER,
    Option("--run-as", "USER", "Whose the master is; by default whoever asks, also by sudo."),
    _NAME,
    Option("--tick", "", "cron: passes of `mgpu tick`, and no master in between."),
    Option("--print", "", "Show it, and write nothing.", key="only_show"),
    examples=INSTALL_EXAMPLES,
)
def install(
    session: Session, /, kind: str, own: bool, run_as: str | None, name: str | None, tick: bool, only_show: bool
) -> None:
    """Write, enable and start it, and say what was done and what to type next. Once more replaces what was written."""
    if check_kind(kind) == "systemd":
        if tick:
            raise bad_request("--tick is of cron", "mgpu service install cron --tick")
        install_unit(session, Wanted(name, own, run_as), only_show)
    elif own or run_as or name:
        raise bad_request("--user, --run-as and --name are of systemd", "a crontab is always your own; leave them out")
    else:
        install_lines(session, tick, only_show)


def install_unit(session: Session, wanted: Wanted, only_show: bool) -> None:
    if not only_show:
        tell(session, systemd.install(session, wanted), unit=wanted.path)
        return
    found = systemd.describe(session, wanted)
    if session.json:
        session.print_json(found)
        return
    say(f"this would be {found['path']}")
    print(clean_lines(found["text"]), end="")


def install_lines(session: Session, tick: bool, only_show: bool) -> None:
    line, location = master_line(session)
    systemd.for_whom(line)  # a configuration with faults is told now, and not to a log
    entry = Entry(line, tick)
    text = cron.render(entry)
    if only_show:
        if session.json:
            return session.print_json({"text": text})
        say("this would be at the top of your crontab")
        return print(clean_lines(text), end="")
    unit = units.unit_of(line.state_dir)
    if unit is not None:
        raise MasterError("error", f"{line.state_dir} has a service already: {unit.path}", "uninstall that first")
    before = cron.read()
    start.make_state_dir(line.state_dir)
    cron.write(cron.with_entry(before, entry))
    each = f"every {cron.ENSURE_MINUTES} minutes and at each boot a master is begun where none runs"
    lines = [f"your crontab has it: {'each minute a pass of mgpu tick' if tick else each}"]
    if not tick:
        start.ensure(location, lasting=True)
        lines.append("a master runs")
    lines += [
        f"its log: {start.log_path(line.state_dir)}",
        "how it is: mgpu service status; mgpu status",
        "after an upgrade: nothing" if tick else "after an upgrade: mgpu restart",
        "to take it away: mgpu service uninstall cron",
    ]
    return tell(session, lines, crontab=cron.lines_of(cron.read(), line.state_dir))


@command(Argument("kind", "[systemd|cron]", "?"), _USER, _NAME, examples=UNINSTALL_EXAMPLES)
def uninstall(session: Session, /, kind: str | None, own: bool, name: str | None) -> None:
    """Remove what was installed, and that alone. A master that systemd runs ends; one that cron began stays until `mgpu
    stop`."""
    kinds = [check_kind(kind)] if kind else list(KINDS)
    lines = []
    if "systemd" in kinds:
        wanted = Wanted(name, own, None)
        unit = wanted.unit()
        if unit is not None and (kind or unit.state_dir):
            lines += systemd.uninstall(wanted, unit)
        elif kind:
            hint = "look with --user too" if not own else "without --user it is the machine's"
            raise MasterError("not_found", f"there is no {wanted.path}", hint)
    if "cron" in kinds and not (own or name):
        lines += remove_lines(session, required=kind == "cron")
    if not lines:
        raise MasterError("not_found", "nothing is installed that could be removed", "mgpu service status")
    tell(session, lines)


def remove_lines(session: Session, required: bool) -> list[str]:
    line, _ = master_line(session)
    try:
        before = cron.read()
    except MasterError:
        if required:
            raise
        return []
    after = cron.without(before, line.state_dir)
    if after == before:
        if required:
            raise MasterError("not_found", f"your crontab has no lines of mgpu for {line.state_dir}", "crontab -l")
        return []
    cron.write(after)
    return ["your crontab has no lines of mgpu any more; a master that runs stays until mgpu stop"]


@command(examples="\nExample:\n  mgpu service status\n")
def status(session: Session, /) -> int:
    """Which service there is for the state directory in force. The exit status is 1 where there is none."""
    line, _ = master_line(session)
    found = [unit for unit in units.units() if os.path.realpath(unit.state_dir) == os.path.realpath(line.state_dir)]
    lines = installed_lines(line)
    if session.json:
        described = [
            {"name": unit.name, "path": unit.path, "user": unit.own, "state": unit.state() or None} for unit in found
        ]
        session.print_json({"state_dir": line.state_dir, "systemd": described, "cron": lines})
        return 0 if found or lines else 1
    for unit in found:
        print(clean(f"{unit.path}: {unit.state() or 'its state is unknown'}; log: {unit.log}"))
    for each in lines:
        print(clean(f"crontab: {each}"))
    if not found and not lines:
        print(clean(f"no service for {line.state_dir}: any command starts a master when it needs one"))
        return 1
    return 0


def installed_lines(line: MasterLine) -> list[str]:
    try:
        return cron.lines_of(cron.read(), line.state_dir)
    except MasterError:  # there is no cron, or none for this user
        return []


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise bad_request(f"{kind!r} is no kind of service", "systemd or cron")
    return kind


def clean_lines(text: str) -> str:
    return "".join(f"{clean(line)}\n" for line in text.splitlines())


def tell(session: Session, lines: list[str], **more: Any) -> None:
    if session.json:
        return session.print_json({"done": lines, **more})
    for line in lines:
        print(clean(line))
    return None
