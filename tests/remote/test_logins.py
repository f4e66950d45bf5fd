"""Logins that sshd ends, and those that take their time."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.remote import connect as ways
from mgpu.remote.connect import LoginLimits, connect
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.scan import scan_host_keys
from mgpu.remote.shell import NodeShell
from tests.lab import Lab
from tests.lab.node import Node
from tests.remote.conftest import living, wait_until
from tests.remote.test_ssh import LIMITS, NOWHERE, hello, needs_namespaces, refused, target

pytestmark = pytest.mark.lab
MAX_AUTH_TRIES = 6  # sshd's own
KEYS = 9


def test_an_agent_with_many_keys(lab: Lab, tmp_path: Path) -> None:
    """sshd hangs up after six that it does not know; the one that is configured comes first."""
    wrong = [tmp_path / f"wrong{number}" for number in range(KEYS)]
    for path in wrong:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    sock = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    try:
        wait_until(sock.exists)
        subprocess.run(["ssh-add", "-q", *wrong], env=os.environ | {"SSH_AUTH_SOCK": str(sock)}, check=True)
        many = {"identities_only": False, "identity_agent": str(sock)}
        error = refused(target(lab, lab.nodes[0], identity_files=(), **many))
        assert (error.trouble, error.transient) == (Trouble.AUTHENTICATION, False)
        assert f"too many authentication failures, {MAX_AUTH_TRIES} of {KEYS} keys offered" in error.message
        assert hello(target(lab, lab.nodes[0], **many))
    finally:
        agent.terminate()
        agent.wait()


def test_a_login_that_takes_its_time(lab: Lab) -> None:
    """A door that stays shut for a while, as before a slow jump host; the other node is not held up."""
    first, second = lab.nodes
    came = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door, ThreadPoolExecutor() as pool:

        def let_in() -> None:
            visitor, _ = door.accept()
            with visitor, socket.create_connection((first.address, first.port)) as inside:
                came.wait(30)
                pool.submit(carry, inside, visitor)
                try:
                    carry(visitor, inside)
                finally:  # ends the other direction too
                    with contextlib.suppress(OSError):
                        inside.shutdown(socket.SHUT_RDWR)

        pool.submit(let_in)
        host, port = door.getsockname()
        slow = pool.submit(hello, target(lab, first, host=host, port=port, host_key_alias=name(first)))
        assert hello(target(lab, second))
        assert not slow.done()
        came.set()
        assert slow.result() == hello(target(lab, first))


def test_a_node_that_cannot_be_reached_takes_no_place_of_another(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them there are: their packets vanish, and each try lasts as long as a login may."""
    monkeypatch.setattr(ways, "_HANDSHAKES", threading.BoundedSemaphore(1))
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        host, port = silent.getsockname()
        for _ in range(4):  # those that have no room in its queue are not answered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        pool = stack.enter_context(ThreadPoolExecutor())
        stuck = pool.submit(refused, target(lab, lab.nodes[0], host=host, port=port), LoginLimits(login_s=6.0))
        assert hello(target(lab, lab.nodes[1]))
        assert not stuck.done()
        assert "timed out" in stuck.result().message


@needs_namespaces
def test_keys_of_a_node_that_is_not_reached_directly(lab: Lab) -> None:
    """127.0.0.1 is the first node itself, seen from there, and not from here."""
    node = lab.nodes[0]
    there = target(lab, node)
    behind = replace(there, host="127.0.0.1", hops=(there,))
    shown = scan_host_keys(there, NOWHERE, LIMITS)
    assert scan_host_keys(behind, NOWHERE, LIMITS) == shown
    command = f"ssh -F {lab.ssh_config} -W 127.0.0.1:22 {node.name}"
    assert scan_host_keys(replace(there, host="127.0.0.1", port=1, proxy_command=command), NOWHERE, LIMITS) == shown
    with pytest.raises(RemoteError, match=r"no way to 127\.0\.0\.1 port 1:"):
        scan_host_keys(replace(behind, port=1), NOWHERE, LIMITS)
    with pytest.raises(RemoteError, match="no key exchange with"):
        scan_host_keys(replace(there, proxy_command="false"), NOWHERE, LIMITS)
    with pytest.raises(RemoteError, match="cannot be run"):
        scan_host_keys(replace(there, proxy_command="/no/such/program"), NOWHERE, LIMITS)


RELAY = """
import os, socket, sys, threading
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def carry(source, target):
    while data := os.read(source, 65536):
        os.write(target, data)
    os._exit(0)
sys.stderr.write("x" * 200_000)  # more than a pipe holds
threading.Thread(target=carry, args=(0, there.fileno())).start()
carry(there.fileno(), 1)
"""


def test_a_proxy_command_is_a_way_like_any_other(lab: Lab) -> None:
    node = lab.nodes[0]
    command = shlex.join((sys.executable, "-c", RELAY, node.address, str(node.port)))
    behind = target(lab, node, proxy_command=command)
    with contextlib.closing(connect(behind, "node001", NOWHERE, LIMITS)) as connection:
        assert connection.address == node.address
        shell = NodeShell(connection, LIMITS.login_s)
        assert shell.request("state").status == "ok"
        (relay,) = living(RELAY)
        os.kill(relay, signal.SIGKILL)
        with pytest.raises(RemoteError, match="connection lost"):
            shell.request("state")
        wait_until(lambda: not connection.alive)
    with contextlib.closing(connect(behind, "node001", NOWHERE, LIMITS)):
        assert len(living(RELAY)) == 1
    assert living(RELAY) == []


def test_a_proxy_command_that_cannot_be_run_is_said(lab: Lab) -> None:
    node = lab.nodes[0]
    for command in ("/no/such/program", "with 'half a quote"):
        error = refused(target(lab, node, proxy_command=command))
        assert error.message.startswith("the ProxyCommand cannot be run: ")
    ends_at_once = refused(target(lab, node, proxy_command="false")).message
    assert "lost while logging in" in ends_at_once or "protocol banner" in ends_at_once  # as the threads meet


def name(node: Node) -> str:
    return node.address if node.port == 22 else f"[{node.address}]:{node.port}"


def carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
