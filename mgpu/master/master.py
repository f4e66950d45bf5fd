"""The master: one pass after the other over what is stored, and what only it can do for the operations."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait

from mgpu import clock as system_clock
from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core import health, retry
from mgpu.core.errors import StoreError
from mgpu.core.lifecycle import PartEvent
from mgpu.core.marks import Order
from mgpu.core.model import AttemptState, FailureClass, Job, JobId, NodeName, Part
from mgpu.core.observation import Node, Observation
from mgpu.core.plan import NodeView, Snapshot, Wait
from mgpu.core.policies import POLICIES, Policy
from mgpu.core.probe import renumbered
from mgpu.master.absorb import Absorber, Judgement
from mgpu.master.attendance import Attendance
from mgpu.master.board import Board
from mgpu.master.collect import Collector
from mgpu.master.concerns import Concerns
from mgpu.master.conflicts import Conflicts
from mgpu.master.dispatch import Dispatch
from mgpu.master.doors import Doors
from mgpu.master.inbox import Asked, Done, GivenUp, Heard, Inbox, Message, Ordered, Probed, Seen, Step, Word
from mgpu.master.inquiry import Inquiry
from mgpu.master.links import Links
from mgpu.master.preflight import Preflight
from mgpu.master.probing import Probing
from mgpu.master.realise import Realiser
from mgpu.master.residue import Residues
from mgpu.master.retention import Retention
from mgpu.master.sampling import Sampler
from mgpu.master.signalling import Signaller
from mgpu.master.spawning import Spawner
from mgpu.master.stdin import Stdins
from mgpu.master.trust import Trust
from mgpu.master.worker import SystemThreads, Threads
from mgpu.meters import Meters
from mgpu.ops.context import TREES
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from mgpu.store.trees import Trees

log = logging.getLogger(__name__)

_TROUBLE_PAUSE_S = 2.0

MOST_REST_S = 0.02  # passes take half of the time at most, while one thing comes after the other
WORD_S = 20.0  # for an operator's word to be stored
AFTER_END_S = 1.0  # until a node is probed after a job ended there


class Master:
    """`tick` belongs to one thread; the methods of the Control protocol (see ops.context) to any."""

    def __init__(
        self,
        config: Config,
        store: Store,
        spool: Spool,
        make_links: Callable[[Inbox], Links],
        policies: Mapping[str, Policy] = POLICIES,
        threads: Threads | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self.inbox = Inbox()
        self.meters = Meters()
        self.stopping = threading.Event()
        self.restarting = False  # stopping, for the program anew in this process
        self.successor: Config | None = None  # stopping, for another in this process that goes by this
        self._clock = clock
        self._config = config
        self._store = store
        self._spool = spool
        self._links = make_links(self.inbox)
        self._nodes: dict[NodeName, Node] = {}
        threads = threads or SystemThreads()
        self._doors = Doors(self._links, config, threads, clock)
        self._dispatch = Dispatch(config, store, spool, self._doors, self._nodes, policies, clock)
        trees = Trees(store.path.parent / TREES, config.ship_max)
        self._spawner = Spawner(self._links)
        wake, ports = self.inbox.wake, config.master_ports
        preflight = Preflight(self._links, threads, clock, ports, wake, self._seen, config.preflight)
        self._realiser = Realiser(self._links, self.inbox, self._renumbered, trees, store.exports, preflight)
        self._collector = Collector(self._links, spool, self.inbox, threads)
        # what these alone answer for, of the Control protocol
        residues = Residues(self._links, threads)
        self.residue, self.remove = residues.look, residues.remove
        self.own_key, self.enter = self._links.public_key, self._doors.test
        keys = Trust(self._links, store, config, clock, self._trusted)
        self.host_keys, self.trust = keys.shown, keys.take
        self.is_looked_at = preflight.is_looked_at
        self.inquire = Inquiry(self._links, preflight, threads, clock, self._seen).ask
        self.watch = self._collector.watch
        self.signal = Signaller(store, self._links).send
        self.bring = self._collector.bring
        self.turn = self._dispatch.turn
        self.attendance = Attendance(store, spool, clock, self.inbox.wake)
        self.stdins = Stdins(self._links, self.inbox, threads)
        self._judgement = Judgement(
            retry.Rules(config.retries_max, config.backoff_s, config.backoff_max_s, config.requeues_max),
            config.unhealthy_after,
            self._dispatch.elsewhere,
            random.random,
            self._collector.drained,
        )
        self._backlog: list[Message] = []
        self._board: tuple[object, Board] | None = None  # with the store's version that it is of
        self._probing = Probing(self._links, config, self.stopping, clock)
        self._concerns = Concerns(config, store.path.parent, self.meters, clock)
        self.errors = self._concerns.lines
        self._conflicts = Conflicts(store)
        self._retention = Retention(store, spool, config, threads, clock, wake)
        self._sampler = Sampler(store, config, threads, clock)
        self.settle = self._sampler.settle
        self._measure()
        self._busy_at = self._moved_at = self._clock.monotonic()

    def _measure(self) -> None:
        self._store.listen(self.meters.happened)
        self.meters.nodes = lambda: dict(self._nodes)
        self.meters.views = lambda: self._dispatch.views
        self.meters.contacts = self._links.contacts

    # --- a pass -----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """What is stored of the inventory's nodes; all of them are probed before anything starts there."""
        with self._store.write() as writer:
            stored = {node.name: node for node in writer.nodes()}
            for name, link in self._links.items():
                node = stored.get(name, Node(name))
                if name not in stored:
                    writer.save_node(node)
                self._nodes[name] = node
                link.remember(node.observation)
        self.attendance.load()
        self._sampler.load()
        with self._store.read() as reader:
            self._dispatch.refresh(Board.read(reader))

    def tick(self) -> float:
        """One pass; seconds until the next one is due if nothing wakes it."""
        began, trouble = self._clock.monotonic(), ""
        self._probing.expire(began)
        self._concerns.look()
        try:
            return self._tick()
        except StoreError as error:
            self._refuse(error)
            text = trouble = f"{error.message}; {error.hint}"
            if self._concerns.add(text):
                log.error("%s", text)
        except Exception as error:
            text = trouble = f"internal error: {type(error).__name__}: {error}"
            self._refuse(StoreError(text, "the master's log says more"))
            # a fault of ours, or a value that nobody thought of: what was heard is dropped, the next look tells it.
            # That an order was carried out is told once only, and without it the order would never be given again
            self._backlog = [message for message in self._backlog if isinstance(message, Done)]
            if self._concerns.add(text):
                log.exception("a pass failed: %s", text)
        finally:
            ended = self._clock.monotonic()
            self.meters.passed(began, ended, trouble)
            self.inbox.rest(min(ended - began, MOST_REST_S))
        return _TROUBLE_PAUSE_S

    def _refuse(self, error: StoreError) -> None:
        """Whoever waits for a word of theirs to be stored hears that it was not."""
        for message in self._backlog:
            if isinstance(message, Word) and not message.done.done():
                message.done.set_exception(error)
        self._backlog = [message for message in self._backlog if not isinstance(message, Word)]

    def _tick(self) -> float:
        self._backlog += [message for message in self.inbox.take() if _wanted(message)]
        if any(self._moves(message) for message in self._backlog):
            self._moved_at = self._clock.monotonic()
        alone = self.attendance.end_abandoned()
        board = self._absorb(self._backlog)
        self._dispatch.refresh(board)
        self._follow_up(self._backlog, board)
        self._sampler.follow(self._backlog, board, self._dispatch.views)
        self._backlog = []
        now, monotonic = self._clock.now(), self._clock.monotonic()
        board = self._dispatch.plan(board, now)
        if self._dispatch.looks:
            self._moved_at = self._clock.monotonic()
        for job_id in self._conflicts.tell(self._dispatch.views, now):
            self._spool.notify(job_id)
        after = self._config.unhealthy_after
        up = {name for name, node in self._nodes.items() if health.in_contact(node, after)}
        answering = {name for name in up if not self._nodes[name].failures}
        # first: who follows an attempt that has ended must be stopped before the next one appends to the same file
        due = [self._collector.collect(board, monotonic)]
        self.stdins.tend(board)
        self._links.tend(board, up, monotonic)
        due += [self._realiser.realise(board, answering, now, monotonic)]
        due += [self._spawner.tend(board, monotonic)]
        due += [self._probing.begin(monotonic, up), self._dispatch.due, alone]
        due += [self._retention.tend(monotonic), self._sampler.tend(monotonic)]
        self._realiser.forget(board)
        if any(True for _ in board) or self._dispatch.waits:
            self._busy_at = monotonic
        return max(0.02, min(due))

    def _moves(self, message: Message) -> bool:
        """Whether more may follow from it; looks that come round for ever do not count."""
        return not isinstance(message, Probed) or not self._probing.has_answered(message.node)

    def _absorb(self, messages: Sequence[Message]) -> Board:
        stored = [message for message in messages if not isinstance(message, Done | Seen | Asked | Step)]
        if not stored:
            board = self._stored()
            if not board.wishes:
                return board
        with self._store.write() as writer:
            board = Board.read(writer)
            absorber = Absorber(writer, board, self._clock.now(), self._judgement)
            absorber.absorb(stored, self._nodes)
        self._nodes.update(absorber.nodes)
        self._remember(absorber)
        return Board(item for item in board if not all(_done(part) for part in item.parts))

    def _stored(self) -> Board:
        """As `Board.read`; not read again where nothing was written since."""
        version = self._store.version
        if self._board is None or self._board[0] is not version:
            with self._store.read() as reader:
                self._board = version, Board.read(reader)
        return self._board[1]

    def _remember(self, absorber: Absorber) -> None:
        """After the commit: tell the readers, and what follows from an end."""
        self.meters.failed(absorber.failures)
        now = self._clock.now()
        for part, token in absorber.ended:
            self._dispatch.gone(part, token, now)
            # what `nodes` shows of its GPUs is out of date now
            self._probing.soon(part.node, AFTER_END_S)
            if part.failure is FailureClass.NODE and part.node in self._links:
                self._links[part.node].refused_at = now
        for part in absorber.finished:
            link = self._links.of(part)
            if link is not None:
                link.clean([part.key])
        for job_id in absorber.changed:
            self._spool.notify(job_id)

    def _follow_up(self, messages: Sequence[Message], board: Board) -> None:
        """What the parts that remember between passes have to know."""
        monotonic = self._clock.monotonic()
        for message in messages:
            if isinstance(message, Done):
                self._realiser.done(message, monotonic)
            elif isinstance(message, Seen):
                self._realiser.seen(message.limits)
                self._collector.seen(message.sizes)
            elif isinstance(message, Asked | Step):
                self._spawner.heard(message, board, monotonic)
            elif isinstance(message, Heard):
                for news in message.news:
                    if news.event in (PartEvent.BEGUN, PartEvent.FOUND_ABSENT):
                        self._realiser.not_yet(news.key, news.event is PartEvent.BEGUN, monotonic)
                    if news.event is PartEvent.FOUND_ABSENT:
                        self._realiser.again("start", news.key)
            elif isinstance(message, Probed):
                node = self._nodes[message.node]
                pause = health.next_probe_in(node, self._config.heartbeat_interval_s, random.random())
                if node.failures:
                    self._realiser.look_now(message.node)
                self._probing.answered(message, monotonic, pause)
                self.meters.probed(message.node, None if message.failure else message.took_s)
            elif isinstance(message, Word):
                message.done.set_result(None)

    def _seen(self, name: NodeName) -> Observation | None:
        return self._nodes[name].observation

    def _renumbered(self, name: NodeName) -> bool:
        seen = self._seen(name)
        return seen is not None and renumbered(seen)

    # --- Control ----------------------------------------------------------------------------------------------------

    def probe(self, node: NodeName) -> Future[str]:
        return self._probing.ask(self._links.named(node).name)

    def _trusted(self, node: NodeName) -> None:
        self._probing.at_once(node)
        self.inbox.wake()

    def give_up(self, node: NodeName, by: str) -> None:
        self._say(GivenUp(self._links.named(node).name, by, self._clock.now(), Future()), "nothing was given up")

    def order(self, node: NodeName, order: Order) -> None:
        self._say(Ordered(self._links.named(node).name, order, Future()), "nothing was changed")

    def _say(self, word: Word, otherwise: str) -> None:
        self.inbox.put(word)
        wait([word.done], WORD_S)
        if word.done.cancel():
            raise StoreError(f"the master did not come to it: {otherwise}", "mgpu status says what troubles it")
        word.done.result()

    def stop(self) -> None:
        self.stopping.set()
        self.inbox.wake()

    def leave(self) -> None:
        """There will be no further pass: who waits for one is told so."""
        self.stopping.set()
        self._probing.stop()

    def reload(self, config: Config) -> None:
        self.successor = config
        self.stop()

    def restart(self) -> None:
        self.restarting = True
        self.stop()

    def wake(self) -> None:
        self.inbox.wake()

    def views(self) -> tuple[NodeView, ...]:
        self._probing.await_first()
        return self._dispatch.views

    def waits(self) -> Mapping[JobId, Wait]:
        return self._dispatch.waits

    def what_if(self, job: Job | None = None) -> tuple[Snapshot, Mapping[str, Policy]]:
        self._probing.await_first()
        return self._dispatch.what_if(job)

    def idle_for(self) -> float:
        """Seconds since anything was queued, running or watched; a monitor watches the queue itself."""
        if self._collector.watching:
            return 0.0
        return self._clock.monotonic() - max(self._busy_at, self.meters.looked_at)

    def still_for(self) -> float:
        """Seconds since anything moved, once every node was asked; 0 while something is under way."""
        still = self._probing.all_answered and not self._realiser.under_way
        return self._clock.monotonic() - self._moved_at if still else 0.0

    def close(self) -> None:
        self._collector.close()
        self._links.close()
        self._sampler.close()


def _wanted(message: Message) -> bool:
    """A word that nobody waits for any more is not carried out: its giver was told so."""
    return not isinstance(message, Word) or message.done.set_running_or_notify_cancel()


def _done(part: Part) -> bool:
    return part.state is AttemptState.ENDED and part.collected
