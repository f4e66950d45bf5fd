"""The certificate that the TCP port shows: the master's own, which clients pin, or one of the site's."""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
import ssl
import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mgpu import clock, private_file
from mgpu.config.model import Listen
from mgpu.core.errors import StoreError
from mgpu.endpoint import fingerprint

LIFE = timedelta(days=3652)
CERTIFICATE, KEY = "tls.crt", "tls.key"  # in the state directory
# of TLS 1.2; the rest is that of 1.3
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Certificate:
    """`own`: the master made it, and nobody vouches for it."""

    def __init__(self, listen: Listen, state_dir: Path) -> None:
        """Made if the master is to have its own and has none yet. Raises StoreError."""
        self.own = listen.certificate is None
        self._certificate = listen.certificate or state_dir / CERTIFICATE
        self._key = listen.key or state_dir / KEY
        if self.own and not (self._certificate.exists() and self._key.exists()):
            _make(self._certificate, self._key, listen.host)
        _require_private(self._key)
        self._identity = self._files()
        self.context = self._loaded()

    @property
    def fingerprint(self) -> str:
        return fingerprint(_der(self._certificate))

    def names(self) -> tuple[str, ...]:
        """For which it is."""
        try:
            found = x509.load_der_x509_certificate(_der(self._certificate))
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound):
            return ()
        return tuple(name.lower() for name in names.get_values_for_type(x509.DNSName))

    def renew(self) -> bool:
        """Whether the files are others now; then new connections get these. Raises StoreError."""
        if self._files() == self._identity:
            return False
        identity = self._files()
        _require_private(self._key)
        # another context, since one of which only half could be loaded shows nothing any more
        self.context, self._identity = self._loaded(), identity
        return True

    def _files(self) -> list[tuple[int, int, int]]:
        try:
            return [(f.st_ino, f.st_size, f.st_mtime_ns) for f in (self._certificate.stat(), self._key.stat())]
        except OSError as error:
            raise StoreError(f"{error.filename}: {error.strerror}", "name another in tls_certificate") from error

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.num_tickets = 0  # a client is gone before it could use them
        try:
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (OSError, ValueError) as error:
            what = f"{self._certificate} and {self._key} are no certificate and its key without a password"
            raise StoreError(f"{what} ({error})", "give others in tls_certificate and tls_key") from error
        return context


def _der(path: Path) -> bytes:
    """The first certificate of the file. Raises StoreError."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
        start = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----", start) + len("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(text[start:end])
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "name another in tls_certificate") from error
    except ValueError as error:
        raise StoreError(f"{path} holds no certificate", "name another in tls_certificate") from error


def _require_private(key: Path) -> None:
    try:
        facts = key.stat()
    except OSError as error:
        raise StoreError(f"{key}: {error.strerror}", "name another in tls_key") from error
    if facts.st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP) or facts.st_uid not in (os.getuid(), 0):
        raise StoreError(f"{key}: others can read or change this key", f"chmod 600 {shlex.quote(str(key))}")


def _make(certificate: Path, key: Path, host: str) -> None:
    """The key first: a certificate without one is never taken. Raises StoreError."""
    private = ec.generate_private_key(ec.SECP256R1())
    names = dict.fromkeys((socket.gethostname(), socket.getfqdn(), "localhost", host))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, socket.gethostname()[:64])])
    now = datetime.fromtimestamp(clock.now(), timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([*map(_general_name, names)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _write(key, private.private_bytes(pem, form, plain))
    _write(certificate, made.public_bytes(pem))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, data: bytes) -> None:
    """For us alone. Raises StoreError."""
    try:
        private_file.write(path, data)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "make its folder writable for the master") from error
