#!/usr/bin/env python3
"""Stands where `systemctl --user` would, for one unit: begins what ExecStart says, waits for READY=1, ends its main
process alone. What it knows stands in $HOME/unit.json."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import sleep

HOME = Path(os.environ["HOME"])
KNOWN = HOME / "unit.json"
PATIENCE_S = 60


def settings() -> dict[str, str]:
    text = (HOME / ".config/systemd/user/mgpu.service").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def words(line: str) -> list[str]:
    """Of paths that hold nothing special."""
    return [found.strip('"') for found in re.findall(r'"[^"]*"|[^ ]+', line)]


def state() -> dict[str, object]:
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {"state": "inactive", "pid": 0}


def tell(what: str, pid: int) -> None:
    made = KNOWN.with_suffix(".new")
    made.write_text(json.dumps({"state": what, "pid": pid}))
    made.replace(KNOWN)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop() -> None:
    pid = int(str(state()["pid"]))
    if pid and lives(pid):
        tell("deactivating", pid)
        os.kill(pid, signal.SIGTERM)
        while lives(pid):
            sleep(0.02)
    tell("inactive", 0)


def start() -> int:
    unit = settings()
    tell("activating", 0)
    place = HOME / "notify"
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(place))
        listener.settimeout(PATIENCE_S)
        environ = {"HOME": str(HOME), "PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": str(place)}
        environ.update([unit["Environment"].strip('"').split("=", 1)] if "Environment" in unit else [])
        with (HOME / "journal").open("ab") as journal:
            process = subprocess.Popen(
                words(unit["ExecStart"]),
                env=environ,
                cwd=unit["WorkingDirectory"],
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        while b"READY=1" not in listener.recv(1000):
            pass
    tell("active", process.pid)
    return 0


def main() -> int:
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    if asked[0] == "is-active":
        print(state()["state"])
        return 0
    if asked[0] in ("restart", "stop", "disable"):
        stop()
    return start() if asked[0] in ("restart", "start") else 0


if __name__ == "__main__":
    sys.exit(main())
