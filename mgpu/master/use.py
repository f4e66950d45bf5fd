"""What everybody has used: read from the history once, then kept up to date by what holds GPUs at each pass."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from mgpu.config.model import Config
from mgpu.core.fairshare import Ledger, Turn
from mgpu.core.model import Job
from mgpu.core.plan import Order, Owner, PendingJob
from mgpu.master.board import Board
from mgpu.store.store import Store

REMEMBERED = 10  # half-lives: of what was used before, a thousandth counts


def owner_of(job: Job) -> Owner:
    return Owner(job.user, job.spec.account)


class Use:
    """Followed by the master's thread, asked by any."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._rules = config.fair_share
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()

    def follow(self, board: Board, now: float) -> None:
        ledger = self._ledger or self._read(now)
        with self._lock:
            self._ledger = ledger
            ledger.hold(_held(board), now)

    def order(self, owners: Iterable[Owner | None], now: float) -> Order:
        with self._lock:
            return self._ledger.order(owners, now) if self._ledger else Order(now)

    def turn(self, job: PendingJob, now: float) -> Turn:
        with self._lock:
            return (self._ledger or Ledger(self._rules, now)).turn(job, now)

    def _read(self, now: float) -> Ledger:
        ledger = Ledger(self._rules, now)
        if self._rules.asks_owner and self._rules.half_life_s:
            with self._store.read() as reader:
                for use in reader.used_since(now - REMEMBERED * self._rules.half_life_s, now):
                    ledger.used(Owner(use.user, use.account), use.gpus, use.start, use.end)
        return ledger


def _held(board: Board) -> Mapping[Owner, int]:
    found: Counter[Owner] = Counter()
    for item, part in board.parts():
        if part.state.holds_devices and part.uuids:
            found[owner_of(item.job)] += len(part.uuids)
    return found
