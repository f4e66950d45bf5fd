"""The client's half of RFC 6455, as far as a stream on our own socket needs it.

Masking protects proxies between strangers; here the key may be constant, and zero, which leaves the payload as it is.
"""

from __future__ import annotations

import struct

from mgpu.client import http
from mgpu.lean.typing import Any
from mgpu.numeral import numeral

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
# The master sends pieces of output of some 100 KiB; more than this is a fault, not output.
MESSAGE_LIMIT_B = 16 << 20


class StreamClosed(Exception):
    """The other side closed or is gone. `code` is that of its close frame, 1006 = none came."""

    def __init__(self, code: int) -> None:
        super().__init__(f"stream closed ({code})")
        self.code = code


class WebSocket:
    """A connected stream. `buffered()` tells whether `receive()` may return without the socket becoming readable,
    `unsent` how many bytes `flush()` has still to send once it is writable. Nothing here waits, but the opening."""

    def __init__(self, endpoint: http.Endpoint, path: str) -> None:
        """Raises NoMaster, or MasterError with the master's words when it refuses the stream."""
        self._socket = http.connect(endpoint)
        self._buffer = bytearray()
        self._outbox = bytearray()
        self._opcode = 0
        self._message = bytearray()
        try:
            self._shake_hands(endpoint, path)
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def _shake_hands(self, endpoint: http.Endpoint, path: str) -> None:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "bWdwdS1vd24tc29ja2V0IQ==",
        }
        self._socket.settimeout(http.ANSWER_TIMEOUT_S)
        try:
            self._socket.sendall(http.request_head(endpoint, "GET", path, "1.1", upgrade), http.NO_SIGNAL)
            while (end := self._buffer.find(b"\r\n\r\n")) < 0:
                self._fill()
            status, headers = http.parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if status != 101:
                length = numeral(headers.get("content-length", "")) or 0
                while len(self._buffer) < length:
                    self._fill()
                http.raise_for_error(http.Response(max(status, 400), headers, bytes(self._buffer[:length])))
        except (OSError, StreamClosed) as error:
            raise http.NoMaster(f"the master at {endpoint.socket_path} did not open the stream ({error})") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def buffered(self) -> bool:
        return self._frame() is not None

    def receive(self) -> tuple[int, bytes] | None:
        """The next whole message as (TEXT or BINARY, payload), reading once from the socket if none has come yet.

        None = that was not enough for a message: wait until the socket is readable. Raises StreamClosed.
        """
        if self._frame() is None:
            self._fill()
        while (frame := self._frame()) is not None:
            final, opcode, start, end = frame
            payload = bytes(self._buffer[start:end])
            del self._buffer[:end]
            if opcode == CLOSE:
                self.send(CLOSE, payload[:2])
                raise StreamClosed(struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005)
            if opcode == PING:
                self.send(PONG, payload)
            elif opcode in (0, TEXT, BINARY):
                message = self._assemble(final, opcode, payload)
                if message is not None:
                    return message
        return None

    def _assemble(self, final: bool, opcode: int, payload: bytes) -> tuple[int, bytes] | None:
        """Joins the fragments of a message; most come in one piece and are not copied."""
        if final and opcode:
            return opcode, payload
        if opcode:
            self._opcode = opcode
        self._message += payload
        if len(self._message) > MESSAGE_LIMIT_B:
            raise StreamClosed(1009)
        if not final:
            return None
        message = (self._opcode, bytes(self._message))
        self._message.clear()
        return message

    def _frame(self) -> tuple[bool, int, int, int] | None:
        """(final, opcode, start, end) of the frame at the front of the buffer, or None if it is not whole yet."""
        have = len(self._buffer)
        if have < 2:
            return None
        first, second = self._buffer[0], self._buffer[1]
        start, length = 2, second & 0x7F
        if length == 126:
            start = 4
            length = struct.unpack_from(">H", self._buffer, 2)[0] if have >= 4 else MESSAGE_LIMIT_B
        elif length == 127:
            start = 10
            length = struct.unpack_from(">Q", self._buffer, 2)[0] if have >= 10 else MESSAGE_LIMIT_B
        if length > MESSAGE_LIMIT_B or second & 0x80 or first & 0x70:
            raise StreamClosed(1002)
        return (bool(first & 0x80), first & 0x0F, start, start + length) if have >= start + length else None

    def _fill(self) -> None:
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError as error:
            raise StreamClosed(1006) from error
        if not data:
            raise StreamClosed(1006)
        self._buffer += data

    @property
    def unsent(self) -> int:
        return len(self._outbox)

    def send(self, opcode: int, payload: bytes) -> None:
        """A whole message, masked with zeros: as much as goes now, the rest with `flush`. Raises StreamClosed."""
        size = len(payload)
        if size < 126:
            head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
        head += bytes(4)
        sent = self._some([head, payload]) if not self._outbox else 0
        self._outbox += (head + payload)[sent:]
        self.flush()

    def flush(self) -> None:
        """Raises StreamClosed."""
        while self._outbox and (sent := self._some([self._outbox])):
            del self._outbox[:sent]

    def _some(self, pieces: list[Any]) -> int:
        """How much of it could be sent now."""
        try:
            return self._socket.sendmsg(pieces, (), http.NO_SIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise StreamClosed(1006) from error

    def close(self) -> None:
        """Says that we go, and goes."""
        try:
            self.send(CLOSE, struct.pack(">H", 1000))
        except StreamClosed:
            pass
        finally:
            self._socket.close()
