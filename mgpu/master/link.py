"""One node as the master deals with it, under one account: its runner, and the few threads that may wait for it.

`orders` carries out quick requests in order, `bulk` fetches output, a thread of its own probes (at most one probe is
outstanding), another reads the events file. All of them only put messages into the inbox; a node that hangs holds up
nothing but its own threads.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from mgpu.clock import Clock
from mgpu.config.model import NodeConfig
from mgpu.core import reconcile
from mgpu.core.errors import StoreError
from mgpu.core.health import ProbeFailure
from mgpu.core.launch import Launch
from mgpu.core.lifecycle import START_HANGS
from mgpu.core.model import FailureClass, NodeName, Part, PartKey
from mgpu.core.observation import Observation
from mgpu.core.probe import parse_probe
from mgpu.logbook import about
from mgpu.master.inbox import Asked, Collected, Done, Heard, Inbox, LeftBehind, Probed, Seen, Silent, Step
from mgpu.master.pace import Hearing, Pace
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ProbeWanted, Refusal, Runner, Source

log = logging.getLogger(__name__)

SLOW_PROBE_S = 600.0  # between two looks at what seldom changes
GATHER_S = 0.2  # what regular probes and looks say may wait so long for what others say
EVENTS_PAUSE_S = 2.0  # before the events file is opened again
EVENTS_AT_ONCE, EVENTS_A_SECOND = 2000, 200.0  # lines of it that are heard, but for starts and ends of ours


@dataclass(frozen=True, slots=True)
class Known:
    """A part with its token: what a look has to be compared with."""

    part: Part
    token: str


class NodeLink:
    def __init__(
        self,
        config: NodeConfig,
        account: str,
        runner: Runner,
        probe_timeout_s: float,
        inbox: Inbox,
        threads: Threads,
        clock: Clock,
    ) -> None:
        self.name: NodeName = config.name
        self.config = config
        self.account = account
        self.whose: tuple[str, ...] = ()  # the accounts whose parts go through it; () = all of the node
        self.runner = runner
        self.orders = threads.line(f"orders {config.name}")
        self.bulk = threads.line(f"output {config.name}")
        self._probe_timeout_s = probe_timeout_s
        self._inbox = inbox
        self._threads = threads
        self._clock = clock
        self._probing = threading.Lock()
        self._hurry = False
        self.begun = 0  # probes
        self.refused_at = 0.0  # when it last could not start what it was asked to
        self._asked_at: float | None = None
        self._last_seen: Observation | None = None
        self._slowly_probed: float | None = None
        self._listening = False
        self._hearing = Hearing(Pace(EVENTS_AT_ONCE, EVENTS_A_SECOND))
        self._left: deque[PartKey] = deque(maxlen=100)  # of which leftovers were told lately
        self._looking = False
        self._closed = False
        self._bringing = threading.Lock()
        self._uptime: tuple[float, float] | None = None  # (our time, the node's uptime) of one instant

    @property
    def address(self) -> str:
        """Where the node was reached; "" before the first login."""
        return self.runner.address

    # --- probes -----------------------------------------------------------------------------------------------------

    def remember(self, seen: Observation | None) -> None:
        """What a master before this one saw last: a node that hangs now still has its GPUs."""
        self._last_seen = seen

    def probe(self, hurry: bool = True) -> bool:
        """Begin one in the background; False = one is still outstanding. `hurry`: somebody waits for it."""
        if hurry:
            self._hurry = True
        if self._closed or not self._probing.acquire(blocking=False):
            return False
        self.begun += 1
        self._asked_at = self._clock.monotonic()
        self._threads.spawn(f"probe {self.name}", self._probe)
        return True

    def _probe(self) -> None:
        number = self.begun  # no other one begins before this one is over
        first = number == 1
        began = self._clock.monotonic()
        try:
            now = self._clock.monotonic()
            slow = self._slowly_probed is None or now - self._slowly_probed > SLOW_PROBE_S
            config = self.config
            wanted = ProbeWanted(config.nvidia_smi, self._probe_timeout_s, slow, config.check, config.check_timeout_s)
            seen = parse_probe(self.name, self.runner.probe(wanted), self._clock.now(), self._last_seen)
            if slow:
                self._slowly_probed = now
            elif self._last_seen is None or self._last_seen.boot_id != seen.boot_id:
                self._slowly_probed = None
            self._last_seen = seen
            outcome = Probed(self.name, seen, number, self._clock.monotonic() - began)
        except RemoteError as error:
            outcome = Probed(self.name, ProbeFailure(error.message, not error.transient), number)
        except Exception as error:  # whatever it was, the node must be probed again
            log.exception("a probe failed", extra=about(node=self.name))
            outcome = Probed(self.name, ProbeFailure(f"its answer could not be read: {error}"), number)
        finally:
            hurry, self._hurry = self._hurry or first, False
            self._asked_at = None
            self._probing.release()
        self._inbox.put(outcome, 0.0 if hurry else GATHER_S)

    @property
    def asked_for_s(self) -> float:
        """That a probe is under way; 0 = none is."""
        began = self._asked_at
        return 0.0 if began is None else self._clock.monotonic() - began

    # --- orders -----------------------------------------------------------------------------------------------------

    def start(self, known: Known, launch: Launch, first: bool, tree: Source | None = None) -> None:
        """`first`: none was sent for this part before. Else an earlier request may still be on its way, and a refusal
        is an end only with a fence. `tree`: what has to be there before."""
        part = known.part
        name = reconcile.directory_name(part.key)
        self._hearing.expect(name)

        def task() -> None:
            try:
                answer = self.runner.start(name, known.token, part.uuids, launch)
            except RemoteError as error:
                if error.sent or not first or not self._is_shut(error):
                    raise
                # nothing of it has left us, now or before: that is proof that it does not begin
                answer = Refusal(error.message, FailureClass.LOGIN)
            if answer is not None:
                self._refused(known, answer, first)

        if tree is None:
            self._order("start", part.key, task)
        else:
            self._threads.spawn(f"tree {name} {self.name}", lambda: self._bring(known, launch.tree, tree, first, task))

    def _is_shut(self, error: RemoteError) -> bool:
        """An account of somebody's that does not let us in. Of the node's own the probes tell, for all jobs."""
        closed = error.trouble in (Trouble.AUTHENTICATION, Trouble.NO_COMMANDS, Trouble.UNPREPARED)
        return closed and bool(self.whose) and "" not in self.whose

    def refuse(self, known: Known, refusal: Refusal, first: bool) -> None:
        """It is not to begin, for this reason. `first` as in `start`."""
        self._order("start", known.part.key, lambda: self._refused(known, refusal, first))

    def _bring(self, known: Known, digest: str, tree: Source, first: bool, start: Callable[[], None]) -> None:
        """The tree, then `start`. It may take long, so it holds up no other order; several jobs that want the same one
        wait for the first of them."""
        after: Callable[[], None] | None = None
        try:
            with self._bringing:
                refusal = self.runner.send_tree(digest, tree)
            after = start if refusal is None else functools.partial(self._refused, known, refusal, first)
        except StoreError as error:
            gone = Refusal(f"{error.message}: {error.hint}", FailureClass.DIRECTORY)
            after = functools.partial(self._refused, known, gone, first)
        except RemoteError as error:
            self._lost(error)
        finally:
            if after is None:
                self._inbox.put(Done("start", known.part.key, False))
            else:
                self._order("start", known.part.key, after)

    def _refused(self, known: Known, answer: Refusal, first: bool) -> None:
        if not self._fence(known) and not first:
            raise RemoteError(f"{answer.text} (asked again: an earlier request may still arrive)", Trouble.REFUSED)
        refusal = reconcile.refusal(known.part.key, answer.text, self._clock.now(), answer.failure)
        self._inbox.put(Heard(self.name, (refusal,)))

    def _fence(self, known: Known) -> bool:
        key = reconcile.directory_name(known.part.key)
        try:
            return self.runner.stop(key, known.token, START_HANGS) == "fenced"
        except RemoteError as error:
            log.info("no fence: %s", error, extra=about(known.part.key, self.name))
            return False

    def stop(self, known: Known) -> None:
        """End the part, or see to it that it never begins; of one that was given up, find out that this is so."""
        part = known.part

        def task() -> None:
            answer = self.runner.stop(reconcile.directory_name(part.key), known.token, part.stop)
            if part.owes_fence and answer in ("fenced", "ended"):
                self._inbox.put(Collected(part.key))
            elif answer == "fenced":
                self._inbox.put(Heard(self.name, (reconcile.fenced(part.key, self._clock.now()),)))

        self._order("stop", part.key, task)

    def go(self, part: Part) -> None:
        self._order("go", part.key, lambda: self.runner.go(reconcile.directory_name(part.key), "run"))

    def limit(self, known: Known, seconds: int | None) -> None:
        """From now on it may run so long, counted from its start; None = as long as it wants."""
        name = reconcile.directory_name(known.part.key)
        self._order("limit", known.part.key, lambda: self.runner.limit(name, known.token, seconds))

    def signal(self, known: Known, word: str, told: Future[str]) -> None:
        """As the runner's; `told` what came of it. Who no longer waits cancels that, and then nothing is sent."""

        def task() -> None:
            if not told.set_running_or_notify_cancel():
                return
            try:
                told.set_result(self.runner.signal(reconcile.directory_name(known.part.key), known.token, word))
            except RemoteError as error:
                told.set_exception(error)
                self._lost(error)

        self.orders.do(task)

    def read_ask(self, part: Part, ask: str) -> None:
        """What it asks for; nothing where it asks no more."""

        def task() -> Step:
            try:
                text, size = self.runner.read(reconcile.directory_name(part.key), f"spawn/ask.{ask}", 0)
            except RemoteError as error:
                if error.trouble is not Trouble.GONE:
                    raise
                text, size = b"", 0
            return Step(part.key, ask, ("read" if len(text) == size else "long",), text)

        self._step(part.key, ask, task)

    def hand(self, known: Known, what: str, ask: str, text: bytes) -> None:
        """As the runner's."""
        key = known.part.key
        name = reconcile.directory_name(key)
        self._step(key, ask, lambda: Step(key, ask, self.runner.hand(name, known.token, what, ask, text)))

    def _step(self, key: PartKey, ask: str, task: Callable[[], Step]) -> None:
        def ordered() -> None:
            step = Step(key, ask, None)
            try:
                step = task()
            except RemoteError as error:
                self._lost(error)
            finally:
                self._inbox.put(step)

        self.orders.do(ordered)

    def clean(self, keys: Sequence[PartKey]) -> None:
        """Best effort: what is not cleaned now shows up as residue."""

        def task() -> None:
            try:
                self.runner.clean([reconcile.directory_name(key) for key in keys])
            except RemoteError as error:
                log.info("not cleaned: %s", error, extra=about(node=self.name))

        self.bulk.do(task)

    def look(self, parts: Sequence[Known]) -> bool:
        """Ask for the records of these parts; False = the last look is still outstanding."""
        if self._looking:
            return False
        self._looking = True

        def task() -> None:
            try:
                self._look(parts)
            except RemoteError as error:
                self._lost(error)
            finally:
                self._looking = False

        self.orders.do(task)
        return True

    def _look(self, parts: Sequence[Known]) -> None:
        names = {known.part.key: reconcile.directory_name(known.part.key) for known in parts}
        answer = self.runner.look(list(names.values()))
        self._uptime = (answer.at, answer.uptime_s)
        news = [item for known in parts for item in reconcile.news_of(known.part, known.token, answer)]
        if news:
            self._inbox.put(Heard(self.name, tuple(news)))
        there = {key: answer.parts[name] for key, name in names.items() if name in answer.parts}
        begun = {key: found for key, found in there.items() if "started" in found.records}
        sizes = {key: found.sizes for key, found in begun.items() if found.sizes is not None}
        if begun:
            limits = {key: reconcile.limit_of(found) for key, found in begun.items()}
            self._inbox.put(Seen(sizes, limits), GATHER_S)
        for key, found in there.items():
            for ask in found.asks:
                self._inbox.put(Asked(self.name, key, ask, whose=self.whose))

    def _order(self, what: str, key: PartKey, task: Callable[[], object]) -> None:
        def ordered() -> None:
            answered = False
            try:
                task()
                answered = True
            except RemoteError as error:
                self._lost(error)
            finally:
                self._inbox.put(Done(what, key, answered))

        self.orders.do(ordered)

    def _lost(self, error: RemoteError) -> None:
        if error.trouble is Trouble.REFUSED:
            return  # the node lives, it is merely full: the order is given again
        self._inbox.put(Silent(self.name, error.message, self._clock.now(), self.whose))

    # --- events -----------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Follow the events file from now on, as long as the link holds."""
        if not self._closed and not self._listening:
            self._listening = True
            self._threads.spawn(f"events {self.name}", self._listen)

    def _listen(self) -> None:
        try:
            for line in self.runner.events():
                if line:
                    self.hear(line)
                else:
                    self._inbox.wake()  # from here on nothing is missed; a look covers what was before
        except RemoteError as error:
            if not self._closed:
                log.info("events: %s", error, extra=about(node=self.name))
                self._lost(error)  # before anybody tries to get there again: that takes its time
                threading.Event().wait(EVENTS_PAUSE_S)
                self._inbox.wake()
        finally:
            self._listening = False

    def hear(self, line: str) -> None:
        """A line of the events file. A job may fill it: that is not to hold up others."""
        if not self._hearing.takes(line, self._clock.monotonic()):
            return
        news = reconcile.event_news(line, self._when)
        if news:
            self._inbox.put(Heard(self.name, news, self.whose))
        elif left := reconcile.left_behind(line):
            if left[0] not in self._left:  # a node says it once
                self._left.append(left[0])
                self._inbox.put(LeftBehind(self.name, *left, whose=self.whose))
        elif ask := reconcile.ask_told(line):
            self._inbox.put(Asked(self.name, *ask, whose=self.whose))

    def _when(self, uptime: str) -> float:
        """Our time of what the node wrote down as its uptime."""
        now = self._clock.now()
        if self._uptime is None:
            return now
        seconds = reconcile.uptime_of(uptime)
        return now if seconds is None else min(now, self._uptime[0] + seconds - self._uptime[1])

    def close(self) -> None:
        self._closed = True
        self.runner.close()
