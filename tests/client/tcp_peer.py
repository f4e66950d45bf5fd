"""The peer at a TCP port of this machine, over TLS if it is given a certificate."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from mgpu.api import certificate
from mgpu.endpoint import fingerprint
from tests.client.peer import Peer


class TcpPeer(Peer):
    def __init__(self, made: tuple[Path, Path] | None = None, port: int = 0) -> None:
        super().__init__("")
        self._listener.close()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        if made:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*made)
            self._listener = context.wrap_socket(self._listener, server_side=True, do_handshake_on_connect=False)

    def __enter__(self) -> TcpPeer:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_error: object) -> None:
        with socket.socket() as waker:  # an accept that waits is not ended by a close
            self.over = True
            waker.connect(("127.0.0.1", self.port))
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    over = False

    def _serve(self, connection: socket.socket) -> None:
        if self.over:
            connection.close()
            return
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
        except OSError:
            connection.close()
            return
        super()._serve(connection)


def made(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A certificate of nobody's, and its key."""
    folder.mkdir(mode=0o700)
    certificate._make(folder / "c.pem", folder / "k.pem", name)
    return folder / "c.pem", folder / "k.pem"


def fingerprint_of(files: tuple[Path, Path]) -> str:
    return fingerprint(certificate._der(files[0]))
