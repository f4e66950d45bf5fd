"""A run: plans carried out on a lab, trouble lifted, the queue waited for, and all that happened put side by side."""

from __future__ import annotations

import heapq
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from mgpu.client.http import MasterError
from tests.chaos.checker import Facts, Output, Violation, check
from tests.chaos.clients import Clients
from tests.chaos.evidence import FOLDER, Run, collect
from tests.chaos.faults import TROUBLE, Weather
from tests.chaos.master import Master
from tests.chaos.plans import FaultPlan, JobPlan, Settings, plan_faults, plan_jobs
from tests.end_to_end.cluster import Cluster
from tests.lab import Lab
from tests.lab.namespaces import NamespacedNode

CONFIG = """\
networking: {heartbeat_interval: 2, timeout: 5, login_timeout: 5, probe_timeout: 6}
retries: {max: 50, backoff: 0.3, backoff_max: 3}
"""
TICK_S = 0.1
PROGRESS_S = 10.0
ENSURE_S = 5.0  # between two looks whether a master is there, once nobody else begins one
SAMPLE = 6  # jobs whose output is read by `mgpu logs` too


@dataclass
class Result:
    jobs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    audit: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    checked_bytes: int = 0
    settled_s: float = 0.0
    violations: list[Violation] = field(default_factory=list)


class Campaign:
    """`folder` keeps what clients said and the journal; `say` tells people how it goes."""

    def __init__(self, lab: Lab, settings: Settings, folder: Path, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._lab = lab
        self._say = say
        self._folder = folder
        self._journal = (folder / "journal").open("a", buffering=1)
        self._cluster = Cluster(lab, "chaos", CONFIG)
        self._master = Master(self._cluster)
        (folder / "clients").mkdir()
        self._clients = Clients(self._cluster, folder / "clients")
        self._weather = Weather(lab, self._note)
        self._random = Random(f"{settings.seed}/choices")
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._plans = {plan.serial: plan for plan in plan_jobs(settings)}
        self._began = self._told_at = monotonic()
        self.result = Result(faults=self._weather.counts)

    def run(self, patience_s: float) -> Result:
        """`patience_s`: how long the queue may take to empty once all is well again."""
        try:
            self._cluster("nodes")
            self._disturb()
            began = monotonic()
            self._say(f"{self._head()} all faults are lifted; waiting for the queue to empty")
            self._weather.clear()
            self._settle(began + patience_s)
            self.result.settled_s = monotonic() - began
            self._examine()
        finally:
            self._clients.close()
            self._journal.close()
        return self.result

    # --- trouble ----------------------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        self._began = self._told_at = monotonic()
        for plan in self._plans.values():
            self._at(plan.at, lambda plan=plan: self._submit(plan))
        for fault in plan_faults(self._settings):
            self._at(fault.at, lambda fault=fault: self._break(fault))
        while (now := monotonic() - self._began) < self._settings.seconds:
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            self._clients.attend()
            self._progress()
            sleep(TICK_S)
        self._due.clear()

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (seconds, next(self._order), act))

    def _in(self, seconds: float, act: Callable[[], None]) -> None:
        self._at(monotonic() - self._began + seconds, act)

    def _submit(self, plan: JobPlan) -> None:
        self._note(f"begin {plan}")
        self._clients.begin(plan)
        if plan.cancel_after is not None:
            self._in(plan.cancel_after, lambda: self._cancel(plan.serial))
        if plan.kill_client_after is not None:
            self._in(plan.kill_client_after, lambda: self._kill_client(plan.serial))

    def _cancel(self, serial: int) -> None:
        if self._clients.cancel(serial):
            self._note(f"cancel chaos-{serial}")
        else:
            self._in(0.5, lambda: self._cancel(serial))

    def _kill_client(self, serial: int) -> None:
        if self._clients.kill(serial):
            self._note(f"client of chaos-{serial} killed")
            self._weather.counts["client killed"] += 1

    def _break(self, plan: FaultPlan) -> None:
        if plan.node:
            if self._weather.apply(plan):
                self._in(plan.lasts, lambda: self._weather.lift(plan))
        elif plan.kind == "client killed":
            if running := self._clients.running():
                self._kill_client(self._random.choice(running))
        elif plan.kind == "masters started at once":
            self._note(plan.kind)
            self._weather.counts[plan.kind] += 1
            for words in (("--ensure",), (), ("--ensure",)):
                self._clients.master(*words)
        else:
            number = signal.SIGKILL if plan.kind == "master killed" else signal.SIGTERM
            if self._master.signal(number):
                self._note(plan.kind)
                self._weather.counts[plan.kind] += 1

    # --- peace ------------------------------------------------------------------------------------------------------

    def _settle(self, deadline: float) -> None:
        """Until nothing is queued or runs, every client has ended, and the nodes are as they were."""
        ensured = 0.0
        while monotonic() < deadline:
            self._clients.attend()
            self._progress()
            if monotonic() - ensured > ENSURE_S and not self._master.answers():
                self._clients.master("--ensure")
                ensured = monotonic()
            if not self._clients.busy() and self._active() == [] and not self._remains():
                return
            sleep(0.5)

    def _active(self) -> list[dict[str, Any]] | None:
        """None = the master does not answer."""
        try:
            return list(self._master.ask("/v1/jobs?scope=active")["jobs"])
        except MasterError:
            return None

    def _remains(self) -> list[Violation]:
        """Of jobs that have ended: processes, leases, GPUs that are not free."""
        found = []
        for node in self._lab.nodes:
            for process in node.jobs():
                found.append(Violation("nothing is left", f"{node.name}: {process.command} ({process.pid}) runs on"))
            held = node.run(
                "for lease in /tmp/mgpu.lease.*; do"
                ' [ ! -e "$lease" ] || flock -n "$lease" true || echo "${lease##*/}"; done'
            ).stdout.split()
            found += [Violation("nothing is left", f"{node.name}: {lease} is held") for lease in held]
        try:
            nodes = self._master.ask("/v1/nodes")["nodes"]
        except MasterError as error:
            return [*found, Violation("a master is there", error.message)]
        for shown in nodes:
            if shown["state"] != "UP":
                found.append(Violation("nodes come back", f"{shown['node_id']}: {shown['state']}: {shown['reason']}"))
            for gpu in shown["gpus"]:
                if gpu["state"] != "free":
                    text = f"{shown['node_id']}: GPU {gpu['index']} is {gpu['state']}: {gpu['reason']}"
                    found.append(Violation("nothing is left", text))
        return found

    # --- the reckoning ----------------------------------------------------------------------------------------------

    def _examine(self) -> None:
        result = self.result
        try:
            result.violations += self._remains()
            listed = self._history()
            result.jobs = [self._master.ask(f"/v1/jobs/{number}") for number in sorted(listed)]
            result.violations += [
                Violation("one truth", f"history says {listed[job['job_id']]}, show says {job['state']}", job["job_id"])
                for job in result.jobs
                if listed[job["job_id"]] != job["state"]
            ]
            result.runs = self._evidence()
            endings = [client.ending() for client in self._clients]
            result.clients = Counter("killed" if end.killed else end.kind for end in endings)
            facts = Facts(
                self._plans,
                result.jobs,
                result.runs,
                self._output,
                endings,
                self._weather.outsiders,
                self._weather.outages,
                self._weather.killings,
                frozenset(self._clients.wished),
                self._clients.cancelled,
            )
            result.violations += check(facts)
            result.violations += self._logs()
            self._cluster("stop", check=False)
            result.audit = self._master.audit()
            if (broken := self._master.integrity()) != "ok":
                result.violations.append(Violation("the database is whole", broken))
        except (MasterError, AssertionError, sqlite3.Error, *TROUBLE) as error:
            result.violations.append(Violation("it can be looked into", str(error)))
        if self._master.most_at_once > 1:
            result.violations.append(Violation("one master", f"{self._master.most_at_once} had the database open"))

    def _history(self) -> dict[int, str]:
        """The states by job number, as the commands tell them."""
        jobs = [*self._cluster.json("history", "-n", 100_000)["jobs"], *self._cluster.json("queue")["jobs"]]
        return {job["job_id"]: job["state"] for job in jobs}

    def _evidence(self) -> list[Run]:
        found = []
        for node in self._lab.nodes:
            assert isinstance(node, NamespacedNode)
            found += collect(node.name, node.upper / FOLDER)
        return found

    def _output(self, job_id: int, attempt: int, rank: int, stream: str) -> Output:
        found = self._master.output(job_id, attempt, rank, stream)
        self.result.checked_bytes += len(found.data)
        return found

    def _logs(self) -> list[Violation]:
        """Some outputs as `mgpu logs` gives them."""
        found = []
        ran = [job for job in self.result.jobs if len(job["allocation"]) == 1]
        for job in self._random.sample(ran, min(SAMPLE, len(ran))):
            kept = self._master.output(job["job_id"], job["attempt"], 0, "stdout").data
            shown = self._cluster("logs", job["job_id"]).raw
            if shown != kept:
                text = f"logs shows {len(shown)} bytes of stdout, {len(kept)} are kept"
                found.append(Violation("every byte once", text, job["job_id"]))
        return found

    # --- telling ----------------------------------------------------------------------------------------------------

    def _head(self) -> str:
        return f"{monotonic() - self._began:5.0f} s:"

    def _progress(self) -> None:
        if monotonic() - self._told_at < PROGRESS_S:
            return
        self._told_at = monotonic()
        masters, active = self._master.count(), self._active()
        queue = "no master answers" if active is None else f"{len(active)} jobs wait or run"
        begun, running = sum(1 for _ in self._clients), len(self._clients.running())
        faults = sum(self._weather.counts.values())
        line = f"{self._head()} {begun} jobs begun, {running} clients, {queue}, {faults} faults, {masters} master"
        self._say(line)
        self._note(line)
        for job in (active or []) if not self._due else ():
            self._note(f"  {job['job_id']} {job['name']} {job['state']} {job['reason']}: {job['detail']}")

    def _note(self, text: str) -> None:
        self._journal.write(f"{monotonic() - self._began:8.2f} {text}\n")
