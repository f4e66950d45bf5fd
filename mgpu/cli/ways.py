"""The ready `ssh` lines to where a job runs, for whoever asks: on the master's machine, or on another behind it."""

from __future__ import annotations

import shlex

from mgpu.client.head import Head
from mgpu.lean.typing import Any, Sequence

EXAMPLE_PORT = 8888  # Jupyter's


def ways(logins: Sequence[dict[str, Any]], head: Head | None) -> list[tuple[str, str]]:
    """(what for, line). `head` None = we are on the master's machine."""
    lines = []
    several = len(logins) > 1
    for found in logins:
        words = way(found, head)
        if words is not None:
            lines.append((f"log in {found['rank']}" if several else "log in", shlex.join(["ssh", *words])))
    first = way(logins[0], head) if logins else None
    if first is not None and first[0] != "-t":
        tunnel = ["ssh", "-N", "-L", f"{EXAMPLE_PORT}:localhost:{EXAMPLE_PORT}", *first]
        lines.append((f"port {EXAMPLE_PORT}", shlex.join(tunnel)))
    return lines


def way(login: dict[str, Any], head: Head | None) -> list[str] | None:
    """The words behind ssh; None = we are there."""
    if head is None:
        return login["here"] or None
    if not login["here"]:  # the master's machine is the node
        return [word for word in head.login if word != "--"]
    if login["there"] is None:
        return ["-t", *(word for word in head.login if word != "--"), shlex.join(["ssh", *login["here"]])]
    *hops, last = login["there"]
    port = ["-p", str(last["port"])] if last["port"] != 22 else []
    chain = [jump(head.host, head.port, head.user), *(jump(**hop) for hop in hops)]
    return ["-J", ",".join(chain), *port, f"{last['user']}@{last['host']}"]


def jump(host: str, port: int, user: str) -> str:
    """As -J takes it."""
    name = f"[{host}]" if ":" in host else host
    return (f"{user}@" if user else "") + name + (f":{port}" if port not in (0, 22) else "")
