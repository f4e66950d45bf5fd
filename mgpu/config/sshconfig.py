"""How to reach a node, as OpenSSH itself would: `ssh -G` reads the user's ssh_config with its Include and Match.

The inventory's settings win over ssh_config, which wins over OpenSSH's defaults. A ProxyJump chain is resolved hop by
hop with the same program, since each hop has settings of its own.

`ssh -G` prints IdentityFile and ProxyCommand as written, with `~`, `%h`, `${NAME}` in them: those are expanded here.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from mgpu.config.model import SshSettings
from mgpu.core.errors import ConfigError

TIMEOUT_S = 10
MAX_HOPS = 8

_HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^\s@/:-][^\s@/:]*(?:@[^\s@/:]+)?)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))(?::(?P<port>[0-9]{1,5}))?"
)
_HARMLESS = re.compile(r"[A-Za-z0-9_.:@%+-]*")  # in a shell word; goes into the user's own ProxyCommand
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")


@dataclass(frozen=True, slots=True)
class SshTarget:
    """All that is needed to connect. `hops` come outermost first and have none themselves.

    `identity_files` need not exist. `host_key_alias` "" = the key is looked up by `host`. `proxy_command` "" = none; it
    is a line for the user's shell. `identity_agent` "" = $SSH_AUTH_SOCK, "none" = no agent, else a socket.
    """

    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    hops: tuple[SshTarget, ...] = ()
    proxy_command: str = ""
    identity_agent: str = ""


def resolve(settings: SshSettings, config_file: Path | None = None) -> SshTarget:
    """Runs `ssh -G` for the node and for each hop. `config_file` stands in for the user's and the system's ssh_config.

    Blocks for TIMEOUT_S seconds a hop at most. Raises ConfigError with one line, ssh's own words in it.
    """
    return _resolve(settings, config_file, ())


def parse_jump(text: str) -> list[SshSettings]:
    """`a,user@b:2222` -> its hops; `none` -> []. Raises ValueError."""
    return [] if text.lower() == "none" else [_hop(word.strip()) for word in text.split(",")]


def _hop(word: str) -> SshSettings:
    match = _HOP.fullmatch(word)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        raise ValueError(f"{word!r} is no hop: write it like host or user@host:port")
    return SshSettings(match["address"] or match["host"], port, match["user"])


def _resolve(settings: SshSettings, config_file: Path | None, above: tuple[SshSettings, ...]) -> SshTarget:
    name = settings.name or settings.host
    if not name or name.startswith("-") or re.search(r"\s", name):
        raise ConfigError([f"{name!r} is no host name that ssh could be asked for"])
    if settings in above or len(above) > MAX_HOPS:
        raise ConfigError([f"ssh to {above[0].host}: ProxyJump runs in a circle at {name}"])
    said = _ask(_command(settings, name, config_file), name)
    target = _fallback(settings) if said is None else _target(settings, name, said)
    chain = (settings.proxy_jump if said is None else _first(said, "proxyjump")) or "none"
    return replace(target, hops=_hops(parse_jump(chain), config_file, (*above, settings)))


def _hops(chain: list[SshSettings], config_file: Path | None, above: tuple[SshSettings, ...]) -> tuple[SshTarget, ...]:
    """The last hop is reached through those before it; the first by its own ssh_config, which may name more."""
    if not chain:
        return ()
    before = _chain(chain[:-1]) or None
    last = _resolve(replace(chain[-1], proxy_jump=before), config_file, above)
    return (*last.hops, replace(last, hops=()))


def _chain(hops: list[SshSettings]) -> str:
    """parse_jump's way back."""
    return ",".join(
        (f"{hop.user}@" if hop.user else "")
        + (f"[{hop.host}]" if ":" in hop.host else hop.host)
        + (f":{hop.port}" if hop.port else "")
        for hop in hops
    )


def _command(settings: SshSettings, name: str, config_file: Path | None) -> list[str]:
    """What the inventory says goes in as options, so that Match blocks judge by it."""
    command = ["ssh"]
    if config_file is not None:
        command += ["-F", str(config_file)]
    if settings.port is not None:
        command += ["-p", str(settings.port)]
    if settings.user is not None:
        command += ["-l", settings.user]
    if settings.host != name:
        command += ["-o", "HostName=" + settings.host.replace("%", "%%")]
    if settings.proxy_jump is not None:
        chain = _chain(parse_jump(settings.proxy_jump)) or "none"
        command += ["-o", f"ProxyJump={chain}", "-o", "ProxyCommand=none"]
    return [*command, "-T", "-G", "--", name]


def _ask(command: list[str], name: str) -> dict[str, list[str]] | None:
    """ssh's answer: keyword (lower case) -> values in order. None = there is no ssh program."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise ConfigError([f"ssh -G {name}: no answer in {TIMEOUT_S} s: a slow Match exec in ssh_config?"]) from None
    if done.returncode != 0:
        words = " ".join(os.fsdecode(done.stderr).split()) or f"exit status {done.returncode}"
        raise ConfigError([f"ssh -G {name}: {words}"])
    said: dict[str, list[str]] = {}
    for line in os.fsdecode(done.stdout).splitlines():
        keyword, _, value = line.partition(" ")
        said.setdefault(keyword.lower(), []).append(value)
    return said


def _first(said: dict[str, list[str]], keyword: str) -> str:
    return said.get(keyword, [""])[0]


def _target(settings: SshSettings, name: str, said: dict[str, list[str]]) -> SshTarget:
    host, user, port = _first(said, "hostname"), _first(said, "user"), int(_first(said, "port"))
    tokens = _tokens(host, user, port, name, _first(said, "hostkeyalias"))
    keys = [settings.identity_file] if settings.identity_file else None
    if keys is None:
        keys = [Path(_expand(file, tokens)) for file in said.get("identityfile", []) if file.lower() != "none"]
    known = [settings.known_hosts] if settings.known_hosts else _files(_first(said, "userknownhostsfile"))
    agent, command = _first(said, "identityagent"), _first(said, "proxycommand")
    return SshTarget(
        host=host,
        port=port,
        user=user,
        identity_files=tuple(keys),
        identities_only=_first(said, "identitiesonly") == "yes",
        known_hosts=(*known, *_files(_first(said, "globalknownhostsfile"))),
        host_key_alias=_first(said, "hostkeyalias"),
        proxy_command="" if command.lower() in ("", "none") else _proxy_command(command, tokens),
        identity_agent="" if agent == "SSH_AUTH_SOCK" else _expand(agent, tokens),
    )


def _fallback(settings: SshSettings) -> SshTarget:
    """Without an ssh program: the inventory's word and OpenSSH's defaults."""
    folder = Path(_account().pw_dir) / ".ssh"
    keys = (settings.identity_file,) if settings.identity_file else tuple(folder / key for key in _DEFAULT_KEYS)
    return SshTarget(
        host=settings.host,
        port=settings.port or 22,
        user=settings.user or _account().pw_name,
        identity_files=keys,
        known_hosts=(settings.known_hosts or folder / "known_hosts", Path("/etc/ssh/ssh_known_hosts")),
    )


def _account() -> pwd.struct_passwd:
    return pwd.getpwuid(os.getuid())


def _tokens(host: str, user: str, port: int, name: str, alias: str) -> dict[str, str]:
    local, account = socket.gethostname(), _account()
    return {
        "%": "%",
        "d": account.pw_dir,
        "h": host,
        "i": str(account.pw_uid),
        "k": alias or name,
        "L": local.split(".")[0],
        "l": local,
        "n": name,
        "p": str(port),
        "r": user,
        "u": account.pw_name,
    }


def _expand(text: str, tokens: dict[str, str]) -> str:
    """`~`, `%h` and `${NAME}` in the name of a file; what is unknown stays as it is."""
    if text == "~" or text.startswith("~/"):
        text = tokens["d"].replace("%", "%%") + text[1:]
    text = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match[1], match[0]).replace("%", "%%"), text)
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _proxy_command(command: str, tokens: dict[str, str]) -> str:
    """The user's own shell line with %h and the like filled in, each only if no shell could take it for more."""

    def value(match: re.Match[str]) -> str:
        word = tokens.get(match[1], match[0])
        if not _HARMLESS.fullmatch(word):
            raise ConfigError([f"ssh_config: ProxyCommand: {word!r} for %{match[1]} is not safe in a shell"])
        return word

    return re.sub(r"%(.)", value, command)


def _files(text: str) -> list[Path]:
    """The list as `ssh -G` prints it: names with blanks stand unquoted, but each name is absolute by then."""
    names = re.split(r"\s+(?=/)", text.strip())
    return [Path(name) for name in names if name and name.lower() != "none"]
