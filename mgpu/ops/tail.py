"""Where a reader of output begins who does not want all: some lines before the end, or what came since a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mgpu.core.model import PartKey
from mgpu.ops.jobs import parse_count
from mgpu.ops.since import moment_asked
from mgpu.store.spool import Spool, Stream


@dataclass(frozen=True, slots=True)
class Beginning:
    """`tail`: so many lines before the end; `since`: what came then or later; of both the later one. Neither: all."""

    tail: int | None = None
    since: float | None = None

    @property
    def of_all(self) -> bool:
        return self.tail is None and self.since is None

    def offset(self, spool: Spool, key: PartKey, stream: Stream) -> int:
        places = [0]
        if self.tail is not None:
            places.append(spool.tail(key, stream, self.tail))
        if self.since is not None:
            places.append(spool.since(key, stream, self.since))
        return max(places)


ALL = Beginning()


def parse_beginning(query: Mapping[str, str]) -> Beginning:
    tail = query.get("tail", "")
    return Beginning(parse_count("tail", tail, 1 << 40) if tail else None, moment_asked(query, "since"))
