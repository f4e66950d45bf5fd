"""mgpu_node: there is no agent any more. It puts this machine into the master's inventory, by the master's own hand,
has the master look at it over SSH, and says what that saw, or why it cannot get in and what to do."""

from __future__ import annotations

import ipaddress
import os
import time

from mgpu import clock
from mgpu.cli.node import changed, found
from mgpu.cli.older import machine
from mgpu.cli.session import Session, bad_request, check_name, node_path
from mgpu.cli.syntax import Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError, NoMaster
from mgpu.client.option import FROM_0, PORTS
from mgpu.client.place import patience
from mgpu.endpoint import boot_id, is_loopback
from mgpu.lean.typing import Any, NamedTuple
from mgpu.wording.figures import count
from mgpu.wording.letters import clean

TAKEN_UP_S = 60.0
CHANGE_S = 5.0  # for what may as well never have been there
AGAIN_S = 0.2
LEAVING = "the master is stopping"
NO_ADDRESS = ("0.0.0.0", "::")  # where the former agent listened, which says nothing
EXAMPLES = """
Examples:
  mgpu_node --node-id node001 --master-host head --master-port 8080
  mgpu_node --node-id node001 --master-host 127.0.0.1 --gpu-count 1
  mgpu_node --node-id node002 --master-host head --host 10.0.0.12

It returns: nothing stays behind here. The master logs in by SSH as it would to
any node, so its key has to be in ~/.ssh/authorized_keys here. Before, once:
mgpu token save and mgpu token trust, as docs/remote.md has it.
"""


class Place(NamedTuple):
    """Where the master finds this machine: as the inventory has it."""

    key: str  # hostname, ip or connection
    value: str
    how: str = ""


@command(
    Option("--node-id", "NAME", "The name of this machine in the inventory (its host name)."),
    Option("--master-host", "H", "The master's machine; default: the master that commands go to."),
    Option("--master-port", "P", "Its port (8080).", whole=PORTS),
    Option("--host", "ADDR", "The address or name of this machine, if not what is found.", key="address"),
    Option("-p --port", "P", "Of the former agent: means nothing now.", key="agent_port", whole=PORTS),
    Option("--gpu-count", "G", "How many GPUs (default: all that nvidia-smi shows).", whole=FROM_0),
    Option("--ssh-user", "LOGIN", "The account that the master logs in to; default: as its ssh has it."),
    Option("--ssh-port", "P", "The port of the sshd here, if not 22.", whole=PORTS),
    examples=EXAMPLES,
)
def mgpu_node(session: Session, /, **given: Any) -> int:
    """Register this machine as a node of the master, and have the master look at it.

    No agent is started: the master reaches its nodes by SSH. Again, after a change of address, it brings the inventory
    up to date.
    """
    if given["master_host"] or given["master_port"]:
        session.master_at = (given["master_host"] or "", str(given["master_port"] or ""))
    if given["agent_port"]:
        say("--port was that of the former agent: it means nothing now, and --ssh-port is that of the sshd here")
    name = check_name(given["node_id"] or _own_name())
    place = find_place(session, given)
    gpus = machine.gpus()
    body = {"node_id": name, place.key: place.value, **gpu_keys(gpus, given["gpu_count"]), "instead": True}
    body |= {key: given[f"ssh_{key}"] for key in ("user", "port") if given[f"ssh_{key}"]}
    if not session.json:
        tell_what_is_here(session, place, gpus)
    file = register(session, name, body, place)
    node = looked_at(session, name, place)
    if session.json:
        session.print_json({"file": file, **node})
    elif not node.get("probe_failure"):
        print(f"The master sees {found(node)}")
    return confirm(session, name, node, gpus)


def _own_name() -> str:
    import socket

    return socket.gethostname().partition(".")[0]


# --- what is here ---------------------------------------------------------------------------------------------------


def find_place(session: Session, given: dict[str, Any]) -> Place:
    """Raises MasterError where no address is found."""
    said = given["address"]
    master, port = session.master_at
    by_ssh = session.head()
    away = by_ssh.host if by_ssh is not None else session.elsewhere()
    here = not away or is_loopback(away)
    if said and said not in NO_ADDRESS and not is_loopback(said):
        return Place(_kind(said), said)
    if here:
        if away:
            _require_this_machine(session, away)
        return Place("connection", "local")
    if said and is_loopback(said):
        raise bad_request(f"--host {said}: by that the master at {away} finds itself", "leave it out, or give another")
    candidates = machine.addresses(master or away, int(port or 0))
    first = next(candidates, None)
    if first is None:
        raise bad_request("no address of this machine was found", "--host names one that the master reaches")
    if session.verbose:
        for address, how in (first, *candidates):
            say(f"an address of this machine: {address} ({how})")
    return Place("ip", *first)


def _require_this_machine(session: Session, away: str) -> None:
    """Behind a forwarded port the master is another machine's: that one would become the node. Raises MasterError."""
    there, here = session.call("GET", "/v1/status").get("boot_id"), boot_id()
    if there and here and there != here:
        what = f"the master at {away} runs on another machine, behind a forwarded port"
        raise bad_request(what, "--host gives the address by which it reaches this one")


def _kind(address: str) -> str:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return "hostname"
    return "ip"


def gpu_keys(gpus: machine.Gpus, wanted: int | None) -> dict[str, Any]:
    """Fewer than there are: the first of them alone belong to mgpu, as it was there."""
    if wanted is None:
        return {"gpu_count": len(gpus.rows)} if gpus.rows else {}
    keys: dict[str, Any] = {"gpu_count": wanted}
    if 0 < wanted < len(gpus.rows):
        keys["devices"] = [index for index, _, _ in gpus.rows[:wanted]]
    return keys


def tell_what_is_here(session: Session, place: Place, gpus: machine.Gpus) -> None:
    how = f" ({place.how})" if place.how else ""
    where = "the master's own, without SSH" if place.key == "connection" else f"{place.value}{how}"
    seen = f"{count(len(gpus.rows), 'GPU')}" if gpus.rows else f"no GPUs: {gpus.why}"
    print(clean(f"This machine: {where}; {seen}"))
    for index, name, memory in gpus.rows:
        print(clean(f"  GPU {index}: {name} ({memory} MiB)"))


# --- the inventory --------------------------------------------------------------------------------------------------


def register(session: Session, name: str, body: dict[str, Any], place: Place) -> str:
    """The file that it stands in, once the master goes by that. Raises MasterError."""
    # it makes room for a successor each time that another machine registers
    session.patience_s = max(patience(os.environ) or 0.0, CHANGE_S)
    before = session.call("GET", "/v1/status").get("instance")
    session.stay_with_its_master()  # one without a configuration begins one
    session.patience_s = max(session.patience_s, TAKEN_UP_S)  # it is there
    try:
        answer = session.call("POST", "/v1/nodes", body)
    except MasterError as error:
        if error.code != "bad_request" or "there is already a node" not in error.message:
            raise
        _require_same(session, name, place)
        say(f"{name} stands in the inventory by another hand, with this address: left as it is")
        return ""
    for warning in answer["warnings"]:
        say(warning)
    if answer["reloading"]:
        _await_successor(session, before)
    if not session.json:
        by = "starts its jobs here itself" if place.key == "connection" else "logs in here by SSH"
        print(clean(f"Registered as {name} in {answer['file']}: no agent runs here, the master {by}"))
    return str(answer["file"])


def _require_same(session: Session, name: str, place: Place) -> None:
    known = session.call("GET", node_path(name))
    there = known.get("connection") if place.key == "connection" else known.get("address")
    if there != place.value:
        what = f"there is already a node {name}, at {there}, and this machine is {place.value}"
        raise bad_request(what, "--node-id gives this one another name; or edit the inventory on the master's machine")


def _await_successor(session: Session, before: Any) -> None:
    """The master that goes by the new inventory. Raises MasterError when none comes."""
    deadline = clock.monotonic() + TAKEN_UP_S
    while True:
        try:
            if session.call("GET", "/v1/status").get("instance") != before:
                return
        except NoMaster as error:
            if error.lasting:
                raise
        if clock.monotonic() > deadline:
            raise MasterError("error", "the master has not taken up the new inventory", "mgpu status tells more")
        time.sleep(AGAIN_S)


# --- what the master sees -------------------------------------------------------------------------------------------


def looked_at(session: Session, name: str, place: Place) -> dict[str, Any]:
    """The node after a probe. A host key that nobody has accepted yet is, where it is the one that lies here."""
    node = probed(session, name)
    if not node.get("probe_failure") or place.key == "connection" or not trusted_now(session, name):
        return node
    return probed(session, name)


def probed(session: Session, name: str) -> dict[str, Any]:
    """By a master that stays: one that makes room for its successor just then has done no more probing."""
    deadline = clock.monotonic() + TAKEN_UP_S
    while True:
        try:
            node: dict[str, Any] = session.call("POST", f"{node_path(name)}/probe", {})
            if LEAVING not in (node.get("probe_failure") or "") or clock.monotonic() > deadline:
                return node
        except MasterError as error:
            if LEAVING not in error.message or clock.monotonic() > deadline:
                raise
        time.sleep(AGAIN_S)


def trusted_now(session: Session, name: str) -> bool:
    """Whoever asks is on the node, and may say which keys are its own. Raises MasterError where another's are shown."""
    try:
        shown = session.call("GET", f"{node_path(name)}/hostkeys")
    except MasterError as error:
        if isinstance(error, NoMaster):
            raise
        return False  # it is not reached at all, which the probe has told
    if shown["status"] == "changed":
        raise changed(name, shown)
    if shown["status"] != "new":
        return False
    own = machine.host_keys()
    if not own:
        say(f"the keys of the sshd here are not found: on the master's machine, mgpu node trust {name}")
        return False
    lines = [key["line"] for key in shown["keys"] if " ".join(key["line"].split()[1:3]) in own]
    if not lines:
        print_shown = " ".join(key["fingerprint"] for key in shown["keys"]) or "no key"
        what = f"another machine answers the master at {shown['address']}: it shows {print_shown}, none of ours"
        raise MasterError("not_allowed", what, "is that the right address? --host gives another")
    session.call("POST", f"{node_path(name)}/trust", {"lines": lines})
    say(f"its host key, seen by the master, is the one that lies here: trusted from now on ({name})")
    return True


def confirm(session: Session, name: str, node: dict[str, Any], gpus: machine.Gpus) -> int:
    """The exit status; what is amiss, and what to do about it."""
    failure = node.get("probe_failure")
    if failure:
        session.print_error(MasterError("check_failed", f"the master cannot get in: {failure}", remedy(failure, name)))
        return 1
    seen = len(node.get("gpus") or ())
    if seen < len(gpus.rows) and node.get("connection") != "local" and not node.get("reason"):
        say(f"it sees {seen} of {len(gpus.rows)} GPUs: {name} has a `devices:` or --gpu-count")
    return 0


def remedy(failure: str, name: str) -> str:
    """By what stands in the way, as somebody would find out who sits here."""
    more = f"mgpu doctor {name}, on the master's machine, tells more"
    for words, advice in (
        ("refused: is sshd", "start the sshd here, or --ssh-port gives its port"),
        ("timed out", "let the master's machine through the firewall to port 22 here (ufw allow ssh)"),
        ("cannot connect", "is this address reached from the master's machine? --host gives another"),
        ("host key", f"on the master's machine: mgpu node trust {name}"),
        ("accepted", "put the master's public key into ~/.ssh/authorized_keys here; --ssh-user names the account"),
        ("no key to offer", "the master needs a key: on its machine, mgpu init --key makes one"),
    ):
        if words in failure:
            return f"{advice}; {more}"
    return more
