"""mgpu enroll: a user lets the master run jobs under the user's own accounts on the nodes, and sees that it works."""

from __future__ import annotations

import os
import subprocess

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say, table
from mgpu.cli.ways import way
from mgpu.client.http import quote
from mgpu.lean.typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgpu.client.head import Head

EXAMPLES = """
Examples:
  mgpu enroll                          what is to be done, and where it is done
  mgpu enroll --install                your own ssh puts the line onto all nodes
  mgpu enroll gpu[01-04] --install     onto these
  mgpu enroll --print >>~/.ssh/authorized_keys    one home on all nodes
"""
_SSH = ("ClearAllForwardings=yes", "ForwardAgent=no", "PermitLocalCommand=no", "RemoteCommand=none", "LogLevel=ERROR")
_STRANGE = frozenset(' "\\\n')


@command(
    Argument("nodes", "[NODE]...", "*"),
    Option("--install", "", "Your own ssh puts the line onto the nodes."),
    Option("--print", "", "Print the line alone.", key="line_only"),
    Option("--from", "PATTERN", "The master may come from there only, as in from= of authorized_keys.", key="origin"),
    examples=EXAMPLES,
)
def enroll(session: Session, /, nodes: tuple[str, ...], install: bool, line_only: bool, origin: str | None) -> int:
    """Let the master run your jobs under your own accounts on the nodes, where it is set up so.

    It logs in there by a key of its own, which it keeps for just that. One line in your ~/.ssh/authorized_keys of each
    node lets it: for commands alone, without terminals or forwarding. --install has your own ssh write it, with
    whatever way to log in you have; a password is asked by ssh. Then each node is tried by the master, one line each;
    the exit status is 1 if one cannot be entered. To take it back, remove the line.
    """
    names = ",".join(nodes)
    told = session.call("GET", f"/v1/enroll?nodes={quote(names)}")
    line = _limited(told["line"], origin)
    if line_only:
        if not line:
            raise bad_request("there is no line to print: the master becomes you by sudo", "mgpu enroll tries it")
        print(line)
        return 0
    tried = _tried(session, names)
    if install and line:
        failed = {row["node"] for row in tried if not row["ok"]}
        _install([node for node in told["nodes"] if node["node"] in failed], line, session.head())
        tried = _tried(session, names) if failed else tried
    if session.json:
        session.print_json({"line": line, "nodes": tried})
    else:
        _show(tried, line)
    return int(not all(row["ok"] for row in tried))


def _tried(session: Session, names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = session.call("POST", "/v1/enroll", {"nodes": names})["nodes"]
    return rows


def _limited(line: str, origin: str | None) -> str:
    if not origin:
        return line
    if not origin.isprintable() or _STRANGE & set(origin):
        raise bad_request(f"--from {origin!r} is no pattern", "give addresses or names, like 10.0.0.5 or 10.0.0.0/24")
    return f'from="{origin}",{line}' if line else ""


def _show(rows: list[dict[str, Any]], line: str) -> None:
    print("\n".join(table(("NODE", "LOGIN", ""), [[row["node"], row["login"], row["why"] or "ok"] for row in rows])))
    if line and not all(row["ok"] for row in rows):
        say("mgpu enroll --install has your ssh put this line into ~/.ssh/authorized_keys there; or do it by hand:")
        print(line)


def _install(nodes: list[dict[str, Any]], line: str, head: Head | None) -> None:
    """One after the other, since ssh may ask."""
    from mgpu.cli.setup.key import INSTALL

    options = [word for each in _SSH for word in ("-o", each)]
    if not os.isatty(2):
        options += ["-o", "BatchMode=yes"]
    for node in nodes:
        words = way(node, head)
        if words is None or words[0] == "-t":
            say(f"{node['node']}: no way there for your ssh from here: run it on the master's machine")
            continue
        say(f"{node['node']}: ssh {' '.join(words)}")
        done = subprocess.run(
            ["ssh", "-T", *options, *words, INSTALL], input=f"{line}\n".encode(), stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            say(f"{node['node']}: the line was not installed: ssh ended with status {done.returncode}")
