"""The way to a master, for a program: connections that are kept, threads that share them, processes that are forked."""

from __future__ import annotations

import os
from collections.abc import Callable

from mgpu.client.kept import Kept
from mgpu.client.locate import Location
from mgpu.client.master import Master
from mgpu.client.own_way import own_way


class Way:
    """`find`: where it is, as it is found out at first and in each process that was forked from ours. `start`: one that
    is missing is started. `patience_s`: as Master has it."""

    def __init__(self, find: Callable[[], Location], start: bool, patience_s: float | None) -> None:
        self.patience_s = patience_s
        self._find = find
        self._start = start
        self._begin()

    def _begin(self) -> None:
        self.location = self._find()
        self._kept = None if self.location.endpoint.dialer else Kept()
        self._master = Master(self.location, self._start, self.patience_s, self._kept)
        self._pid = os.getpid()

    def master(self) -> Master:
        """For requests, in whichever thread."""
        if self._pid != os.getpid():  # what a dialer keeps is of the process that we were forked from
            self._pid = os.getpid()
            if self._kept is None:
                self._begin()
        return self._master

    def master_of_a_thread(self) -> Master:
        """For a stream, which whoever reads it may leave."""
        return Master(own_way(self.master().location), self._start, self.patience_s)

    def close(self) -> None:
        """Ends what was kept here; nothing that is of the process that we were forked from."""
        if self._pid != os.getpid():
            return
        if self._kept is not None:
            self._kept.close()
        elif (close := getattr(self.location.endpoint.dialer, "close", None)) is not None:
            close()
