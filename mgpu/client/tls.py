"""A socket over TLS that behaves as a plain one does, as far as the client's requests and streams use it."""

from __future__ import annotations

import ssl

from mgpu.lean.typing import Any

RECORD_B = 1 << 14  # no more goes into one piece


class TlsSocket(ssl.SSLSocket):
    """Flags mean nothing here. What cannot go on without waiting raises BlockingIOError, as a plain socket does; and
    nothing that was read stays behind where `select` does not see it."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        super().sendall(data)

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0) -> int:  # type: ignore[override]
        """One piece. After BlockingIOError it is to be called again with the same bytes, or more."""
        with memoryview(buffers[0] if len(buffers) == 1 else b"".join(buffers)) as data:
            try:
                return super().send(data[:RECORD_B])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError from None

    def recv(self, size: int = 1 << 16, flags: int = 0) -> bytes:
        try:
            data = super().recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        while data and len(data) < size and (left := self.pending()):
            data += super().recv(min(left, size - len(data)))
        return data
