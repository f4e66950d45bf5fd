"""The machine that a master on another machine is reached through: `ssh://[user@]host[:port][?mgpu=PATH]`, and the
command that is run there.

Any login shell may stand in between (csh, fish): what it gets is one word in single quotes, without a letter that any
of them would take for more. Ahead of what is ours come whatever start-up files print: so our first line begins with a
random word of the client's.
"""

from __future__ import annotations

import re

from mgpu.client.http import MasterError
from mgpu.lean.typing import NamedTuple

FORM = "ssh://[user@]host[:port][?mgpu=PATH]"
# Where an installation leaves its path: first its user's own master, then who installed it for all; then PATH.
# docs/decisions/2026-11-28-from-another-machine.md
LAUNCHER = ".local/state/mgpu/bin/mgpu"
LAUNCHER_OF_ALL = "/etc/mgpu/bin/mgpu"
NO_MGPU = "missing"

_URL = re.compile(
    r"ssh://(?:(?P<user>[^\s@/:?\[\]-][^\s@/:?]*(?:@[^\s@/:?]+)?)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))(?::(?P<port>[0-9]{1,5}))?/?"
    r"(?:\?mgpu=(?P<mgpu>[^?&]*))?"
)
_HARMLESS = re.compile(r"[A-Za-z0-9_./@%+,:=~ -]+")  # between double quotes, in any shell


class Head(NamedTuple):
    """`host` as ssh is asked for it; `user` "" and `port` 0: ssh's own settings. `mgpu` "" = look for it there."""

    host: str
    user: str = ""
    port: int = 0
    mgpu: str = ""

    @property
    def shown(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def login(self) -> list[str]:
        """The words that ssh takes for it."""
        port = ["-p", str(self.port)] if self.port else []
        return [*port, *(["-l", self.user] if self.user else []), "--", self.host]


def parse_head(url: str) -> Head:
    """Raises MasterError (bad_request)."""
    match = _URL.fullmatch(url)
    port = int(match["port"] or 0) if match else 0
    if match is None or not 0 <= port < 65536 or (match["port"] and not port):
        raise MasterError("bad_request", f"{url!r} is no master's address", f"write it like {FORM}")
    path = match["mgpu"]
    if path is not None and (not _HARMLESS.fullmatch(path) or path.startswith("-")):
        what = f"{path!r} is no path of mgpu that can be asked for" if path else "?mgpu= names nothing"
        raise MasterError("bad_request", what, "give a path of letters, digits, blanks and _ . / @ % + , : = ~ - alone")
    return Head(match["address"] or match["host"], match["user"] or "", port, path or "")


def remote_command(head: Head, mark: str, start: bool, silence_s: int = 0) -> str:
    """What ssh is to run. A program found there that cannot be run (a record of what was removed) is passed over.
    `silence_s`: after so many seconds without a word from us we are gone; 0 = who knows."""
    places = [f'"$HOME/{LAUNCHER}"', LAUNCHER_OF_ALL, "mgpu"]
    if head.mgpu:
        places = [f'"$HOME{head.mgpu[1:]}"' if head.mgpu.startswith("~/") else f'"{head.mgpu}"']
    options = "" if start else "--no-start "
    options += f"--silence {silence_s} " if silence_s else ""
    words = f"dial-stdio {options}{mark}"
    script = (
        f'for m in {" ".join(places)}; do command -v "$m" >/dev/null 2>&1 || continue; "$m" {words}; s=$?; '
        f'test $s = 126 || test $s = 127 || exit $s; done; echo; echo "{begin_word(mark)} {NO_MGPU}"'
    )
    return f"exec /bin/sh -c '{script}'"


def begin_word(mark: str) -> str:
    """With what the line begins that ends the noise. A shell that prints its commands prints `mark` as well."""
    return f"mgpu-{mark}"
