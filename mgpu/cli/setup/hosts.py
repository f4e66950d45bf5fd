"""Which hosts become nodes: what ssh_config names, what speaks against some of it, and what the user says."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from mgpu.cli.session import bad_request, refusal
from mgpu.cli.text import say, table
from mgpu.client.http import MasterError
from mgpu.config import SshSettings, SshTarget
from mgpu.config.sshhosts import look_up, named_hosts, user_config
from mgpu.config.values import NAME
from mgpu.core.errors import ConfigError, RequestError
from mgpu.core.hostlist import expand, fold
from mgpu.lean.typing import Iterable, Sequence
from mgpu.wording.letters import cut

LOCAL = "localhost"
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
WIDTH = 60
MOST = 1000


class Reach(NamedTuple):
    """How ssh gets to a host. `via`: in words, "" = straight."""

    user: str
    host: str
    port: int
    via: str


class Host(NamedTuple):
    """`user` "" = ssh_config's. `reach` None = not known, or this machine. `against`: why it is not taken unless it is
    named."""

    name: str
    user: str = ""
    reach: Reach | None = None
    against: str = ""

    @property
    def local(self) -> bool:
        return self.name == LOCAL

    @property
    def login(self) -> str:
        """As one would type it after ssh."""
        return f"{self.user}@{self.name}" if self.user else self.name


def listed() -> list[Host]:
    """The hosts of the user's ssh_config."""
    names = named_hosts(user_config())
    return judged(names, look_up(map(SshSettings, names)))


def judged(names: Sequence[str], found: Sequence[SshTarget | ConfigError]) -> list[Host]:
    """With what speaks against them. `found` goes in step with `names`."""
    targets = {name: each for name, each in zip(names, found, strict=True) if isinstance(each, SshTarget)}
    first: dict[object, str] = {}
    hosts = []
    for name, each in zip(names, found, strict=True):
        if isinstance(each, ConfigError):
            hosts.append(Host(name, against=each.message))
            continue
        twin = first.setdefault((each.host, each.port, each.hops, each.proxy_command), name)
        against = _against(name, each, targets)
        if not against and twin != name:
            against = f"the same machine as {twin}"
        hosts.append(_host(name, "", each)._replace(against=against))
    return hosts


def _against(name: str, target: SshTarget, all_targets: dict[str, SshTarget]) -> str:
    if not NAME.fullmatch(name):
        return "no name for a node: letters, digits and . _ - only"
    if target.user == "git":
        return "logs in as git: no machine to run jobs on"
    behind = [
        other
        for other, way in all_targets.items()
        if any((hop.host, hop.port) == (target.host, target.port) for hop in way.hops)
        or name in way.proxy_command.split()
    ]
    return f"the way to {cut(fold(behind), WIDTH)}" if behind else ""


def _host(name: str, user: str, target: SshTarget) -> Host:
    via = ", then ".join(hop.host for hop in target.hops) or ("a ProxyCommand" if target.proxy_command else "")
    return Host(name, user, Reach(target.user, target.host, target.port, via))


def looked_up(words: Iterable[str]) -> list[Host]:
    """The hosts that are named, each once. Raises MasterError for a word that names none."""
    names: list[str] = []
    try:
        for word in words:
            names += expand(word)
    except RequestError as error:
        raise refusal(error) from error
    if len(names) > MOST:
        raise bad_request(
            f"{len(names)} hosts are named, init takes {MOST}", "write the inventory by hand: ranges make it short"
        )
    split = [(name.rpartition("@")[2], name.rpartition("@")[0]) for name in dict.fromkeys(names)]
    for name, user in split:
        if not NAME.fullmatch(name) or not (USER.fullmatch(user) or not user):
            hint = "give it such a name in ~/.ssh/config: Host, HostName"
            raise bad_request(f"{name!r} cannot be a node's name: letters, digits and . _ - only, at most 63", hint)
    twice = [name for number, (name, _) in enumerate(split) if name in dict(split[:number])]
    if twice:
        raise bad_request(f"{twice[0]} is named with two logins", "a node has one")
    found = look_up(SshSettings(name, user=user or None) for name, user in split)
    return [_named(name, user, target) for (name, user), target in zip(split, found, strict=True)]


def _named(name: str, user: str, found: SshTarget | ConfigError) -> Host:
    if name == LOCAL:
        return Host(LOCAL)
    if isinstance(found, ConfigError):
        raise bad_request(found.message, "mend ~/.ssh/config, or leave it out")
    return _host(name, user, found)


# --- asking ---------------------------------------------------------------------------------------------------------


def choose(hosts: Sequence[Host]) -> list[Host]:
    """Asks on the terminal. Raises MasterError when nothing is chosen."""
    usual = [host.name for host in hosts if not host.against]
    for line in lines_of(hosts):
        print(line, file=sys.stderr)
    default = f"Enter = {cut(fold(usual), WIDTH)}; or their " if usual else "Their "
    while True:
        print(f"Which of them become nodes? {default}names, also others: gpu[01-04] login2", file=sys.stderr)
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise bad_request("nothing was chosen, nothing was written", "name the hosts: mgpu init HOST...")
        words = re.sub(r"\s*,\s*", ",", line.strip()).split()
        if words in (["n"], ["no"], ["none"]):
            raise bad_request("nothing was chosen, nothing was written", "name the hosts: mgpu init HOST...")
        if words in ([], ["all"], ["y"], ["yes"]):
            words = usual
        try:
            chosen = looked_up(words)
        except MasterError as error:
            say(error.told)
            continue
        if chosen:
            return chosen


def lines_of(hosts: Iterable[Host]) -> list[str]:
    """A line for those that differ in their name alone."""
    groups: dict[object, list[Host]] = {}
    for host in hosts:
        groups.setdefault((how(host), host.against), []).append(host)
    rows = []
    for group in groups.values():
        names = fold(host.name for host in group)
        rows.append((cut(names, WIDTH), where(group), f"left out: {group[0].against}" if group[0].against else ""))
    return table(("HOST", "WHERE", ""), rows, shrink=((2, 10), (1, 10), (0, 10)), indent="  ")


def how(host: Host) -> object:
    """What hosts of one entry have in common."""
    return (host.local, host.user, host.reach and host.reach._replace(host=""))


def where(group: Sequence[Host]) -> str:
    """In words, of hosts that are alike."""
    reach = group[0].reach
    if reach is None:
        return "this machine" if group[0].local else ""
    hosts = cut(fold(host.reach.host for host in group if host.reach), WIDTH)
    port = f":{reach.port}" if reach.port != 22 else ""
    return f"{reach.user}@{hosts}{port}" + (f" through {reach.via}" if reach.via else "")
