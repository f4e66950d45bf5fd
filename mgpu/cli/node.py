"""mgpu node: act on nodes."""

from __future__ import annotations

import os
import sys

from mgpu.cli.meant import nodes_meant
from mgpu.cli.nodes import node_lines
from mgpu.cli.refusals import print_refusals
from mgpu.cli.session import Session, bad_request, node_path
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any
from mgpu.wording.figures import count, in_local_time
from mgpu.wording.letters import clean
from mgpu.wording.nodes import barred, free_words

AT_ONCE = 128  # probes that are waited for; they hold nothing in the master
PROBE_EXAMPLES = """
Examples:
  mgpu node probe gpu01
  mgpu node probe gpu[01-16] gpu20
  mgpu node probe --all
"""
TRUST_EXAMPLES = """
Examples:
  mgpu node trust gpu01                              shows the keys and asks
  mgpu node trust gpu01 --fingerprint SHA256:abc...  as its administrator said
  mgpu node trust gpu[01-16] --yes                   believes whoever answers
"""
COMMANDS = {
    "probe": ("mgpu.cli.node:probe", "Ask nodes now what they have and what runs there."),
    "add": ("mgpu.cli.membership:add", "Add a node to the inventory."),
    "remove": ("mgpu.cli.membership:remove", "Take away a node that was added."),
    "drain": ("mgpu.cli.drain:drain", "Start nothing new on nodes, or on single GPUs."),
    "resume": ("mgpu.cli.drain:resume", "Use what was drained again."),
    "down": ("mgpu.cli.node:down", "Give up the jobs that contact was lost with."),
    "clean": ("mgpu.cli.residue:clean", "Remove what is over of ours on a node."),
    "trust": ("mgpu.cli.node:trust", "Accept a node's host keys."),
}
EXAMPLES = """
Examples:
  mgpu node add gpu05; mgpu node trust gpu05
  mgpu node probe --all
  mgpu node drain gpu07:5 --reason "new fan"; mgpu node resume gpu07:5
"""

node = Group("node", "Act on nodes.", COMMANDS, {"undrain": "resume"}, EXAMPLES)


@command(
    Argument("names", "[NODE]...", "*"),
    Option("--all", "", "All nodes of the inventory.", key="everywhere"),
    examples=PROBE_EXAMPLES,
)
def probe(session: Session, /, names: tuple[str, ...], everywhere: bool) -> int:
    """Ask nodes now what they have and what runs there.

    One node is shown with its GPUs; of several, each in a line as soon as it has answered. The exit status is 1 where a
    node did not answer.
    """
    wanted = nodes_meant(session, names, everywhere)
    if not wanted:
        raise bad_request("which node?", "name one; --all means all of the inventory")
    if len(wanted) > 1:
        return probe_several(session, wanted)
    answer = probe_one(session, wanted[0])
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(node_lines([answer]))
    return int(bool(answer.get("probe_failure")))


def probe_several(session: Session, names: list[str]) -> int:
    """All at once: one that hangs keeps nobody waiting for the others."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    session.call("GET", "/v1/status")  # a master that has to be started is started here, and not by each of them
    status = 0
    refused: dict[str, MasterError] = {}
    answers: dict[str, dict[str, Any]] = {}
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        asked = {pool.submit(probe_one, session, name): name for name in names}
        for outcome in as_completed(asked):
            try:
                answer = answers[asked[outcome]] = outcome.result()
            except MasterError as error:
                if error.code == "no_master":
                    raise
                refused[asked[outcome]] = error
                continue
            status = status or int(bool(answer.get("probe_failure")))
            if not session.json:
                print(in_local_time(found(answer)), flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if session.json:
        session.print_json({"nodes": [answers[name] for name in names if name in answers]})
    in_order = {name: refused[name] for name in names if name in refused}
    return print_refusals(session, in_order) or status


def probe_one(session: Session, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = session.call("POST", f"{node_path(name)}/probe", {})
    return answer


def found(node: dict[str, Any]) -> str:
    """`gpu07: 8 GPUs: 5 free, 2 allocated, 1 external`"""
    name = clean(node["node_id"])
    if node.get("probe_failure"):
        return f"{name}: failed: {clean(node['probe_failure'])}"
    gpus = node.get("gpus") or ()
    states: dict[str, int] = {}
    for gpu in gpus:
        states[gpu["state"]] = states.get(gpu["state"], 0) + 1
    counted = ", ".join(f"{number} {clean(state)}" for state, number in states.items())
    said = f"{name}: {count(len(gpus), 'GPU')}" + (f": {counted}" if counted else "")
    if barred(node):
        said = f"{name}: {free_words(node)}"
    return said + (f"; {clean(node['reason'])}" if node.get("reason") else "")


@command(Argument("name"), Option("--yes", "", "Do not ask."), examples="\nExample:\n  mgpu node down gpu01 --yes\n")
def down(session: Session, /, name: str, yes: bool) -> int:
    """Give up the jobs that contact was lost with on a node that will not come back as it was.

    They end as a failure of the node, and those that may are run again elsewhere, although nobody knows that they have
    ended. Should the node come back, what still runs there is ended before it gets work again.
    """
    path = node_path(name)
    if not yes:
        lost = session.call("GET", f"{path}/lost")["lost"]
        jobs = f"Job{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
        if lost and not confirmed(f"{jobs} may still run there. Give up?"):
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
    """Accept the host keys that nodes show now, after comparing their fingerprints.

    Then the nodes are asked what they have.
    """
    wanted = nodes_meant(session, names, everywhere)
    if not wanted or (fingerprint and len(wanted) > 1):
        what = "which node?" if not wanted else "a fingerprint is that of one node"
        raise bad_request(what, "name one; --all means all of the inventory")
    status, told, taken = 0, list[dict[str, Any]](), list[str]()
    refused: dict[str, MasterError] = {}
    for name in wanted:
        try:
            status = trust_one(session, name, fingerprint, yes, told, taken) or status
        except MasterError as error:
            if len(wanted) == 1 or error.code == "no_master":
                raise
            refused[name] = error
    if session.json:
        session.print_json({"nodes": told} if len(wanted) > 1 or everywhere else told[0])
    elif taken:  # else `mgpu nodes` would still say that their keys are unknown
        probe_several(session, taken)
    return print_refusals(session, refused) or status


def trust_one(
    session: Session, name: str, fingerprint: str | None, yes: bool, told: list[dict[str, Any]], taken: list[str]
) -> int:
    """`told`: with --json what came of it is put there; `taken`: the node, if keys of it are trusted now."""
    path = node_path(name)
    shown = session.call("GET", f"{path}/hostkeys")
    if shown["status"] == "same" and (not fingerprint or known_by(fingerprint, shown)):
        report(session, name, 0, "its host keys are trusted already", told)
        return 0
    if shown["status"] == "changed":
        raise changed(name, shown)
    keys = [key for key in shown["keys"] if not fingerprint or key["fingerprint"] == fingerprint]
    if shown["status"] == "same":
        on_file = " ".join(dict.fromkeys(key["fingerprint"] for key in shown["known"]))
        hint = "find out who is right; mgpu node trust would change nothing"
        raise MasterError("check_failed", f"{name}: {fingerprint} is not among the keys on file, {on_file}", hint)
    if not keys:
        found = " ".join(key["fingerprint"] for key in shown["keys"]) or "no key"
        raise MasterError("not_found", f"{name} shows no such key but {found}", "do not trust it before you know why")
    if not (yes or fingerprint or agreed(name, shown)):
        report(session, name, 0, "not trusted", told)
        return 1
    answer = session.call("POST", f"{path}/trust", {"lines": [key["line"] for key in keys]})
    report(session, name, answer["trusted"], f"{count(answer['trusted'], 'host key')} trusted", told)
    taken.append(name)
    return 0


def known_by(fingerprint: str, shown: dict[str, Any]) -> bool:
    return any(key["fingerprint"] == fingerprint for key in shown["known"])


def changed(name: str, shown: dict[str, Any]) -> MasterError:
    """A changed key is never taken; both fingerprints are shown, so that somebody can find out."""
    now = " ".join(key["fingerprint"] for key in shown["keys"])
    before = " ".join(dict.fromkeys(key["fingerprint"] for key in shown["known"]))
    return MasterError(
        "not_allowed",
        f"the host keys of {name} have changed: it shows {now}, on file is {before}",
        f"it was set up anew, or another machine answers for it; if you know why: {shown['removal']} "
        f"&& mgpu node trust {name}",
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


def report(session: Session, name: str, trusted: int, text: str, told: list[dict[str, Any]]) -> None:
    if session.json:
        told.append({"node_id": name, "trusted": trusted})
    else:
        print(f"{clean(name)}: {text}")
