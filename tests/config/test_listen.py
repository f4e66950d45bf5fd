"""Where a master listens besides its socket: never without TLS beyond its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgpu.config.load import load
from mgpu.config.model import Listen
from mgpu.core.errors import ConfigError


def read(folder: Path, master: str) -> Listen | None:
    path = folder / "c.yaml"
    path.write_text(f"master: {{{master}}}\n")
    path.chmod(0o600)
    return load(path).listen


@pytest.mark.parametrize(
    ("master", "listen"),
    [
        ("mode: personal", None),
        ("host: 127.0.0.1, port: 8080", Listen("127.0.0.1", 8080, tls=False)),
        ("port: 9000", Listen("127.0.0.1", 9000, tls=False)),
        ("host: localhost", Listen("localhost", 8080, tls=False)),
        ("host: '[::1]', tls: true", Listen("::1", 8080, tls=True)),
        ("host: 0.0.0.0, port: 8443", Listen("0.0.0.0", 8443, tls=True)),
        ("host: '::', port: 8443", Listen("::", 8443, tls=True)),
        ("host: head.lab", Listen("head.lab", 8080, tls=True)),
    ],
)
def test_where(tmp_path: Path, master: str, listen: Listen | None) -> None:
    assert read(tmp_path, master) == listen


def test_a_certificate_of_the_site(tmp_path: Path) -> None:
    found = read(tmp_path, "host: head.lab, port: 443, tls_certificate: c.pem, tls_key: /etc/k.pem")
    assert found == Listen("head.lab", 443, True, tmp_path / "c.pem", Path("/etc/k.pem"))


@pytest.mark.parametrize(
    ("master", "why"),
    [
        ("host: 0.0.0.0, tls: false", "beyond this machine (0.0.0.0) tokens go over TLS alone"),
        ("host: head.lab, tls: false", "beyond this machine (head.lab) tokens go over TLS alone"),
        ("host: 127.0.0.1.nip.io, tls: false", "tokens go over TLS alone"),
        ("host: 'head lab'", "'head lab' is no address and no name of a machine"),
        ("host: 'http://head'", "is no address and no name of a machine"),
        ("host: head, port: 0", "port: must be at least 1"),
        ("host: head, tls_key: k.pem", "tls_certificate and tls_key belong together"),
        ("tls: true", "tls means nothing without host and port"),
        ("port: 80, tls: false, tls_key: k, tls_certificate: c", "leave one of them out"),
    ],
)
def test_what_is_refused_in_a_line(tmp_path: Path, master: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, master)
    assert len(caught.value.faults) == 1
    assert why in caught.value.faults[0]
