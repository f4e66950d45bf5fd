"""The unit of systemd, as text. Pure.

Two things in it are not as one would write them for any other service. Stopping or restarting it must end nothing but
the master: what else is in its control group are jobs of this machine (KillMode, OOMPolicy). And whatever would confine
the master confines these jobs as well, whose users know nothing of it: where this machine is a node, nothing does.
PrivateTmp is never set: /tmp is where masters that do not know each other see whose a GPU is.
"""

from __future__ import annotations

from mgpu.cli.service.master_line import MasterLine
from mgpu.client.service import MARK, STATE
from mgpu.lean.typing import NamedTuple

STATE_ROOT = "/var/lib/"
READ_ONLY = ("/usr/", "/etc/", "/boot/", "/efi/")  # by ProtectSystem=full

NETWORK = """\
Wants=network-online.target
After=network-online.target remote-fs.target nss-user-lookup.target
"""
HEAD = """\
{mark}; `mgpu service uninstall` removes it.
# Changes of your own: systemctl {own}edit {name}
{state}{state_dir}
[Unit]
Description=mgpu: the queue of the GPU machines
"""
SERVICE = """\
SyslogIdentifier=mgpu
Type=notify
NotifyAccess=main
WatchdogSec=5min
TimeoutStartSec=5min
TimeoutStopSec=1min
Restart=on-failure
RestartSec=5
# a configuration with faults, a state directory of somebody else: they do not go away by trying
RestartPreventExitStatus=2 77
# nothing but the master is ended with it: jobs run on, and the next master finds them
KillMode=process
OOMPolicy=continue
UMask=0077
# the master has four threads for each node with a job, and jobs of this machine are counted with it
TasksMax=infinity
"""
# Each of them reaches the jobs of this machine too, and forbids them sudo and setuid programs (apptainer, ping).
CONFINED = """\
# this machine is no node: no job of anybody's is confined by what follows
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""
CONFINED_SYSTEM = """\
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
"""
UNCONFINED = """\
# this machine is a node: its jobs would be confined with the master, so nothing is
"""


class Facts(NamedTuple):
    """`user` whom it runs as; `own`: in the systemd of that user. `is_node`: jobs run on this machine; `shared`: it is
    for all."""

    name: str
    line: MasterLine
    user: str
    own: bool
    is_node: bool
    shared: bool = False


def render(facts: Facts) -> str:
    line = facts.line
    state_dir = line.state_dir
    parts = [
        HEAD.format(mark=MARK, own="--user " * facts.own, name=facts.name, state=STATE, state_dir=state_dir),
        "" if facts.own else _needs(line),
        "# one that cannot begin is tried for ever\nStartLimitIntervalSec=0\n\n[Service]\n",
        f"ExecStart={' '.join(map(quoted, line.words('daemon')))}\n",
        "ExecReload=/bin/kill -HUP $MAINPID\n",
        f"Environment={quoted_value(f'PYTHONPATH={line.pythonpath}')}\n" if line.pythonpath else "",
        "WorkingDirectory=/\n",
        "" if facts.own else f"User={facts.user}\n",
        _state_directory(facts),
        SERVICE,
        UNCONFINED if facts.is_node else CONFINED + ("" if facts.own else CONFINED_SYSTEM),
        f"\n[Install]\nWantedBy={'default' if facts.own else 'multi-user'}.target\n",
    ]
    return "".join(parts)


def _needs(line: MasterLine) -> str:
    """Whatever is mounted late must be there first."""
    places = dict.fromkeys(filter(None, (line.python, line.config, line.state_dir)))
    return f"{NETWORK}RequiresMountsFor={' '.join(map(quoted_value, places))}\n"


def _state_directory(facts: Facts) -> str:
    """Below /var/lib systemd makes it, for a user who may not; elsewhere the master does. Never is it read-only."""
    if facts.line.state_dir.startswith(READ_ONLY) and not facts.own and not facts.is_node:
        return f"ReadWritePaths={quoted_value(facts.line.state_dir)}\n"
    below = facts.line.state_dir.removeprefix(STATE_ROOT)
    if facts.own or below == facts.line.state_dir:
        return ""
    return f"StateDirectory={quoted_value(below)}\nStateDirectoryMode={'0711' if facts.shared else '0700'}\n"


def quoted(word: str) -> str:
    """A word of a command line: its blanks, quotes, backslashes, % and $ mean nothing."""
    return quoted_value(word).replace("$", "$$")


def quoted_value(word: str) -> str:
    """A word of a setting that is no command line."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if text and not set(text) & set(" '\"\\;#") else f'"{text}"'
