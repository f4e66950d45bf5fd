"""The real store and the real spool, on a disk that fills up, under a master that dies between any two steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mgpu.core.errors import StoreError
from mgpu.core.model import JobId, PartKey
from mgpu.store.reading import Reader
from mgpu.store.spool import Spool, Stream
from mgpu.store.store import Store
from mgpu.store.writing import Writer

Step = Callable[[str], None]


def nothing(what: str) -> None:
    """No trouble at this step."""


class TroubledStore(Store):
    """`crash` may raise Crash at each step, `full` StoreError before a commit. Both are set once it is open."""

    crash: Step = staticmethod(nothing)
    full: Step = staticmethod(nothing)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self.crash("before a read")
        with super().read() as reader:
            yield reader

    @contextmanager
    def write(self) -> Iterator[Writer]:
        self.crash("before a write")
        with super().write() as writer:
            yield writer
            self.full("write")
            self.crash("before a commit")
        self.crash("after a commit")


class TroubledSpool(Spool):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.crash: Step = nothing
        self.full: Step = nothing

    def append(self, key: PartKey, stream: Stream, offset: int, data: bytes) -> int:
        self.crash("before an append")
        try:
            self.full("append")
        except StoreError:
            super().append(key, stream, offset, data[: len(data) // 2])  # what did fit
            raise
        size = super().append(key, stream, offset, data)
        self.crash("after an append")
        return size

    def sync(self, key: PartKey) -> None:
        self.full("sync")
        super().sync(key)
        self.crash("after a sync")

    def notify(self, job_id: JobId) -> None:
        self.crash("at a notify")
        super().notify(job_id)
