"""The same way to the master, for a thread of which nobody waits: what wakes it wakes no other."""

from __future__ import annotations

from mgpu.client.http import Connection, Dialer
from mgpu.client.locate import Location


class WayOfAThread:
    """Another's dialer, but for who is woken."""

    start_there = False

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self.timeout_s = dialer.timeout_s
        self.wake_fd = -1

    @property
    def shown(self) -> str:
        return self._dialer.shown

    @property
    def headers(self) -> dict[str, str]:
        return self._dialer.headers

    def connect(self) -> Connection:
        return self._dialer.connect()

    def keep(self, connection: Connection) -> None:
        self._dialer.keep(connection)


def own_way(location: Location) -> Location:
    dialer = location.endpoint.dialer
    if dialer is None:
        return location
    return location._replace(endpoint=location.endpoint._replace(dialer=WayOfAThread(dialer)))
