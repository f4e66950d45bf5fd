"""Faults as planned, carried out on the nodes of a lab and lifted again; and what of them the checker has to know."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from tests.chaos.checker import Stretch
from tests.chaos.plans import FaultPlan
from tests.lab import Lab, LabError, Node
from tests.lab.processes import Process, send

WATCHER = re.compile(rb"\0mgpu-(job-|run\0)")
TROUBLE = (LabError, OSError, subprocess.SubprocessError, TimeoutError)


@dataclass
class Weather:
    """`note` writes a line into the journal."""

    lab: Lab
    note: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    outsiders: list[Stretch] = field(default_factory=list)
    outages: list[Stretch] = field(default_factory=list)
    killings: list[Stretch] = field(default_factory=list)
    _open: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)  # (node, what) -> since, GPU

    def apply(self, plan: FaultPlan) -> bool:
        """True = it is there, and has to be lifted after `plan.lasts`."""
        node = self.lab.node(plan.node)
        self.note(f"{plan.node}: {plan.kind} {' '.join(plan.words)} for {plan.lasts:.1f} s")
        self._before(plan)
        try:
            if plan.kind == "watchers killed":
                self._kill_watchers(node)
            else:
                node.fault(*plan.words)
        except TROUBLE as error:
            self.note(f"{plan.node}: {plan.kind}: {error}")
        else:
            self.counts[plan.kind] += 1
            if plan.kind == "outsider":
                self._open[plan.node, "outsider"] = (time(), int(plan.words[1]))
        if plan.kind == "reboot":
            self._over(plan.node, "off")
        return plan.lasts > 0

    def lift(self, plan: FaultPlan) -> None:
        """What cannot be lifted now is lifted by `clear` at the end."""
        self.note(f"{plan.node}: no more {plan.kind}")
        try:
            self._lift(self.lab.node(plan.node), plan)
        except TROUBLE as error:
            self.note(f"{plan.node}: lifting {plan.kind}: {error}")

    def _lift(self, node: Node, plan: FaultPlan) -> None:
        if plan.place == "gpu":
            node.fault("gpu", "ok")
        elif plan.place == "home":
            node.fault("home", "ok")
        elif plan.place == "outsider":
            node.fault("outsider", "stop")
            self._over(plan.node, "outsider")
        elif plan.words[0] == "link":
            node.fault("link", "ok")
        elif plan.words[0] == "power":
            node.fault("power", "on")
            self._over(plan.node, "off")
        elif plan.kind == "sshd frozen":
            node.fault("sshd", "thaw")
        else:
            node.start_sshd()

    def _kill_watchers(self, node: Node) -> None:
        """The shells that watch over jobs, of which their command lines tell; the jobs themselves run on."""
        since = time()
        for process in node.pids():
            if WATCHER.search(_command_line(process)):
                send(process, signal.SIGKILL)
        self.killings.append(Stretch(node.name, since, time()))

    def clear(self) -> None:
        """No fault anywhere. Raises LabError for a node that stays broken."""
        for node in self.lab.nodes:
            if node.init() is None:
                node.start()
                self._over(node.name, "off")
            for words in (("sshd", "thaw"), ("link", "ok"), ("gpu", "ok"), ("home", "ok"), ("outsider", "stop")):
                node.fault(*words)
            self._over(node.name, "outsider")
            if not node.answers(5):
                with suppress(LabError):  # it may just be slow
                    node.start_sshd()
            node.wait_for_sshd(60)

    def _before(self, plan: FaultPlan) -> None:
        if plan.kind in ("reboot", "power off"):
            self._over(plan.node, "outsider")
            self._open[plan.node, "off"] = (time(), -1)

    def _over(self, node: str, what: str) -> None:
        since, gpu = self._open.pop((node, what), (0.0, -1))
        if since and what == "off":
            self.outages.append(Stretch(node, since, time()))
        elif since:
            self.outsiders.append(Stretch(node, since, time(), gpu))


def _command_line(process: Process) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except OSError:
        return b""
