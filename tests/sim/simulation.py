"""One run: jobs are submitted and cancelled in a storm of faults, then the weather clears and every job has to end.

Real are the master, the store on its file, the spool, the operations and the core. Virtual are the nodes, the way to
them, the clock and the threads.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgpu.core.errors import StoreError
from mgpu.core.model import JobId, NodeName, PartKey
from mgpu.core.reconcile import directory_name
from mgpu.master.inbox import GivenUp, Inbox
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.master import Master
from mgpu.ops.context import Caller, Context
from mgpu.ops.submit import submit
from tests.sim.books import Books
from tests.sim.drains import Drains
from tests.sim.memories import FIRST_JOB, memories
from tests.sim.node import VirtualNode
from tests.sim.runner import LATEST_S, VirtualRunner
from tests.sim.scenario import Scenario, configuration, lay_trees, submission
from tests.sim.storage import TroubledSpool, TroubledStore
from tests.sim.threads import VirtualThreads
from tests.sim.truth import Truth
from tests.sim.weather import CALM
from tests.sim.wishes import ADMIN, Wishes, one_name
from tests.sim.world import Crash, Violation, World

CALLERS = (Caller(1001, "alice"), Caller(1002, "bob"), ADMIN)
FIRST_PROBES_S = 10.0
FORGETS_S = 120.0  # after the last job is over


@dataclass
class Figures:
    """What a run amounted to."""

    jobs: int = 0
    ticks: int = 0
    crashes: int = 0
    attempts: int = 0
    starts: int = 0
    virtual_s: float = 0.0


class Simulation:
    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.world = World(scenario.seed)
        self.truth = Truth(self.world)
        self.figures = Figures()
        self.weather = scenario.weather
        self.nodes = {
            name: VirtualNode(self.world, self.truth, name, scenario.gpus, self._hear)
            for name in (f"n{number}" for number in range(1, scenario.nodes + 1))
        }
        self._config = configuration(scenario)
        self._store = TroubledStore.open(folder / "mgpu.db")
        with self._store.write() as writer:
            writer.driver.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", (FIRST_JOB - 1,))
        self._spool = TroubledSpool(folder / "spool")
        lay_trees(folder, CALLERS)
        self._books = Books(folder / "mgpu.db", self._spool, self.truth, self.nodes)
        self._drains = Drains(self.world, self.truth, self._books.rows, lambda: self._master)
        self._wishes = Wishes(self.world, self.truth, self._books, self._operate)
        self._master: Master | None = None
        self._links: dict[NodeName, NodeLink] = {}
        self._threads: VirtualThreads | None = None
        self._tick_at = 0.0
        self._over = False

    def close(self) -> None:
        self._books.close()
        self._store.close()

    # --- a run ------------------------------------------------------------------------------------------------------

    def run(self) -> Figures:
        """Raises Violation."""
        world = self.world
        self._store.crash = self._spool.crash = self._crash  # type: ignore[method-assign]
        self._store.full = lambda what: self._full(self.weather.store_full, what)  # type: ignore[method-assign]
        self._spool.full = lambda what: self._full(self.weather.spool_full, what)
        for node in self.nodes.values():
            node.weather = self.weather
            world.after(world.between(0, 10), lambda node=node: self._troubles(node))
        for _ in range(self.scenario.jobs):
            world.after(world.between(0, 0.7 * self.scenario.storm_s), self._job_comes())
        world.after(5, self._follow)
        self._begin()
        self._go_on(lambda: world.time >= self.scenario.storm_s)
        self._clear_up()
        limit = world.time + self.scenario.patience_s
        self._go_on(lambda: self._all_over() or world.time >= limit)
        left = self._books.unfinished()
        if left:
            self.truth.violate(f"not over {self.scenario.patience_s:.0f} s after the last fault: {left}")
        self._forget()
        # what was on its way may still arrive, and must change nothing
        until = world.time + LATEST_S
        self._over = True
        if self._master is not None:
            self._dies("at last")
        self._go_on(lambda: world.time >= until)
        self._books.check_end(self.figures.jobs)
        self._raise_violations()
        self._count()
        return self.figures

    def _go_on(self, over: Callable[[], bool]) -> None:
        world = self.world
        while not over():
            if self._master is not None and self._tick_at <= world.next_at():
                world.time = max(world.time, self._tick_at)
                self._tick()
            else:
                world.step()
            self._raise_violations()

    def _forget(self) -> None:
        """A master that goes on keeps nothing of jobs that are over."""
        until = self.world.time + FORGETS_S
        self._go_on(lambda: self.world.time >= until)
        if self._master is not None and self._all_over() and (left := memories(self._master, 1000)):
            self.truth.violate(f"all is over, and remembered: {left}")

    def _all_over(self) -> bool:
        return self.figures.jobs == self.scenario.jobs and not self._books.unfinished()

    def _raise_violations(self) -> None:
        if self.truth.violations:
            raise Violation("; ".join(self.truth.violations))

    def _count(self) -> None:
        self.figures.virtual_s = self.world.time
        self.figures.attempts = self._books.rows("SELECT count(*) FROM attempts")[0][0]
        self.figures.starts = sum(story.starts for story in self.truth.stories.values())

    # --- the master -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A master is started over what is stored."""
        threads = VirtualThreads(self.world, self._slowness, self._task_failed)

        def make_links(inbox: Inbox) -> dict[NodeName, NodeLink]:
            post = threads.post(inbox)
            return {
                config.name: NodeLink(
                    config, "mgpu", VirtualRunner(self.nodes[config.name], self._crash), 5.0, post, threads, self.world
                )
                for config in self._config.nodes
            }

        kept: dict[NodeName, NodeLink] = {}

        def make(inbox: Inbox) -> Links:
            return kept.update(make_links(inbox)) or Links(kept)

        self.world.note("a master begins")
        try:
            master = Master(self._config, self._store, self._spool, make, threads=threads, clock=self.world)
            master.load()
        except (Crash, StoreError) as error:
            self.world.note(f"the master ends before it began: {error}")
            self.world.after(self.world.between(0, 10), self._begin)
            return
        self._master, self._links, self._threads = master, kept, threads
        self._tick_at = self.world.time
        if self._books.calm_since is not None:
            self._books.calm_since = self.world.now()

    def _tick(self) -> None:
        assert self._master is not None
        master = self._master
        errors = set(master.errors())
        self.figures.ticks += 1
        try:
            due = master.tick()
        except Crash as crash:
            self._dies(str(crash))
            self._check(None)
            return
        except Exception:  # noqa: BLE001  whatever it is, the master would be gone
            self.truth.violate(f"the tick fails: {traceback.format_exc()}")
            return
        fresh = set(master.errors()) - errors
        for error in fresh:
            if error.startswith("internal error"):
                self.truth.violate(error)
        self._tick_at = self.world.time + due + self.world.pause(2 * self.scenario.laziness_s, 10)
        self._check(None if fresh else master.waits())

    def _check(self, waits: Iterable[JobId] | None) -> None:
        self._books.check(self.world.now(), waits)
        self._drains.check()
        self._wishes.check(planned=waits is not None)

    def _stir(self) -> None:
        """Something is in the inbox."""
        self._tick_at = min(self._tick_at, self.world.time + self.world.pause(self.scenario.laziness_s, 10))

    def _dies(self, where: str) -> None:
        self.world.note(f"the master dies {where}")
        self.figures.crashes += 1
        assert self._threads is not None
        self._threads.alive = False
        self._master, self._threads, self._links = None, None, {}
        if not self._over:
            self.world.after(self.world.pause(5, 200, 0.2), self._begin)

    def _task_failed(self, name: str, error: BaseException) -> None:
        if isinstance(error, Crash):
            self._dies(f"{error} in {name}")
        else:
            text = "".join(traceback.format_exception(error))
            self.truth.violate(f"the task {name} fails: {text}")

    def _slowness(self) -> float:
        self._stir()
        return self.world.pause(0.02, 10, self.weather.slow)

    def _crash(self, where: str) -> None:
        if self.world.chance(self.weather.crash):
            raise Crash(where)

    def _full(self, probability: float, what: str) -> None:
        if self.world.chance(probability):
            self.world.note(f"the disk is full at a {what}")
            raise StoreError("no space left on the disk", "make room and try again")

    # --- what people do ---------------------------------------------------------------------------------------------

    def _job_comes(self) -> Callable[[], None]:
        chance = self.world.random
        caller = chance.choice(CALLERS)
        payload = submission(self.scenario, chance)

        def comes() -> None:
            self._wishes.adorn(payload, self.weather)
            self._submit(caller, payload)

        return comes

    def _submit(self, caller: Caller, payload: dict[str, Any]) -> None:
        """As a client does: an answer that does not come is asked for again, with the same request."""
        done = self._operate(lambda context: submit(context, caller, payload))
        if done is None:
            self.world.after(self.world.between(0.1, 10), lambda: self._submit(caller, payload))
            return
        self.figures.jobs += 1
        self.world.note(f"job {done.job_id} is submitted: {payload['kind']} {payload['options']}")
        name = one_name(done.job_id, payload)
        if self.world.chance(0.25):
            who = self.world.random.choice((caller, CALLERS[-1]))
            self.world.after(self.world.pause(60, 400, 0.1), lambda: self._wishes.cancel(who, name))
        self._wishes.come(caller, name, self.weather)

    def _operate(self, operation: Callable[[Context], Any]) -> Any:
        """None = no answer."""
        if self._master is None:
            return None
        master, now = self._master, self.world.now()
        context = Context(self._store, self._spool, self._config, master, master, now, ADMIN.uid)
        self.world.lag = FIRST_PROBES_S  # whoever asks has waited for the first probes
        try:
            return operation(context)
        except Crash as crash:
            self._dies(f"{crash} in an operation")
        except StoreError as error:
            self.world.note(f"refused: {error}")
        finally:
            self.world.lag = 0.0
            self._stir()
        return None

    # --- events and streams -----------------------------------------------------------------------------------------

    def _hear(self, node: str, line: str) -> None:
        threads, link, weather = self._threads, self._links.get(NodeName(node)), self.weather
        if threads is None or link is None or f"events {node}" not in threads.spawned:
            return
        if not self.nodes[node].reachable or self.world.chance(weather.unheard):
            return

        def arrive() -> None:
            if threads.alive:
                link.hear(line)
                self._stir()

        for _ in range(2 if self.world.chance(weather.twice) else 1):
            self.world.after(self.world.pause(0.1, 60, weather.slow), arrive)

    def _follow(self) -> None:
        """The live streams bring some bytes into the spool."""
        self.world.after(self.world.between(2, 12), self._follow)
        if self._threads is None:
            return
        for row in self._books.rows("SELECT job_id, attempt, rank, node FROM parts WHERE state = 'RUNNING'"):
            key = PartKey(row["job_id"], row["attempt"], row["rank"])
            if f"follow {directory_name(key)}" in self._threads.spawned and self.nodes[row["node"]].reachable:
                data = bytes(self.truth.story(directory_name(key), row["node"]).output["stdout"])
                offset = min(self._spool.size(key, "stdout"), self.world.random.randrange(len(data) + 1))
                end = self.world.random.randint(offset, len(data))
                with suppress(StoreError, Crash):
                    self._spool.append(key, "stdout", offset, data[offset:end])

    # --- weather ----------------------------------------------------------------------------------------------------

    def _troubles(self, node: VirtualNode) -> None:
        """Every ten seconds, of each node."""
        world, weather = self.world, self.weather
        if weather is CALM:
            return
        world.after(10, lambda: self._troubles(node))
        if self._master is not None and world.chance(weather.restart / 6 / len(self.nodes)):
            self._dies("between two steps")
        if not (node.on and node.reachable) and self._master is not None and world.chance(weather.given_up / 6):
            world.note(f"{node.name}: what is lost there is given up")
            self._master.inbox.put(GivenUp(NodeName(node.name), "operator", world.now(), Future()))
        if world.chance(weather.drained / 6):
            self._drains.drain(node)
        if not node.on:
            return
        if world.chance(weather.cut / 6):
            node.reachable = False
            world.note(f"{node.name}: cut off")
            world.after(world.pause(30, 300, 0.2), lambda: setattr(node, "reachable", True))
        for kind in ("foreign_process", "foreign_lease"):
            if world.chance(getattr(weather, kind) / 6):
                places = node.foreign_processes if kind == "foreign_process" else node.foreign_leases
                uuid = world.random.choice(node.uuids)
                places.add(uuid)
                world.after(world.between(5, 100), lambda places=places, uuid=uuid: places.discard(uuid))
        if world.chance(weather.full_disk / 6):
            node.disk_full = world.random.choice(("blocks", "inodes"))
            world.note(f"{node.name}: disk full ({node.disk_full})")
            world.after(world.between(5, 100), lambda: setattr(node, "disk_full", ""))
        if world.chance(weather.smi_fault / 6):
            node.smi_fault = world.random.choice(("hangs", "noise"))
            world.after(world.between(5, 100), lambda: setattr(node, "smi_fault", ""))
        if world.chance((weather.reboot + weather.power_off) / 6):
            long = world.chance(weather.power_off / (weather.reboot + weather.power_off))
            node.power_off()
            world.after(world.between(100, 1000) if long else world.between(0, 60), lambda: node.on or node.boot())

    def _clear_up(self) -> None:
        self.world.note("the weather clears up")
        self._drains.resume_all()
        self._wishes.release_all()
        self.weather = CALM
        self._books.calm_since = self.world.now()
        for node in self.nodes.values():
            node.weather = CALM
            node.reachable = True
            node.disk_full = node.smi_fault = ""
            node.foreign_processes.clear()
            node.foreign_leases.clear()
            if not node.on:
                node.boot()
            for ours in node.supervised.values():
                ours.release()
