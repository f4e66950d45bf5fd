"""From what waits to what is stored as starting: the planner is asked, and what it says is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core import schedule
from mgpu.core.fairshare import Turn
from mgpu.core.memory import Memory
from mgpu.core.model import Job, JobId, NodeName, Part
from mgpu.core.observation import Node
from mgpu.core.plan import NodeView, Snapshot, Start, Wait
from mgpu.core.policies import Policy
from mgpu.master import planning
from mgpu.master.board import Board
from mgpu.master.doors import Doors
from mgpu.master.link import NodeLink
from mgpu.master.use import Use
from mgpu.master.views import Gone, Views
from mgpu.master.waiting import Waiting
from mgpu.store.spool import Spool
from mgpu.store.store import Store

_GONE_KEPT = 500  # a node; older ones were overtaken by a probe long ago


class Dispatch:
    """`nodes` is the master's own mapping, which it keeps up to date. `views`, `waits`, `what_if`, `turn` and
    `elsewhere` may be called from any thread."""

    def __init__(
        self,
        config: Config,
        store: Store,
        spool: Spool,
        doors: Doors,
        nodes: Mapping[NodeName, Node],
        policies: Mapping[str, Policy],
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._spool = spool
        self._doors = doors
        self._links = doors.links
        self._nodes = nodes
        self._policies = policies
        self._clock = clock
        self._make_views = Views(config)
        self._memory = Memory()
        self._waiting = Waiting(store, planning.spans(config), planning.owners(config))
        self._use = Use(store, config)
        self._asked: planning.Asked = (), ()
        self._gone: dict[NodeName, deque[Gone]] = {}
        self.views: tuple[NodeView, ...] = ()  # as the planner sees the nodes now
        self.waits: Mapping[JobId, Wait] = {}  # of the last plan
        self.due = 0.0  # seconds until a job's back-off ends, or something else that is waited for
        self.looks = False  # some wait for a look at their nodes alone

    def refresh(self, board: Board) -> None:
        self.views = self._make_views.of(self._nodes, board, self._gone, self._clock.now())

    def gone(self, part: Part, token: str, now: float) -> None:
        """It has ended: what a probe from before still shows of it is not taken for somebody else's."""
        self._gone.setdefault(part.node, deque(maxlen=_GONE_KEPT)).append(Gone(now, token, part.pid))

    def plan(self, board: Board, now: float) -> Board:
        """What there is afterwards."""
        self._use.follow(board, now)
        self.looks = False
        queue = self._waiting.read()
        if lost := self._waiting.end_lost(now):
            queue = self._waiting.read()
            self._notify(lost)
        barred, self._asked = self._waiting.barred, queue.at(now)
        if not queue:
            self.waits, self.due = dict(barred), self._config.heartbeat_interval_s
            return board
        views = planning.answering(self.views, self._nodes, self._links, now)
        snapshot = planning.snapshot(self._config, views, self._asked, board, now, self._use)
        snapshot = self._doors.close(snapshot, board)
        later = [job.not_before - now for job in snapshot.later]
        self.due = min(later, default=self._config.heartbeat_interval_s)
        self.due = min(self.due, self._doors.retry({batch.owner.user for batch in snapshot.batches if batch.owner}))
        plan = schedule.plan(snapshot, self._policies, self._memory)
        unsure = self._unsure(plan.starts)
        ready, stale = planning.fresh(plan, self._nodes, self._links, now)
        ready, stale = [start for start in ready if start.job_id not in unsure], {**unsure, **stale}
        if stale:
            self.looks = True
            self.due = min(self.due, planning.PATIENCE_S)
        if plan.more:
            self.due = 0.0
        self.waits = plan.waits.beside({**barred, **stale})
        return self._commit(ready, board, now) if ready else board

    def _unsure(self, starts: Iterable[Start]) -> dict[JobId, Wait]:
        """Those of which it has to be seen first whether their accounts can be entered."""
        found = {}
        for start in starts:
            queued = self._waiting.get(start.job_id)
            user = queued.user if queued else ""
            if names := self._doors.unsure(user, [part.node for part in start.parts]) if user else []:
                asked = f"{', '.join(names)}: asked whether jobs of {user} may run there"
                found[start.job_id] = Wait("Probing", asked)
        return found

    def _commit(self, ready: Sequence[Start], board: Board, now: float) -> Board:
        places = {name: self._place(name, link) for name, link in self._links.items()}
        taken = {item.attempt.port for item in board}
        grounds = planning.Grounds(
            places, self._doors.account_of, self._waiting.still, taken, self._config.master_ports
        )
        with self._store.write() as writer:
            tried = [planning.commit(writer, start, grounds, now) for start in ready]
            board = Board.read(writer)
        self.refresh(board)
        self._notify(job.job_id for job in tried if job is not None)
        return board

    def _place(self, name: NodeName, link: NodeLink) -> planning.Place:
        seen = self._nodes[name].observation
        # a master that has just begun may give out a node before it has logged in there itself
        return planning.Place(link.address or link.config.ssh.host, seen.hostname if seen else "")

    def _notify(self, jobs: Iterable[JobId]) -> None:
        for job_id in jobs:
            self._spool.notify(job_id)

    def elsewhere(self, job: Job, parts: tuple[Part, ...]) -> bool:
        return planning.elsewhere(self.views, job, parts)

    def what_if(self, job: Job | None = None) -> tuple[Snapshot, Mapping[str, Policy]]:
        with self._store.read() as reader:
            board, dependents = Board.read(reader), self._waiting.dependents(reader)
        more = self._waiting.pending(job, job.not_before) if job else None
        seen = planning.what_if(self._config, self.views, self._asked, board, self._clock.now(), more, self._use)
        return replace(self._doors.close(seen, board), dependents=dependents), self._policies

    def turn(self, job_id: JobId) -> Turn | None:
        queued = self._waiting.get(job_id)
        return self._use.turn(queued, self._clock.now()) if queued is not None else None
