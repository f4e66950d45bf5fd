"""What the kernel says of a TCP connection between two ends that are here."""

from __future__ import annotations

import socket
import time

import pytest

from mgpu.client.hearing import silent_for_s


@pytest.mark.parametrize(("bound", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_silence_grows_until_a_byte_comes(bound: str, address: str) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    try:
        listener = socket.create_server((bound, 0), family=family, dualstack_ipv6=bound == "::")
    except OSError:
        pytest.skip(f"no {bound} here")
    with listener, socket.create_connection((address, listener.getsockname()[1])) as client:
        server, _ = listener.accept()
        with server:
            (_, here), (_, there) = server.getsockname()[:2], client.getsockname()[:2]
            words = f"{address} {there} {address} {here}"
            first = silent_for_s(words)
            assert first is not None
            time.sleep(0.6)
            longer = silent_for_s(words)
            assert longer is not None
            assert longer - first >= 0.5
            for _ in range(20):  # each takes less than half a second, but where the machine has no time for us
                client.send(b"x")
                server.recv(1)
                again = silent_for_s(words)
                assert again is not None
                if again < longer:
                    return
            raise AssertionError("a byte breaks no silence")


@pytest.mark.parametrize("words", ["", "a b", "127.0.0.1 1 127.0.0.1 1", "x 1 y 2", "127.0.0.1 99999 127.0.0.1 22"])
def test_what_is_no_connection(words: str) -> None:
    assert silent_for_s(words) is None
