"""From the node's name to the banner of its sshd. Where jump hosts are on the way, this is about the first of them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

from mgpu import clock
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.core.errors import ConfigError
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.doctor.case import Case, turn
from mgpu.doctor.patience import within

NAME_S = 10.0
CONNECT_S = 5.0
BANNER_S = 10.0
SLOW_NAME_S = 2.0
BANNER_MOST = 4096  # bytes that may stand before it


def settings(case: Case) -> Iterator[Finding]:
    try:
        case.target = resolve(case.node.ssh)
    except ConfigError as error:
        name = case.node.ssh.name or case.node.ssh.host
        yield failure("ssh", error.message, f"ssh -G {name} shows what ssh makes of ~/.ssh/config")
        return
    through = "".join(f", through {_place(hop)}" for hop in case.target.hops)
    if case.outermost.proxy_command:
        through += ", with a ProxyCommand"
    yield ok("ssh", f"{case.target.user}@{_place(case.target)}{through}")


def _place(hop: SshTarget) -> str:
    return f"{hop.host} port {hop.port}"


def _whose(case: Case) -> str:
    return " (jump host)" if case.outermost is not case.target else ""


def name(case: Case) -> Iterator[Finding]:
    hop = case.outermost
    if hop.proxy_command:
        yield skipped("name", "a ProxyCommand finds the way")
        return
    try:
        ipaddress.ip_address(hop.host)
    except ValueError:
        pass
    else:
        yield ok("name", f"{hop.host} is an address{_whose(case)}")
        return
    hint = f"is it written right? getent hosts {hop.host} asks the same; `ip:` in the inventory goes without"
    began = clock.monotonic()
    try:
        found = within(NAME_S, lambda: socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM))
    except TimeoutError:
        yield failure("name", f"no name server answers for {hop.host} in {NAME_S:.0f} s", hint)
        return
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        yield failure("name", f"{hop.host} has no address: {why}{_whose(case)}", hint)
        return
    took = clock.monotonic() - began
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    if took > SLOW_NAME_S:
        text = f"{hop.host} is {addresses}, but it took {took:.1f} s to find out{_whose(case)}"
        yield warning("name", text, "a name server in /etc/resolv.conf does not answer")
    else:
        yield ok("name", f"{hop.host} is {addresses}{_whose(case)}")


def tcp(case: Case) -> Iterator[Finding]:
    hop = case.outermost
    if hop.proxy_command:
        yield skipped("tcp", "a ProxyCommand makes the connection")
        return
    try:
        with turn(hop):
            began = clock.monotonic()
            with socket.create_connection((hop.host, hop.port), timeout=CONNECT_S) as door:
                took_ms = 1000 * (clock.monotonic() - began)
                case.greeting = _greeting(door)
    except TimeoutError:
        text = f"{_place(hop)} does not answer in {CONNECT_S:.0f} s"
        hint = f"the machine is off, or a firewall drops it: ping {hop.host}; ip route get {hop.host}"
    except ConnectionRefusedError:
        text = f"{_place(hop)} refuses: nothing listens there"
        hint = "start sshd there (systemctl status ssh); if it listens elsewhere, say so: ssh: {port: N}"
    except OSError as error:
        text = f"{_place(hop)} cannot be reached: {error.strerror or error}"
        hint = f"a route or a VPN is missing, or a firewall turns it down: ip route get {hop.host}"
    else:
        yield ok("tcp", f"{_place(hop)} answers in {took_ms:.0f} ms{_whose(case)}")
        return
    yield failure("tcp", text + _whose(case), hint)


def banner(case: Case) -> Iterator[Finding]:
    if case.outermost.proxy_command:
        yield skipped("banner", "a ProxyCommand has the connection")
        return
    said, ended = case.greeting
    lines = said.decode("utf-8", "replace").splitlines()
    version = next((line for line in lines if line.startswith("SSH-")), "")
    if version:
        yield ok("banner", version.strip() + _whose(case))
    elif any("MaxStartups" in line for line in lines):
        hint = "more logins at once than its MaxStartups allows: wait, or raise that in sshd_config"
        yield failure("banner", "sshd turns logins away: Exceeded MaxStartups", hint)
    elif lines:
        hint = "something else listens on that port: ssh: {port: N} in the inventory names the right one"
        yield failure("banner", f"who answers is no sshd, it says: {lines[0][:100]}", hint)
    elif ended:
        hint = (
            "sshd turns us away (MaxStartups, fail2ban, hosts.deny), or a proxy has nobody behind it: look at its log"
        )
        yield failure("banner", "the connection is closed without a word", hint)
    else:
        hint = "sshd hangs or the machine is overloaded: look at its console, or restart sshd there"
        yield failure("banner", f"connected, but sshd says nothing in {BANNER_S:.0f} s", hint)


def _greeting(door: socket.socket) -> tuple[bytes, bool]:
    """What is said up to sshd's line, and whether the connection ended."""
    deadline = clock.monotonic() + BANNER_S
    said = b""
    while len(said) < BANNER_MOST:
        if any(line.startswith(b"SSH-") for line in said.split(b"\n")[:-1]):
            return said, False
        try:
            door.settimeout(max(0.01, deadline - clock.monotonic()))
            data = door.recv(1024)
        except TimeoutError:
            return said, False
        except OSError:
            return said, True
        if not data:
            return said, True
        said += data
    return said, False
