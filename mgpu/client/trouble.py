"""What ssh says when it does not get through: cause and next step in one line, from its own words and exit status.

The first line of the table that fits counts; what fits none is told in ssh's last words.
"""

from __future__ import annotations

import re

from mgpu.client.head import Head
from mgpu.client.http import NoMaster

OF_SSH = 255  # ssh's exit status for a trouble of its own
# A terminal's colours and a shell's complaints about a missing one are not what went wrong.
_NOISE = re.compile(
    r"\x1b\[[0-9;]*[A-Za-z]|^(?:stty|tput|mesg|bash: (?:cannot set|no job)|\*\* |Warning: Permanently).*$", re.M
)

# (ssh's words, what is so, what to do, whether it stays so however often it is tried)
_TABLE: tuple[tuple[str, str, str, bool], ...] = (
    (
        r"Host key for (?P<key>\S+) has changed",
        "{host} shows another host key than your known_hosts holds",
        "if it was set up anew, and only then: ssh-keygen -R {key}; else ask who runs it",
        True,
    ),
    (
        r"No .* host key is known for (?P<who>\S+) |Host key verification failed",
        "the host key of {who} is not known here",
        "log in once by hand and compare its fingerprint: {ssh}",
        True,
    ),
    (
        r"Too many authentication failures",
        "{host} hung up after too many keys were offered to it",
        "name the right one in your ssh_config: IdentityFile, with IdentitiesOnly yes",
        True,
    ),
    (
        r"(?:(?P<user>[^\s@]+)@(?P<who>\S+): )?Permission denied \((?P<ways>[^)]*)\)",
        "{who} does not let {user} in (it takes {ways})",
        "try: {ssh}; is the user right (ssh://USER@{host}), and the key in your agent (ssh-add -l)?",
        True,
    ),
    (
        r"Could not resolve hostname (?P<who>\S+?): (?P<why>[^\n]*)",
        "no machine called {who} is known ({why})",
        "look at the name in --master, MGPU_MASTER or your ssh_config, and at your network (VPN?)",
        False,
    ),
    (
        r"connect to (?:host|address) (?P<who>\S+) port (?P<port>\d+): Connection refused",
        "{who} is there, but refuses connections at port {port}",
        "is sshd running there, and is that its port? ssh://host:PORT names another",
        False,
    ),
    (
        r"connect to (?:host|address) (?P<who>\S+) port (?P<port>\d+): (?P<why>No route to host|Network is unre\w+)",
        "no way leads to {who} from here ({why})",
        "is it switched on, and are you in the right network (VPN)?",
        False,
    ),
    (
        (
            r"connect to (?:host|address) (?P<who>\S+) port (?P<port>\d+): (?:Connection|Operation) timed out"
            r"|Connection timed out during banner exchange|Timeout before authentication"
        ),
        "{host} does not answer: the connection timed out",
        "is it switched on, and does a firewall drop port {port}? A longer try: --connection-timeout",
        False,
    ),
    (
        r"stdio forwarding failed|open failed: connect failed: (?P<why>[^\n]*)",
        "the jump host does not get through to {host}",
        "see what ssh says: {ssh}",
        False,
    ),
    (
        r"Bad configuration option|configuration options|Bad owner or permissions|[^\n]*line \d+: ",
        "your ssh refuses its own settings: {last}",
        "mend your ssh_config: {ssh}",
        True,
    ),
    (
        r"Unable to negotiate|no matching ",
        "{host} and your ssh have no method in common: {last}",
        "see what ssh says: {ssh}",
        True,
    ),
    (
        r"Timeout, server \S+ not responding|Broken pipe",
        "the connection to {host} was lost",
        "",
        False,
    ),
    (
        r"kex_exchange_identification|Connection (?:closed|reset) by|banner|Connection to \S+ closed",
        "{host} hung up before it let us in",
        "its sshd is too busy, or does not want this machine; try again, or: {ssh}",
        False,
    ),
)


def explain(head: Head, said: str, status: int | None) -> NoMaster:
    """Of an ssh that ended before mgpu answered there. `said`: its stderr, and that of start-up files there."""
    said = said.replace("\r", "")
    lines = [line.strip() for line in _NOISE.sub("", said).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    by_hand = " ".join(["ssh", *(word for word in head.login if word != "--")])
    if status == OF_SSH:
        for pattern, what, hint, lasting in _TABLE:
            found = re.search(pattern, said)
            if found:
                groups = {name: value for name, value in found.groupdict().items() if value}
                words = {
                    "host": head.host,
                    "key": f"'[{head.host}]:{head.port}'" if head.port not in (0, 22) else head.host,
                    "user": head.user or "you",
                    "port": str(head.port or 22),
                    "who": head.host,
                    "why": "",
                    "last": last,
                    "ssh": by_hand,
                    **groups,
                }
                return NoMaster(what.format(**words), hint.format(**words), lasting)
        return NoMaster(f"ssh to {head.shown} failed: {last or 'it did not say why'}", f"try: {by_hand}")
    if status is not None and status < 0:
        return NoMaster(f"ssh to {head.shown} was ended by signal {-status}")
    if "dial-stdio" in said:
        return too_old(head)
    what_came = last or "it ran no command"
    what = f"{head.shown} let us in, but mgpu did not answer there: {what_came}"
    return NoMaster(what, f"try: {by_hand} mgpu status", True)


def not_found(head: Head) -> NoMaster:
    """Neither where an installation leaves its path nor in the PATH of a command that comes by ssh."""
    if head.mgpu:
        what = f"{head.mgpu} cannot be run on {head.shown}"
        return NoMaster(what, "look at ?mgpu=PATH in --master or MGPU_MASTER: is that where mgpu is there?", True)
    what = f"mgpu is not found on {head.shown}"
    hint = f"name it: ssh://{head.shown}?mgpu=PATH; or run mgpu nodes there once, which leaves its path"
    return NoMaster(what, hint, True)


def too_old(head: Head) -> NoMaster:
    what = f"the mgpu on {head.shown} is too old to be asked from another machine"
    return NoMaster(what, "install this version there too, or name another with ?mgpu=PATH", True)


def other_wire(head: Head, theirs: str, ours: str) -> NoMaster:
    what = f"the mgpu on {head.shown} is version {theirs}, this one {ours}: they do not understand each other"
    return NoMaster(what, "install the same version on both", True)
