"""What a client keeps for a master that it reaches over TCP, beside its own configuration: the token that it shows, and
the certificate that it expects."""

from __future__ import annotations

import os
import re
import stat

from mgpu import private_file
from mgpu.client.address import Address
from mgpu.client.config_home import config_home
from mgpu.client.http import MasterError
from mgpu.endpoint import written
from mgpu.lean.typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS, PINS = "tokens", "pins"
LONGEST_B = 4096
_PIN = re.compile(r"SHA256:[A-Za-z0-9+/]{43}", re.ASCII)
_HEX = re.compile(r"(?:sha256(?: fingerprint)?[:=])?((?:[0-9a-f]{2}:?){32})", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)


def find_token(address: Address, environ: Mapping[str, str]) -> str:
    """Raises MasterError (no_token)."""
    named = environ.get("MGPU_TOKEN_FILE", "")
    if named:
        text = _read_private(named)
        if text is None:
            raise _missing(f"MGPU_TOKEN_FILE: there is no file {named}")
        return _checked(text, named)
    if environ.get("MGPU_TOKEN"):
        return _checked(environ["MGPU_TOKEN"], "MGPU_TOKEN")
    path = place(TOKENS, address, environ)
    text = _read_private(path)
    if text is None:
        raise _missing(f"there is no token for {address.url}", f"mgpu token save {address.url}")
    return _checked(text, path)


def has_token(address: Address, environ: Mapping[str, str]) -> bool:
    """Whether somebody gave one for there, be it any good or not."""
    if environ.get("MGPU_TOKEN_FILE") or environ.get("MGPU_TOKEN"):
        return True
    return os.path.lexists(place(TOKENS, address, environ))


def find_pin(address: Address, environ: Mapping[str, str]) -> str:
    """The fingerprint that the master's certificate has to have; "" = none was trusted here. Raises MasterError."""
    path = place(PINS, address, environ)
    said = (_read_private(path, others_may_read=True) or "").strip()
    if said and not _PIN.fullmatch(said):
        raise MasterError("bad_request", f"{path} holds no fingerprint", f"mgpu token trust {address.url}")
    return said


def keep(folder: str, address: Address, text: str, environ: Mapping[str, str]) -> str:
    """Where it is kept now, for us alone. Raises MasterError."""
    path = place(folder, address, environ)
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        private_file.write(path, f"{text}\n".encode("ascii"))
    except OSError as error:
        raise MasterError("error", f"{error.filename or path}: {error.strerror}", "make it writable") from error
    return path


def place(folder: str, address: Address, environ: Mapping[str, str]) -> str:
    return os.path.join(config_home(environ), folder, address.name)


def parse_fingerprint(text: str) -> str:
    """As ssh writes it, or openssl. Raises MasterError (bad_request)."""
    if _PIN.fullmatch(text):
        return text
    found = _HEX.fullmatch(text.strip())
    if found is None:
        raise MasterError("bad_request", f"{text!r} is no fingerprint", "like SHA256:47DEQpj8HBSa+/TImW+5JCeuQ...")
    return written(bytes.fromhex(found[1].replace(":", "")))


def parse_token(text: str) -> str:
    """Of the first line. Raises MasterError (bad_request)."""
    return _checked(text, "what was given")


def _checked(text: str, whence: str) -> str:
    """It becomes part of a header. What it is stays unsaid."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise MasterError("bad_request", f"{whence}: that is no token", "mgpu token create, on the head, makes one")
    return token


def _missing(what: str, keep: str = "") -> MasterError:
    keep = f"; {keep} keeps it here" if keep else ""
    return MasterError("no_token", what, f"mgpu token create, on the head or by ssh://, makes one{keep}")


def _read_private(path: str, others_may_read: bool = False) -> str | None:
    """None = there is no such file. Raises MasterError for one that others can read, or could have written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for
        with open(descriptor, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise MasterError("bad_request", f"{path} is no file", "name another")
            text = file.read(LONGEST_B)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MasterError("bad_request", f"{path}: {error.strerror}", "make it readable for you") from error
    wrong = stat.S_IWGRP | stat.S_IWOTH if others_may_read else stat.S_IRWXG | stat.S_IRWXO
    if facts.st_uid not in (os.getuid(), 0) or facts.st_mode & wrong:
        what = f"{path} is not used: others can {'write' if others_may_read else 'read'} it"
        import shlex

        hint = f"chmod {'go-w' if others_may_read else '600'} {shlex.quote(path)}"
        raise MasterError("not_allowed", what, f"{hint}; a token that others have read: mgpu token revoke")
    return text.decode("ascii", "replace")
