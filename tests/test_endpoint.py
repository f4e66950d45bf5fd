"""What both ends of a connection know alike."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.endpoint import fingerprint, is_loopback

HERE = ("127.0.0.1", "127.8.8.8", "127.255.255.255", "::1", "localhost", "LOCALHOST")
AWAY = (
    *("", "0.0.0.0", "::", "::2", "head", "localhost.lab", "10.1.1.1", "::ffff:10.0.0.1"),
    *("127.0.0.1.nip.io", "127.0.0.256", "127.0.0", "127.999.0.1", "127.example.org", "127.0.0.1\n"),
)


@pytest.mark.parametrize("host", HERE)
def test_what_never_leaves_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", AWAY)
def test_what_may(host: str) -> None:
    """Also what somebody could give a name server to resolve."""
    assert not is_loopback(host)


@given(st.ip_addresses())
def test_of_addresses_it_says_what_python_says(address: object) -> None:
    assert is_loopback(str(address)) is address.is_loopback  # type: ignore[attr-defined]


@given(st.binary())
def test_a_fingerprint_is_written_as_ssh_does(shown: bytes) -> None:
    kind, _, text = fingerprint(shown).partition(":")
    assert (kind, base64.b64decode(text + "=")) == ("SHA256", hashlib.sha256(shown).digest())
