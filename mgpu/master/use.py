"""What everybody has used: read from the history once, then kept up to date by what holds GPUs at each pass."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mgpu.config.model import Config
from mgpu.core.fairshare import FairShare, Ledger, Turn
from mgpu.core.limits import charge
from mgpu.core.model import Job, NodeName
from mgpu.core.plan import Bounds, Owner, PendingJob, Precedence, Scope, Used
from mgpu.master.board import Board
from mgpu.store.store import Store

REMEMBERED = 10  # half-lives: of what was used before, a thousandth counts


def owner_of(job: Job) -> Owner:
    return Owner(job.user, job.spec.account)


class Use:
    """Followed by the master's thread, asked by any. Beside what everybody has used lately, for the order of the queue,
    it knows what is in use of each limit."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._rules = config.fair_share
        self._bounds = config.bounds
        self._partitions = {node.name: node.facts.partitions for node in config.nodes}
        self._ledger: Ledger | None = None
        self._hours: Ledger | None = None  # by limit, where any is of GPU-hours
        self._lock = threading.Lock()

    def follow(self, board: Board, now: float) -> None:
        if self._ledger is None:
            self._ledger, self._hours = self._read(now)
        with self._lock:
            self._ledger.hold(_held(board), now)
            if self._bounds is None:
                return
            used: dict[Scope, Used] = {}
            for item in board:
                held = [(self._of(part.node), len(part.uuids)) for part in item.parts if part.state.holds_devices]
                if held:
                    charge(used, owner_of(item.job), item.job.spec.request.partition, held, self._bounds)
            if self._hours is not None:
                self._hours.hold({_key(scope): one.gpus for scope, one in used.items() if one.gpus}, now)
            self._bounds = replace(self._bounds, used=used)

    def order(self, owners: Iterable[Owner | None], now: float) -> Precedence:
        with self._lock:
            return self._ledger.order(owners, now) if self._ledger else Precedence(now)

    def turn(self, job: PendingJob, now: float) -> Turn:
        with self._lock:
            return (self._ledger or Ledger(self._rules, now)).turn(job, now)

    def bounds(self, now: float) -> Bounds | None:
        """As far as the last pass, with the GPU-hours as of now."""
        with self._lock:
            if self._bounds is None or self._hours is None:
                return self._bounds
            used = dict(self._bounds.used)
            for key in self._hours.known():
                scope = Scope(key.account, *key.user.split("\0"))
                used[scope] = used.get(scope, Used())._replace(gpu_hours=self._hours.standing(key, now).gpu_hours)
            return replace(self._bounds, used=used)

    def _of(self, node: NodeName) -> Sequence[str]:
        return self._partitions.get(node, ())

    def _read(self, now: float) -> tuple[Ledger, Ledger | None]:
        half_life = self._rules.half_life_s or FairShare().half_life_s
        ledger = Ledger(self._rules, now)
        counted = self._bounds is not None and any(one.gpu_hours is not None for one in self._bounds.all)
        hours = Ledger(FairShare(half_life), now) if counted else None
        if half_life and (self._rules.asks_owner or hours):
            with self._store.read() as reader:
                for use in reader.used_since(now - REMEMBERED * half_life, now):
                    owner = Owner(use.user, use.account)
                    ledger.used(owner, use.gpus, use.start, use.end)
                    if hours is not None and self._bounds is not None:
                        charged: dict[Scope, Used] = {}
                        held = [(self._of(NodeName(use.node)), use.gpus)]
                        charge(charged, owner, use.partition, held, self._bounds)
                        for scope in charged:
                            hours.used(_key(scope), use.gpus, use.start, use.end)
        return ledger, hours


def _key(scope: Scope) -> Owner:
    return Owner(f"{scope.name}\0{scope.user}", scope.kind)


def _held(board: Board) -> Mapping[Owner, int]:
    found: Counter[Owner] = Counter()
    for item, part in board.parts():
        if part.state.holds_devices and part.uuids:
            found[owner_of(item.job)] += len(part.uuids)
    return found
