"""Reaches a master over TCP, with a token; over TLS unless it is on this machine.

Before anything is said the certificate is looked at: it is the one that was trusted here by name, or, where none was,
one that the system's authorities vouch for under that name. `ssl` is imported for https alone.
"""

from __future__ import annotations

import errno
import os
import socket

from mgpu import clock
from mgpu.client import neighbour
from mgpu.client.address import Address
from mgpu.client.credentials import find_pin, find_token
from mgpu.client.http import Connection, NoMaster
from mgpu.client.ready import ready
from mgpu.endpoint import fingerprint
from mgpu.lean.typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

PATIENCE_S = 30.0  # with a connection, unless --connection-timeout says otherwise
PATIENCE_AGAIN_S = 10.0  # with one that stood before: it is tried again and again
DEAD_S = 30  # a link on which nothing of ours is confirmed for so long is gone
UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)


class Dialer:
    """The way to the master at `address`. `start_there` means nothing: nobody starts one from here. `who_serves_here`:
    whose master may answer on this machine without TLS, besides ours and root's."""

    def __init__(self, address: Address, who_serves_here: Callable[[], tuple[int, ...]] = lambda: ()) -> None:
        self.address = address
        self._who_serves_here = who_serves_here
        self.start_there = False
        self.timeout_s: float | None = None
        self.wake_fd = -1
        self.pinned = False  # the certificate is the one that was trusted here
        self._token = ""
        self._idle: list[Connection] = []
        self._stood = False

    @property
    def shown(self) -> str:
        return self.address.host

    @property
    def headers(self) -> dict[str, str]:
        """Of every request. Raises MasterError without a token."""
        self._token = self._token or find_token(self.address, os.environ)
        return {"Authorization": f"Bearer {self._token}"}

    def connect(self) -> Connection:
        """Raises NoMaster; MasterError without a token."""
        self.headers  # noqa: B018  (first, so that nobody is reached in vain)
        while (kept := self._kept()) is not None:
            if _stands(kept):
                return kept
            kept.close()
        connection = self._open()
        if self.address.tls:
            connection = self._secured(connection)
        elif why := neighbour.why_not(connection, self._who_serves_here):
            connection.close()
            hint = "use its socket, or `tls: true` and https://, where its certificate is looked at"
            raise NoMaster(f"{self.address.url} is not a master to trust: {why}", hint, lasting=True)
        self._stood = True
        return connection

    def _kept(self) -> Connection | None:
        """Threads take them side by side."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def keep(self, connection: Connection) -> None:
        self._idle.append(connection)

    def close(self) -> None:
        """Ends what was kept."""
        while self._idle:
            self._idle.pop().close()

    def _deadline(self) -> float:
        patience_s = PATIENCE_AGAIN_S if self._stood else PATIENCE_S
        return clock.monotonic() + (patience_s if self.timeout_s is None else max(self.timeout_s, 1.0))

    def _open(self) -> socket.socket:
        """The first of its addresses that answers."""
        error: Exception | None = None
        for family, where in self._addresses():
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                _notice_the_dead(connection)
                connection.setblocking(False)
                self._reach(connection, where)
            except OSError as failed:
                connection.close()
                error = failed
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        why = getattr(error, "strerror", None) or str(error)
        raise NoMaster(f"no master answers at {self.address.url} ({why})", _ADVICE.get(getattr(error, "errno", 0), ""))

    def _addresses(self) -> list[tuple[int, Any]]:
        if self.address.host == "localhost":  # whatever that leads to elsewhere
            port = self.address.port
            return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port, 0, 0))]
        try:
            found = socket.getaddrinfo(self.address.ascii, self.address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            what = f"no machine called {self.address.host} is known ({why})"
            raise NoMaster(what, "look at the name, and at your network (VPN?)") from error
        return [(family, where) for family, _, _, _, where in found]

    def _reach(self, connection: socket.socket, where: Any) -> None:
        deadline = self._deadline()
        status = connection.connect_ex(where)
        if status in UNDER_WAY:
            self._wait(connection, True, deadline)
            status = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, os.strerror(status))

    def _wait(self, connection: socket.socket, to_write: bool, deadline: float) -> None:
        """Raises TimeoutError, or NoMaster when `wake_fd` says that somebody has lost patience."""
        watched = [self.wake_fd] if self.wake_fd >= 0 else []
        left_s = max(deadline - clock.monotonic(), 0.0)
        ours = [connection.fileno()]
        reading, writing = ([], ours) if to_write else (ours, [])
        readable, writable = ready([*reading, *watched], writing, left_s)
        if not readable and not writable:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if not {*ours} & {*readable, *writable}:
            raise NoMaster("given up for now: not connected yet")

    # --- TLS ---

    def _secured(self, connection: socket.socket) -> socket.socket:
        """Closed unless it is the master's."""
        import ssl

        pin = find_pin(self.address, os.environ)
        self.pinned = bool(pin)
        try:
            secured = self._shake_hands(connection, _pinning() if pin else _by_authorities())
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise self._unknown(error.verify_message) from error
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            connection.close()
            raise NoMaster(f"{self.address.url} hung up before it let us in") from error
        except ssl.SSLError as error:
            connection.close()
            what = f"{self.address.url} speaks no TLS that we do ({error.reason or error})"
            raise NoMaster(what, "is that the master's port?", lasting=True) from error
        except OSError as error:
            connection.close()
            raise NoMaster(f"{self.address.url} hung up before it let us in ({error.strerror or error})") from error
        except BaseException:
            connection.close()
            raise
        shown = fingerprint(secured.getpeercert(binary_form=True) or b"")
        if pin and shown != pin:
            secured.close()
            raise self._another(shown, pin)
        return secured

    def _shake_hands(self, connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        import ssl

        deadline = self._deadline()
        secured = context.wrap_socket(connection, server_hostname=self.address.ascii, do_handshake_on_connect=False)
        try:
            while True:
                try:
                    secured.do_handshake()
                except ssl.SSLWantReadError:
                    self._wait(secured, False, deadline)
                except ssl.SSLWantWriteError:
                    self._wait(secured, True, deadline)
                else:
                    return secured
        except BaseException:
            secured.close()
            raise

    def _unknown(self, why: str) -> NoMaster:
        what = f"the certificate that {self.address.url} shows is not known here ({why})"
        hint = f"compare it with what mgpu status says on the head: mgpu token trust {self.address.url}"
        return NoMaster(what, hint, lasting=True)

    def _another(self, shown: str, pin: str) -> NoMaster:
        what = f"{self.address.url} shows another certificate than the one trusted here: {shown}, not {pin}"
        way_out = f"mgpu token trust {self.address.url}"
        hint = f"somebody may stand in between; if the master has a new one, and only then: {way_out}"
        return NoMaster(what, hint, lasting=True)


_ADVICE = {
    errno.ECONNREFUSED: "does a master listen there? mgpu status says so on the head",
    errno.ETIMEDOUT: "is it switched on, and does a firewall drop that port? A longer try: --connection-timeout",
    errno.EHOSTUNREACH: "is it switched on, and are you in the right network (VPN)?",
    errno.ENETUNREACH: "are you in the right network (VPN)?",
}


def fetch_certificate(address: Address) -> bytes:
    """What is shown there now, whoever it is. Nothing is said. Raises NoMaster."""
    dialer = Dialer(address)
    connection = dialer._open()
    try:
        secured = dialer._shake_hands(connection, _pinning())
    except OSError as error:
        connection.close()
        raise NoMaster(f"{address.url} speaks no TLS that we do ({error})", "is that the master's port?") from error
    with secured:
        return secured.getpeercert(binary_form=True) or b""


def _stands(connection: Connection) -> bool:
    """Whether the other side has not closed it. What TLS itself has to say is read by this, and is no sign of it."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _pinning() -> ssl.SSLContext:
    """For whoever holds the key of the certificate that is shown; which that is, is looked at afterwards."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _ours(context)


def _by_authorities() -> ssl.SSLContext:
    import ssl

    return _ours(ssl.create_default_context())


def _ours(context: ssl.SSLContext) -> ssl.SSLContext:
    import ssl

    from mgpu.client.tls import TlsSocket

    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = TlsSocket
    return context


def _notice_the_dead(connection: socket.socket) -> None:
    """What the system has of this."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("KEEPIDLE", 10), ("KEEPINTVL", 5), ("KEEPCNT", 4), ("USER_TIMEOUT", DEAD_S * 1000)):
        if hasattr(socket, f"TCP_{name}"):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)
