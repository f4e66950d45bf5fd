"""What both ends of a connection have to know alike: the master's port, which addresses never leave this machine, which
machine it is, and how the fingerprint of what is shown there is written. For short commands too: it loads next to
nothing."""

from __future__ import annotations

import binascii
import re

PORT = 8080  # as in the older system
LOOPBACK = "127.0.0.1"
_LOOPBACK = re.compile(r"localhost|::1|127(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}", re.ASCII)


def is_loopback(host: str) -> bool:
    """Of a name only `localhost`, which is not looked up: what other names lead to may change. Other ways to write ::1
    are none of ours."""
    return _LOOPBACK.fullmatch(host.lower()) is not None


def fingerprint(shown: bytes) -> str:
    """Of a key or a certificate (DER), as ssh writes it."""
    import hashlib

    return written(hashlib.sha256(shown).digest())


def written(digest: bytes) -> str:
    """That of a SHA-256."""
    return "SHA256:" + binascii.b2a_base64(digest, newline=False).decode().rstrip("=")


def boot_id() -> str:
    """This machine since it was started, which no other is; "" = the kernel does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as told:
            return told.read().strip()
    except OSError:
        return ""
