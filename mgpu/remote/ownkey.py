"""The master's own key, by which it logs in as those who have enrolled. It is made when it is first needed, lies in the
state directory, and is told nobody but for its public half."""

from __future__ import annotations

import threading
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from mgpu import private_file
from mgpu.remote.errors import RemoteError, Trouble

NAME = "enrolled_ed25519"

_making = threading.Lock()


class OwnKey:
    """Any thread."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME

    def file(self) -> Path:
        """Raises RemoteError."""
        with _making:
            try:
                if not self._path.exists():
                    self._make()
            except OSError as error:
                raise _unusable(self._path, error.strerror or str(error)) from error
        return self._path

    def there(self) -> tuple[Path, ...]:
        """() = it was never made."""
        return (self._path,) if self._path.exists() else ()

    def public(self) -> str:
        """`ssh-ed25519 AAAA..`. Raises RemoteError."""
        path = self.file()
        try:
            key = load_ssh_private_key(path.read_bytes(), None)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        except (ValueError, TypeError) as error:
            raise _unusable(path, str(error)) from error
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")

    def _make(self) -> None:
        key = Ed25519PrivateKey.generate()
        private_file.write(self._path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def _unusable(path: Path, why: str) -> RemoteError:
    return RemoteError(f"the master's own key {path} cannot be used: {why}", Trouble.UNPREPARED)
