"""The hosts that an ssh_config names one by one: those that a person has told their ssh about already.

Only names are read here, through Include; what holds for a name is for `ssh -G` to say (sshconfig.py). A pattern, a
negation or a Match names no host.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mgpu.config.model import SshSettings
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.core.errors import ConfigError

MAX_DEPTH = 16  # of Include, as in OpenSSH
AT_ONCE = 8

_LINE = re.compile(r"\s*(?P<keyword>\w+)(?:\s*=\s*|\s+)(?P<rest>.*)")


def user_config() -> Path:
    """ssh goes by the account's home, whatever HOME says."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"


def named_hosts(file: Path) -> list[str]:
    """In the order of the file, each once; none where there is no file that can be read."""
    return list(dict.fromkeys(_names(file, file.parent, 0)))


def look_up(wanted: Iterable[SshSettings], config_file: Path | None = None) -> list[SshTarget | ConfigError]:
    """How each of them is reached, or why nobody knows."""

    def one(settings: SshSettings) -> SshTarget | ConfigError:
        try:
            return resolve(settings, config_file)
        except ConfigError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, wanted))


def _names(file: Path, folder: Path, depth: int) -> Iterator[str]:
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        match = _LINE.fullmatch(line)
        keyword = match["keyword"].lower() if match else ""
        if match is None or keyword not in ("host", "include"):
            continue
        words = _words(match["rest"])
        if keyword == "host":
            yield from (word for word in words if not re.search(r"[*?!]", word) and not word.startswith("-"))
        elif depth < MAX_DEPTH:
            for word in words:
                for included in _matching(word, folder):
                    yield from _names(included, folder, depth + 1)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote without its partner: ssh itself will say so
        return []


def _matching(pattern: str, folder: Path) -> list[Path]:
    """The files of an Include; a relative name counts from ~/.ssh, also in an included file."""
    if pattern.startswith("~/"):
        pattern = pwd.getpwuid(os.getuid()).pw_dir + pattern[1:]
    try:
        return sorted(Path("/").glob(str(folder / pattern).lstrip("/")))
    except (ValueError, NotImplementedError, OSError):
        return []
