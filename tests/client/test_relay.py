"""Bytes both ways, each end told to the other, and nothing that piles up."""

from __future__ import annotations

import os
import socket
import threading

from mgpu.client.relay import relay

MANY = os.urandom(1 << 20)


def test_all_bytes_both_ways_and_the_end_of_each() -> None:
    master, ours = socket.socketpair()
    client_in, source = socket.socketpair()
    sink, client_out = os.pipe()
    sent: list[bytes] = []

    def serve() -> None:
        with master, master.makefile("rb") as reader:
            sent.append(reader.read())  # to its end: the client's half is closed, ours goes on
            master.sendall(MANY[::-1])

    def ask() -> None:
        client_in.sendall(MANY)
        client_in.shutdown(socket.SHUT_WR)

    def carry() -> None:
        relay(ours, source.fileno(), client_out)
        os.close(client_out)

    threads = [threading.Thread(target=each) for each in (serve, ask, carry)]
    for thread in threads:
        thread.start()
    with os.fdopen(sink, "rb") as reader:
        got = reader.read()
    for thread in threads:
        thread.join(10)
    for each in (ours, client_in, source):
        each.close()
    assert sent == [MANY]
    assert got == MANY[::-1]


def test_what_nobody_reads_is_not_taken_from_the_master() -> None:
    master, ours = socket.socketpair()
    quiet_in, source = socket.socketpair()
    sink, client_out = os.pipe()
    carrier = threading.Thread(target=relay, args=(ours, source.fileno(), client_out), daemon=True)
    carrier.start()
    master.settimeout(1)
    taken = 0
    try:
        while taken < 64 << 20:
            taken += master.send(MANY)
    except TimeoutError:
        pass
    assert 0 < taken < 8 << 20
    os.close(sink)  # the reader is gone: so is what carries
    carrier.join(10)
    assert not carrier.is_alive()
    for each in (master, ours, quiet_in, source):
        each.close()
    os.close(client_out)


def test_of_a_client_that_is_gone_the_master_is_told() -> None:
    master, ours = socket.socketpair()
    quiet_in, source = socket.socketpair()
    master.settimeout(20)
    relay(ours, source.fileno(), -1, lives=lambda: False)
    assert master.recv(1) == b""
    for each in (master, ours, quiet_in, source):
        each.close()
