"""Messages -> stored state: one transaction a batch, every change through core.lifecycle and with its audit row."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from mgpu.core import health, lifecycle, marks, retry
from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.lifecycle import News, PartEvent
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import AttemptState, Audit, FailureClass, Job, JobId, NodeName, NodeState, Part, PartKey
from mgpu.core.observation import MarkKind, Node
from mgpu.core.reconcile import ANY_RANK
from mgpu.master.board import Board, Running
from mgpu.master.inbox import Collected, GivenUp, Heard, LeftBehind, Message, Ordered, Probed, Silent
from mgpu.ops import arrays
from mgpu.ops.output import NOTICE
from mgpu.ops.render import said
from mgpu.store.writing import Writer

_MOST_SHOWN = 16  # GPUs of a node in one line
_LATELY = 8  # parts that ended well are remembered: see marks.after_end

_TOLD = frozenset({PartEvent.REBOOTED, PartEvent.UNREACHABLE, PartEvent.ORPHANED, PartEvent.STUCK, PartEvent.GIVEN_UP})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What deciding takes from outside: the rules, whether a job could run elsewhere, a source of jitter in [0, 1), and
    whether so many bytes of a part's output are in the spool for good."""

    rules: retry.Rules
    unhealthy_after: int
    elsewhere: Callable[[Job, tuple[Part, ...]], bool]
    jitter: Callable[[], float]
    drained: Callable[[PartKey, tuple[int, int]], bool]
    well: deque[Part] = field(default_factory=lambda: deque(maxlen=_LATELY))


class Absorber:
    """One batch inside one writing transaction; the board is kept equal to what is stored."""

    def __init__(self, writer: Writer, board: Board, now: float, judgement: Judgement) -> None:
        self._writer = writer
        self._board = board
        self._now = now
        self._judgement = judgement
        self._before: dict[tuple[JobId, int], Running] = {}  # of the attempts that something was heard of
        self.changed: set[JobId] = set()
        self.nodes: dict[NodeName, Node] = {}  # those that have changed
        self._known: Mapping[NodeName, Node] = {}
        self.ended: list[tuple[Part, str]] = []  # with its token
        self.failures: list[FailureClass] = []  # of the attempts that ended
        self.finished: list[Part] = []  # ended and collected: their run directories can go

    def absorb(self, messages: Iterable[Message], nodes: Mapping[NodeName, Node]) -> None:
        self._known = nodes
        for message in messages:
            if isinstance(message, Probed):
                self._probed(message)
            elif isinstance(message, Heard):
                for news in message.news:
                    self._hear(message.node, news, message.whose)
            elif isinstance(message, LeftBehind):
                self._left_behind(message)
            elif isinstance(message, Silent):
                self._silent(message)
            elif isinstance(message, Collected):
                self._collected(message)
            elif isinstance(message, GivenUp):
                self._given_up(message)
            elif isinstance(message, Ordered):
                self._ordered(message)
        for item in list(self._board):
            if item.job.stop and item.current:
                self._settle(item, item.parts)
        self._save()
        self._save_nodes()

    def _node(self, name: NodeName) -> Node:
        return self.nodes.get(name) or self._known[name]

    def _probed(self, message: Probed) -> None:
        node = self._node(message.node)
        if isinstance(message.outcome, health.ProbeFailure):
            after = health.unseen(node, message.outcome, self._now, self._judgement.unhealthy_after)
        else:
            after = health.seen(node, message.outcome, self._now)
        self.nodes[node.name] = after
        if after.state is not node.state or after.reason != node.reason:
            changed = after.state is not node.state
            what = str(after.state) if changed else "trouble" if after.reason else "well"
            self._audit(f"node {what}", None, node.name, after.reason or (_shown_gpus(after) if changed else ""))

    def _hear(self, node: NodeName, news: News, whose: tuple[str, ...] = ()) -> None:
        part = self._board.resolve(news.key, node)
        if part is None or part.node != node or (whose and part.account not in whose):
            return  # long done with, or not for that account to tell
        if news.event is PartEvent.EXITED and news.key.rank == ANY_RANK and part.started is None:
            return  # the event of its start was missed: the next look tells both
        news = replace(news, key=part.key)
        after = lifecycle.step_part(part, news)
        if after.state is AttemptState.ENDED and not after.collected and news.sizes is not None:
            after = replace(after, collected=self._judgement.drained(part.key, news.sizes))
        if news.event in _TOLD and after != part:
            self._audit(news.event.value, part.job_id, node, news.reason)
        item = self._board.get(part.job_id, part.attempt)
        assert item is not None  # the part came from it
        if news.notice == "home" and part.started is None:
            self._tell_at_home(item, part)
        self._settle(item, tuple(after if other.rank == part.rank else other for other in item.parts))

    def _tell_at_home(self, item: Running, part: Part) -> None:
        """Once, however many nodes the job has: in most cases it is so on all of them."""
        cannot = f"{item.job.spec.submit_dir} cannot be entered on "
        before = self._writer.audits(job_id=part.job_id, what=NOTICE) if len(item.parts) > 1 else []
        if not any(entry.detail.startswith(cannot) for entry in before):
            self._audit(NOTICE, part.job_id, part.node, cannot + _at_home(item, part))

    def _left_behind(self, message: LeftBehind) -> None:
        """Told where nobody asked for the job's end: whoever did knows that all of it goes."""
        part = self._board.resolve(message.key, message.node)
        item = part and self._board.get(part.job_id, part.attempt)
        helped = item and ends_with_rank_0(item.job)  # by what may see a moment later that it is over
        theirs = part and part.node == message.node and (not message.whose or part.account in message.whose)
        if part and item and theirs and not (part.stop or item.job.stop or helped):
            self._audit(NOTICE, part.job_id, part.node, _left(part, message.count))

    def _silent(self, message: Silent) -> None:
        for _, part in self._board.on(message.node):
            if part.state.holds_devices and part.state is not AttemptState.LOST:
                news = News(part.key, PartEvent.UNREACHABLE, message.at, reason=message.reason)
                self._hear(message.node, news, message.whose)

    def _given_up(self, message: GivenUp) -> None:
        reason = f"given up by {message.by} without proof that it has ended: it may run twice"
        for _, part in self._board.on(message.node):
            if part.state is AttemptState.LOST:
                self._hear(message.node, News(part.key, PartEvent.GIVEN_UP, message.at, reason=reason))

    def _ordered(self, message: Ordered) -> None:
        order, node = message.order, self._node(message.node)
        after = marks.obey(node, order, self._judgement.unhealthy_after, self._now)
        if after != node:
            self.nodes[node.name] = after
            what, which = "drain" if order.drain else "resume", ", ".join(order.devices)
            detail = "; ".join(filter(None, (which, order.reason)))
            by = (order.uid, order.origin)
            self._writer.audit(Audit(self._now, order.by, f"node {what}", None, node.name, detail, *by))

    def _collected(self, message: Collected) -> None:
        part = self._board.resolve(message.key, None)
        item = self._board.get(message.key.job_id, message.key.attempt)
        if part is None or item is None:
            return
        after = replace(part, collected=True, reason=message.trouble or part.reason)
        if message.trouble:
            self._audit("output incomplete", part.job_id, part.node, message.trouble)
        self._settle(item, tuple(after if other.rank == part.rank else other for other in item.parts))

    def _settle(self, item: Running, parts: tuple[Part, ...]) -> None:
        over = all(part.state is AttemptState.ENDED for part in parts)
        given = self._given(item, parts) if over else retry.Given()
        settled = lifecycle.settle(item.job, item.attempt, parts, self._now, self._judgement.rules, given)
        self._before.setdefault((item.job.job_id, item.attempt.number), item)
        self._board.put(Running(settled.job, settled.attempt, settled.parts))

    def _given(self, item: Running, parts: tuple[Part, ...]) -> retry.Given:
        tried = self._writer.attempts(item.job.job_id) if item.attempt.number > 1 else []
        failures = [one.failure for one in tried if one.number < item.attempt.number]
        return retry.Given(
            elsewhere=self._judgement.elsewhere(item.job, parts),
            own_exits=failures.count(FailureClass.EXIT),
            requeues=failures.count(FailureClass.REQUEUED),
            ports=failures.count(FailureClass.PORT),
            jitter=self._judgement.jitter(),
        )

    def _save(self) -> None:
        """What the whole batch made of an attempt is written once."""
        for key, before in self._before.items():
            after = self._board.get(*key)
            assert after is not None
            for was, part in zip(before.parts, after.parts, strict=True):
                if was != part:
                    self._writer.save_part(part, was)
                    self._note_end(was, part, after.attempt.token_of(part))
            if after.attempt != before.attempt:
                if after.attempt.state is AttemptState.ENDED and before.attempt.state is not AttemptState.ENDED:
                    self.failures.append(after.attempt.failure)
                self._writer.save_attempt(after.attempt, before.attempt)
            if after.job != before.job:
                self._writer.save_job(after.job, before.job)
            if after != before:
                self.changed.add(after.job.job_id)
        for array_id in self._arrays_with_ends():
            arrays.end_if_over(self._writer, array_id, self._now)

    def _arrays_with_ends(self) -> set[JobId]:
        """Those of which a task has just ended."""
        found = set()
        for key, before in self._before.items():
            after = self._board.get(*key)
            if before.job.array_id is not None and after is not None and after.job.state.final:
                found.add(before.job.array_id)
        return found

    def _save_nodes(self) -> None:
        """With what the ends of parts say of their GPUs; and who is drained may now be empty."""
        for part, _ in self.ended:
            self._learn(part)
        draining = [name for name in self._known if self._node(name).state is NodeState.DRAINING]
        busy = Counter(part.node for _, part in self._board.parts() if draining and part.state.holds_devices)
        for name in draining:
            node = self._node(name)
            after = health.ebb(node, busy[name], self._now)
            if after is not node:
                self.nodes[name] = after
                self._audit(f"node {after.state}", None, name, "")
        for name, node in self.nodes.items():
            self._writer.save_node(node, self._known[name])

    def _learn(self, part: Part) -> None:
        if part.node not in self._known:
            return  # no longer in the inventory
        if marks.ended_well(part):
            self._judgement.well.append(part)
        node = self._node(part.node)
        running = (other for _, other in self._board.parts() if other.state is AttemptState.RUNNING)
        after = marks.after_end(node, part, chain(running, self._judgement.well), said(self._now))
        if after is node:
            return
        self.nodes[node.name] = after
        for device in part.uuids:
            before, mark = node.mark(MarkKind.SUSPECT, device), after.mark(MarkKind.SUSPECT, device)
            if before is not mark:
                self._audit("GPU suspect" if mark else "GPU no longer suspect", part.job_id, part.node, device)

    def _note_end(self, before: Part, after: Part, token: str) -> None:
        over = after.state is AttemptState.ENDED
        if over and before.state is not AttemptState.ENDED:
            self.ended.append((after, token))
        if over and after.collected:
            self.finished.append(after)

    def _audit(self, what: str, job_id: JobId | None, node: NodeName | None, detail: str) -> None:
        self._writer.audit(Audit(self._now, WHO, what, job_id, node, detail))


def _shown_gpus(node: Node) -> str:
    """What a node that has come up brings: `2 GPUs: 0 NVIDIA A100 (81920 MiB), 1 ...`"""
    gpus = node.observation.gpus if node.state is NodeState.UP and node.observation is not None else ()
    each = [f"{gpu.index} {gpu.name} ({gpu.memory_total_mib} MiB)" for gpu in gpus[:_MOST_SHOWN]]
    more = [f"{len(gpus) - _MOST_SHOWN} more"] if len(gpus) > _MOST_SHOWN else []
    return f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}: {', '.join([*each, *more])}" if each else ""


def _left(part: Part, processes: int) -> str:
    one = processes == 1
    left = f"the command ended and left {processes} process{'' if one else 'es'} running on {part.node}"
    return f"{left}: {'it was' if one else 'they were'} ended too, as a job lasts as long as its command"


def _at_home(item: Running, part: Part) -> str:
    """Of a directory that nobody asked for: it is only where the user stood."""
    where = part.node if len(item.parts) == 1 else f"{part.node}, or on others of its nodes"
    return f"{where}: running in the home directory there (-D DIR names another, --ship sends it along)"
