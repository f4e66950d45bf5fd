"""The units of systemd that `mgpu service install` wrote: where a master is a service, no client starts one beside it.

The unit itself says so, with the state directory that it is for: there is nothing beside it that could be out of date.
"""

from __future__ import annotations

import os

from mgpu.lean.typing import Any, NamedTuple

MARK = "# Written by `mgpu service install systemd`"
STATE = "# state directory: "
PREFIX = "mgpu"  # of all names
SYSTEM_FOLDER = "/etc/systemd/system"
COMING = ("active", "activating", "reloading", "deactivating")  # as a restart goes through them
ANSWER_S = 10.0


class Unit(NamedTuple):
    """`own`: of the user's own systemd. `state_dir` "" = the file is not one of ours."""

    name: str
    path: str
    own: bool
    state_dir: str

    def systemctl(self, *words: str) -> list[str]:
        return ["systemctl", *(["--user"] if self.own else []), *words, self.name]

    @property
    def how_to_start(self) -> str:
        return " ".join([*(["sudo"] if not self.own and os.getuid() else []), *self.systemctl("start")])

    @property
    def log(self) -> str:
        return f"journalctl {'--user ' if self.own else ''}-u {self.name}"

    def state(self) -> str:
        """active, inactive, failed, ...; "" = nobody can say."""
        import subprocess

        argv: Any = self.systemctl("is-active")
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip()


def user_folder() -> str:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "systemd/user")


def read(name: str, own: bool) -> Unit | None:
    """None = there is no such file."""
    path = os.path.join(user_folder() if own else SYSTEM_FOLDER, f"{name}.service")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return Unit(name, path, own, "") if os.path.lexists(path) else None
    ours = bool(lines) and lines[0].startswith(MARK)
    found = next((line[len(STATE) :] for line in lines if line.startswith(STATE)), "") if ours else ""
    return Unit(name, path, own, found)


def units() -> list[Unit]:
    """All of ours that this user sees."""
    found = []
    for own in (True, False):
        try:
            names = sorted(os.listdir(user_folder() if own else SYSTEM_FOLDER))
        except OSError:
            continue
        ours = (name for name in names if name.startswith(PREFIX) and name.endswith(".service"))
        read_ones = (read(name[: -len(".service")], own) for name in ours)
        found += [unit for unit in read_ones if unit is not None and unit.state_dir]
    return found


def unit_of(state_dir: str) -> Unit | None:
    """Whose master that directory's is."""
    real = os.path.realpath(state_dir)
    return next((unit for unit in units() if os.path.realpath(unit.state_dir) == real), None)
