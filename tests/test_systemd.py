"""A real socket stands where systemd listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgpu.systemd import Systemd


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.setblocking(False)
        yield made


def test_it_is_told_and_nobody_else_hears_of_it(listener: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": listener.getsockname(), "INVOCATION_ID": "x", "PATH": "/bin"}
    systemd = Systemd(environ)
    assert environ == {"PATH": "/bin"}
    systemd.tell("READY=1", "STATUS=two nodes")
    assert listener.recv(1000) == b"READY=1\nSTATUS=two nodes"
    assert systemd.variables == {"NOTIFY_SOCKET": listener.getsockname(), "INVOCATION_ID": "x"}


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0mgpu-test-{os.getpid()}")
        listener.settimeout(5)
        Systemd({"NOTIFY_SOCKET": f"@mgpu-test-{os.getpid()}"}).tell("READY=1")
        assert listener.recv(100) == b"READY=1"


def test_without_a_socket_nothing_is_said(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": str(tmp_path / "no")}):
        systemd = Systemd(environ)
        systemd.tell("READY=1")
        systemd.alive(1.0)
        assert systemd.watchdog_s == float("inf")


def test_the_watchdog_hears_often_enough_and_not_more(listener: socket.socket) -> None:
    systemd = Systemd({"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "8000000"})
    assert systemd.watchdog_s == 2.0
    for tenth in range(101):
        systemd.alive(100 + tenth / 10)
    heard = 0
    with pytest.raises(BlockingIOError):
        while True:
            assert listener.recv(100) == b"WATCHDOG=1"
            heard += 1
    assert heard in (10, 11)  # each second


def test_a_watchdog_of_another_process(listener: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "8000000", "WATCHDOG_PID": "1"}
    assert Systemd(environ).watchdog_s == float("inf")


def test_stderr_is_the_journal_only_where_it_says_so() -> None:
    facts = os.fstat(2)
    assert Systemd({"JOURNAL_STREAM": f"{facts.st_dev}:{facts.st_ino}"}).has_our_stderr()
    assert not Systemd({"JOURNAL_STREAM": f"{facts.st_dev}:{facts.st_ino + 1}"}).has_our_stderr()
    assert not Systemd({}).has_our_stderr()
