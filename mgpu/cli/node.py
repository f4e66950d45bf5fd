"""mgpu node: act on one node."""

from __future__ import annotations

import os
import sys

from mgpu.cli.nodes import node_lines
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import clean, count, say
from mgpu.client.http import MasterError, quote
from mgpu.lean_typing import Any

TRUST_EXAMPLES = """
Examples:
  mgpu node trust gpu01                              shows the keys and asks
  mgpu node trust gpu01 --fingerprint SHA256:abc...  as told by the node's administrator
  mgpu node trust gpu[01-16] --yes                   believes whoever answers there
"""
COMMANDS = {
    "probe": ("mgpu.cli.node:probe", "Ask a node now what it has and what runs there."),
    "add": ("mgpu.cli.membership:add", "Add a node to the inventory."),
    "remove": ("mgpu.cli.membership:remove", "Take away a node that was added."),
    "drain": ("mgpu.cli.drain:drain", "Start nothing new on nodes, or on single GPUs."),
    "resume": ("mgpu.cli.drain:resume", "Use what was drained again."),
    "down": ("mgpu.cli.node:down", "Give up the jobs that contact was lost with."),
    "clean": ("mgpu.cli.residue:clean", "Remove what is over of ours on a node."),
    "trust": ("mgpu.cli.node:trust", "Accept a node's host keys."),
}


node = Group("node", "Act on nodes.", COMMANDS)


@command(Argument("name"), examples="\nExample:\n  mgpu node probe gpu01\n")
def probe(session: Session, /, name: str) -> None:
    """Ask a node now what it has and what runs there, and show it."""
    answer = session.call("POST", f"/v1/nodes/{quote(name)}/probe", {})
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(node_lines([answer]))


@command(Argument("name"), Option("--yes", "", "Do not ask."), examples="\nExample:\n  mgpu node down gpu01 --yes\n")
def down(session: Session, /, name: str, yes: bool) -> int:
    """Give up the jobs that contact was lost with on a node that will not come back as it was.

    They end as a failure of the node, and those that may are run again elsewhere, although nobody knows that they have
    ended. Should the node come back, what still runs there is ended before it gets work again.
    """
    path = f"/v1/nodes/{quote(name)}"
    if not yes:
        lost = session.call("GET", f"{path}/lost")["lost"]
        if lost and not confirmed(f"Jobs {', '.join(map(str, lost))} may still run there. Give them up?"):
            say("nothing given up")
            return 1
    answer = session.call("POST", f"{path}/down", {})
    if session.json:
        session.print_json(answer)
    else:
        ids = ", ".join(map(str, answer["given_up"]))
        print(f"{clean(name)}: given up: {ids}; each may run twice, or may have")
    return 0


@command(
    Argument("names", "[NODE]...", "*"),
    Option("--all", "", "All nodes of the inventory.", key="everywhere"),
    Option("--fingerprint", "SHA256:...", "Accept only the key with this fingerprint."),
    Option("--yes", "", "Accept without asking."),
    examples=TRUST_EXAMPLES,
)
def trust(session: Session, /, names: tuple[str, ...], everywhere: bool, fingerprint: str | None, yes: bool) -> int:
    """Accept the host keys that nodes show now, after comparing their fingerprints."""
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand

    try:
        wanted = list(dict.fromkeys(each for name in names for each in expand(name)))
        if everywhere:
            wanted = [node["node_id"] for node in session.call("GET", "/v1/nodes")["nodes"]]
    except RequestError as error:
        raise MasterError(error.code, error.message, error.hint, error.exit_code) from error
    if not wanted or (fingerprint and len(wanted) > 1):
        what = "which node?" if not wanted else "a fingerprint is that of one node"
        raise bad_request(what, "name one; --all means all of the inventory")
    status = 0
    for name in wanted:
        try:
            status = trust_one(session, name, fingerprint, yes) or status
        except MasterError as error:
            if len(wanted) == 1 or error.code == "no_master":
                raise
            status = error.exit_code
            session.print_error(error)
    return status


def trust_one(session: Session, name: str, fingerprint: str | None, yes: bool) -> int:
    path = f"/v1/nodes/{quote(name)}"
    shown = session.call("GET", f"{path}/hostkeys")
    if shown["status"] == "same":
        report(session, name, 0, "its host keys are trusted already")
        return 0
    if shown["status"] == "changed":
        raise changed(name, shown)
    keys = [key for key in shown["keys"] if not fingerprint or key["fingerprint"] == fingerprint]
    if not keys:
        found = " ".join(key["fingerprint"] for key in shown["keys"]) or "no key"
        raise MasterError("not_found", f"{name} shows no such key but {found}", "do not trust it before you know why")
    if not (yes or fingerprint or agreed(name, shown)):
        say("not trusted")
        return 1
    answer = session.call("POST", f"{path}/trust", {"lines": [key["line"] for key in keys]})
    report(session, name, answer["trusted"], f"{count(answer['trusted'], 'host key')} trusted")
    return 0


def changed(name: str, shown: dict[str, Any]) -> MasterError:
    """A changed key is never taken; both fingerprints are shown, so that somebody can find out."""
    now = " ".join(key["fingerprint"] for key in shown["keys"])
    before = " ".join(key["fingerprint"] for key in shown["known"])
    return MasterError(
        "not_allowed",
        f"the host keys of {name} have changed: it shows {now}, on file is {before}",
        "it was set up anew, or another machine answers for it; if you know why, remove the old line: ssh-keygen -R",
    )


def agreed(name: str, shown: dict[str, Any]) -> bool:
    """Asks on the terminal."""
    if not (os.isatty(0) and os.isatty(2)):
        raise bad_request("nobody is there to compare fingerprints", "give --fingerprint SHA256:..., or --yes")
    print(f"{clean(name)} at {clean(shown.get('address'))} shows:", file=sys.stderr)
    for key in shown["keys"]:
        print(f"  {clean(key['fingerprint'])}  {clean(key['type'])}", file=sys.stderr)
    return asked("Trust these keys?")


def confirmed(question: str) -> bool:
    """Asks on the terminal; without one, --yes has to say it."""
    if not (os.isatty(0) and os.isatty(2)):
        raise bad_request(question, "nobody is there to answer: give --yes")
    return asked(question)


def asked(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def report(session: Session, name: str, trusted: int, text: str) -> None:
    if session.json:
        session.print_json({"node_id": name, "trusted": trusted})
    else:
        print(f"{clean(name)}: {text}")
