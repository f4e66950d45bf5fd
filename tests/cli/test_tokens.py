"""mgpu token, as it is typed: on the head, and on the client."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.client import credentials
from mgpu.client.address import Address
from tests.cli.conftest import Ran
from tests.client.peer import Peer
from tests.client.tcp_peer import TcpPeer, fingerprint_of, made

TOKEN = "mgpu_00c0ffee_" + "5" * 64
SHOWN = {
    "token_id": "00c0ffee", "user": "ann", "name": "laptop", "state": "valid", "created": "2026-01-01T00:00:00Z",
    "expires": "2026-04-01T00:00:00Z", "last_used": None, "revoked": None,
}  # fmt: skip
Run = Callable[..., Ran]


def test_a_token_stands_alone_on_stdout(peer: Peer, mgpu: Run) -> None:
    peer.answers["POST", "/v1/tokens"] = (201, {"token": TOKEN, **SHOWN, "listens": "https://head:8443"}, {})
    ran = mgpu("token", "create", "--name", "laptop", "--expires", "30d")
    assert (ran.status, ran.out) == (0, f"{TOKEN}\n")
    assert TOKEN not in ran.err
    assert "mgpu token save https://HEAD:PORT" in ran.err
    assert peer.bodies("POST", "/v1/tokens") == [{"user": "", "name": "laptop", "expires": "30d"}]
    assert json.loads(mgpu("token", "create", "--json").out)["token"] == TOKEN


def test_tokens_in_a_table(peer: Peer, mgpu: Run) -> None:
    peer.answers["GET", "/v1/tokens"] = {"tokens": [SHOWN]}
    header, row = mgpu("token", "list").out.splitlines()
    assert header.split() == ["ID", "USER", "NAME", "STATE", "CREATED", "EXPIRES", "USED"]
    assert row.split()[:4] == ["00c0ffee", "ann", "laptop", "valid"]
    peer.answers["POST", "/v1/tokens/00c0ffee/revoke"] = {**SHOWN, "state": "revoked"}
    assert mgpu("token", "revoke", "00c0ffee").out == "Revoked token 00c0ffee of ann\n"


def test_a_certificate_that_there_is_not(peer: Peer, mgpu: Run) -> None:
    assert "the master listens nowhere: there is no certificate" in mgpu("token", "fingerprint").err
    peer.answers["GET", "/v1/status"] = {"listens": "https://head:8443", "fingerprint": "SHA256:abc"}
    assert mgpu("token", "fingerprint").out == "SHA256:abc\n"


def test_what_is_trusted_is_kept_and_what_is_another_is_not(tmp_path: Path, mgpu: Run) -> None:
    files = made(tmp_path / "tls")
    with TcpPeer(files) as there:
        url = f"https://localhost:{there.port}"
        address = Address("localhost", there.port, True)
        wrong = f"SHA256:{'A' * 43}"
        ran = mgpu("token", "trust", url, "--fingerprint", wrong)
        assert (ran.status, ran.out) == (77, "")
        assert wrong in ran.err
        assert fingerprint_of(files) in ran.err
        ran = mgpu("token", "trust", url)
        assert ran.status == 2
        assert "nobody is there to compare it" in ran.err
        assert credentials.find_pin(address, os.environ) == ""
        ran = mgpu("token", "trust", url, "--fingerprint", fingerprint_of(files))
        assert (ran.status, ran.out) == (0, f"{url}: trusted is now {fingerprint_of(files)}\n")
        assert credentials.find_pin(address, os.environ) == fingerprint_of(files)
        assert mgpu("--master", url, "token", "trust").out == f"{url}: its certificate is trusted already\n"
        credentials.keep(credentials.PINS, address, wrong, os.environ)
        assert mgpu("token", "trust", url).status == 2
        assert credentials.find_pin(address, os.environ) == wrong


@pytest.mark.parametrize("words", [["token", "trust"], ["token", "trust", "ssh://head"], ["token", "save", "head:80"]])
def test_which_master_has_to_be_said(peer: Peer, mgpu: Run, words: list[str]) -> None:
    ran = mgpu(*words)
    assert (ran.status, ran.err) == (2, "mgpu: which master? name it: https://head:8443\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--host", "head", "--master", "ssh://head", "queue"], "both say where the master is"),
        (["--host", "head lab", "queue"], "no address"),
        (["--port", "0", "queue"], "--port 0: no address"),
        (["--master", "http://head:80", "queue"], "beyond this machine a token goes over TLS alone"),
        (["--host", "head", "daemon"], "where it listens stands in its configuration"),
        (["--master", "https://head:80", "daemon"], "this is done on the master's own machine"),
        (["--master", "https://head:80", "node", "remove", "x"], "the configuration is the master's, on head"),
        (["--host", "head", "queue"], "there is no token for https://head:8080"),
    ],
)
def test_what_is_refused_in_a_line(peer: Peer, mgpu: Run, words: list[str], told: str) -> None:
    ran = mgpu(*words)
    assert (ran.out, ran.err.count("\n")) == ("", 1)
    assert told in ran.err
