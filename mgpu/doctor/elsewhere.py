"""From here to a master on another machine: ssh and its settings, the login, mgpu there, the master. What lies behind
it is looked at from that machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import mgpu
from mgpu import clock
from mgpu.client import http, tcp
from mgpu.client.dial import Dialer
from mgpu.client.locate import Location
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.doctor.master import errors

SLOW_LOGIN_S = 3.0


def look(place: Location, dialer: Dialer) -> Iterator[Finding]:
    """All of it, in order. Nothing is started there."""
    dialer.start_there = False
    head = dialer.head
    try:
        yield ok("ssh", settings(dialer.configured()))
        began = clock.monotonic()
        dialer.keep(dialer.connect())
    except http.NoMaster as error:
        if not dialer.version:  # else mgpu answered, and says of the master there what is next
            yield failure("login", error.message, error.hint)
            return
        yield skipped("master", f"{error.message}; any command that asks it, such as mgpu nodes, starts one")
    else:
        took_s = clock.monotonic() - began
        text = f"{head.shown} let us in and mgpu answered there in {took_s:.1f} s"
        if took_s > SLOW_LOGIN_S:
            hint = "ControlMaster in ssh_config saves most of that, unless it is start-up files there"
            yield warning("login", text, hint)
        else:
            yield ok("login", text)
        yield from master(place)
    yield same(dialer.version)
    by_hand = ["ssh", *(word for word in head.login if word != "--"), f"{head.mgpu or 'mgpu'} doctor"]
    yield skipped("nodes", f"are looked at from the master's machine: {shlex.join(by_hand)}")


def look_by_token(place: Location) -> Iterator[Finding]:
    """Of a master that is reached over TCP."""
    dialer = place.endpoint.dialer
    assert isinstance(dialer, tcp.Dialer)
    url = place.endpoint.socket_path
    try:
        began = clock.monotonic()
        dialer.keep(dialer.connect())
    except http.MasterError as error:
        yield failure("token" if error.code == "no_token" else "connection", error.message, error.hint)
        return
    known = "its certificate is the one trusted here" if dialer.pinned else "an authority vouches for its certificate"
    text = f"{url} answers in {1000 * (clock.monotonic() - began):.0f} ms"
    yield ok("connection", f"{text}; {known}" if dialer.address.tls else text)
    yield from master(place)
    if http.other_versions:
        yield same(http.other_versions[0])
    yield skipped("nodes", f"are looked at from the master's machine: mgpu doctor on {dialer.shown}")


def settings(found: dict[str, str]) -> str:
    """What ssh makes of the name."""
    jump = "" if found.get("proxyjump", "none") == "none" else f" through {found['proxyjump']}"
    kept = "" if found.get("controlpath", "none") == "none" else "; connections are shared (ControlPath)"
    return f"goes to {found.get('user')}@{found.get('hostname')} port {found.get('port')}{jump}{kept}"


def master(place: Location) -> Iterator[Finding]:
    try:
        status = ask(place, "/v1/status")
        nodes = ask(place, "/v1/nodes")["nodes"]
    except http.MasterError as error:
        yield failure("master", error.message, error.hint)
        return
    up = sum(node["state"] == "UP" for node in nodes)
    who = f"pid {status.get('pid')} of uid {status.get('uid')}"
    yield ok("master", f"{who} answers: {up} of {len(nodes)} nodes up")
    yield from errors(status)


def ask(place: Location, path: str) -> Any:
    response = http.request(place.endpoint, "GET", path)
    http.raise_for_error(response)
    return json.loads(response.body)


def same(theirs: str) -> Finding:
    """`theirs`: the version of mgpu there."""
    if theirs == mgpu.__version__:
        return ok("same", f"same version here and there ({mgpu.__version__})")
    text = f"mgpu there is version {theirs}, here {mgpu.__version__}"
    return warning("same", text, "install the same on both, should a command be refused")
