"""The processes of one attempt on one node, as the shells of node.sh make them: gate, leases, job, sweep, reaper.

Each step is an event of its own, so that a reboot, a stop or the death of a shell may come between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mgpu.core.launch import Launch
from tests.sim.truth import Story

if TYPE_CHECKING:
    from tests.sim.node import VirtualNode

GO_LIMIT_S = 300.0
GRACE_S = 10.0
STUCK_AFTER_S = 120.0


class Supervised:
    def __init__(
        self, node: VirtualNode, key: str, token: str, uuids: tuple[str, ...], launch: Launch, story: Story
    ) -> None:
        self.node = node
        self.world = node.world
        self.key = key
        self.token = token
        self.uuids = uuids
        self.pid = node.new_pid()
        self.leader = True
        self.runner = False
        self.command = False
        self.child = False  # left behind by the command, outside its session
        self._records = node.directory(key).records
        self._launch = launch
        self._story = story
        self._reaping = False
        self._obeys = self.world.chance(0.8)
        self._killable = True
        self._awaiting = False
        self._deadline_at: float | None = None

    @property
    def holds_lease(self) -> bool:
        return self.runner or self.command or self.child

    def _later(self, delay: float, step: Callable[[], None]) -> None:
        self.node.later(delay, step)

    def _count(self) -> None:
        self._story.processes = int(self.command) + int(self.child)

    def die(self) -> None:
        """The node goes down."""
        if self.leader or self.holds_lease:
            self._story.rebooted = True
        self.leader = self.runner = self.command = self.child = False
        self._count()

    # --- the supervisor ---------------------------------------------------------------------------------------------

    def gate(self) -> None:
        if "pid" in self._records:
            self.leader = False
            return
        self._records["pid"] = f"{self.pid}:{int(self.node.uptime * 100)}:{self.node.boot_id}:{self.token}"
        self.node.supervised[self.key] = self
        self.world.note(f"{self.node.name}: {self.key} passes the gate")
        self._later(self.world.pause(0.1, 5), self._take_leases)

    def _take_leases(self) -> None:
        if not self.leader:
            return
        busy = self.node.lease_holder(self.uuids, self)
        if busy:
            if busy != "another mgpu":
                self.node.truth.violate(f"{self.key} on {self.node.name} finds the lease of its GPU held by {busy}")
            self._record("exit", f"fail:newcomer:the lease is held by {busy}:{self.node.uptime:.2f}")
            self._finish()
            return
        self.runner = True
        self._later(self.world.pause(0.2, 5), self._enter)

    # --- the runner -------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        if not self.runner:
            return
        weather = self.node.weather
        if self.world.chance(weather.hangs):
            self.world.note(f"{self.node.name}: {self.key} hangs before its job begins")
        elif self.world.chance(weather.node_fails):
            self._fail("node", "the home directory cannot be entered")
        elif self.world.chance(weather.no_directory):
            self._fail("directory", "the working directory does not exist")
        elif self._launch.gang:
            self._record("ready", f"{self.node.uptime:.2f}")
            self._event(f"ready {self.node.uptime:.2f} {self._gate_words()}")
            self._awaiting = True
            self._later(GO_LIMIT_S, self._go_is_late)
            self.look_at_go()
        else:
            self._begin()

    def _go_is_late(self) -> None:
        if self._awaiting:
            self._story.left_waiting = self._record("go", "abort")
            self.look_at_go()

    def look_at_go(self) -> None:
        """Called whenever a record that it waits for was made."""
        if not self._awaiting or not self.runner:
            return
        if "stop" in self._records:
            self._awaiting = False
            self._fail("aborted", "stopped before it began")
        elif "go" in self._records:
            self._awaiting = False
            run = self._records["go"] == "run"
            self._later(self.world.between(0, 0.1), self._begin if run else self._go_away)

    def _go_away(self) -> None:
        if self.runner:
            self._fail("aborted", "the other nodes were not ready")

    def _begin(self) -> None:
        if not self.runner:
            return
        if "stop" in self._records:
            self._fail("aborted", "stopped before it began")
            return
        self._record("started", f"{self.pid + 1}:{self.node.uptime:.2f}:-")
        self._event(f"started {self.node.uptime:.2f} - {self._gate_words()}")
        self._later(self.world.pause(0.02, 0.5), self._run)

    def _run(self) -> None:
        if not self.runner:
            return
        self.command = True
        self._killable = not self.world.chance(self.node.weather.unkillable)
        self._count()
        self.world.note(f"{self.node.name}: the command of {self.key} runs on {self.uuids}")
        self.node.truth.command_starts(self._story)
        self._write("stdout", b"begin\n")
        lasts = self.world.between(0, 40) if self.world.chance(0.8) else self.world.between(40, 200)
        code = self.world.random.choice((0, 0, 0, 1, 3, 137))
        for _ in range(self.world.random.randrange(3)):
            self._later(self.world.between(0, lasts), lambda: self._write("stderr", b"counting\n"))
        self._later(lasts, lambda: self.command_ends(code))
        self.set_limit(self._launch.time_limit_s)
        if self.world.chance(self.node.weather.runner_killed):
            self._later(self.world.between(0, lasts), self._runner_dies)
        if self.world.chance(self.node.weather.supervisor_killed):
            self._later(self.world.between(0, lasts), self._leader_dies)

    def set_limit(self, limit_s: float | None) -> None:
        began = float(self._records["started"].split(":")[1])
        self._deadline_at = None if limit_s is None else began + limit_s
        if self._deadline_at is not None:
            self._later(max(0.0, self._deadline_at - self.node.uptime) + self.world.between(0, 1), self._deadline)

    def _deadline(self) -> None:
        if self._deadline_at is None or self.node.uptime < self._deadline_at:
            return  # it was moved
        if "exit" not in self._records and self._record("stop", "TIMEOUT"):
            self._story.timed_out = True
            self.launch_reaper()

    def command_ends(self, code: int) -> None:
        if not self.command:
            return
        self.child = self.world.chance(0.1)
        self._write("stdout", b"end\n")
        self.command = False
        self._count()
        self._story.exit_code = code
        if self.runner:
            # a kill may come between the end of the command and its record
            self._later(self.world.between(0, 0.05), lambda: self._record_exit(code))

    def _record_exit(self, code: int) -> None:
        if self.runner:
            self._story.exit_recorded = True
            self._record("exit", f"{code}:{self.node.uptime:.2f}")
            self.runner = False
            self._after_runner()

    def _fail(self, failure: str, text: str) -> None:
        self._record("exit", f"fail:{failure}:{text}:{self.node.uptime:.2f}")
        self.runner = False
        self._after_runner()

    # --- its end ----------------------------------------------------------------------------------------------------

    def _runner_dies(self) -> None:
        if self.runner and self.command:
            self._story.guard_killed = True
            self.world.note(f"{self.node.name}: the runner of {self.key} is killed")
            self.runner = False
            self._after_runner()

    def _leader_dies(self) -> None:
        if self.leader:
            self._story.guard_killed = True
            self.world.note(f"{self.node.name}: the supervisor of {self.key} is killed")
            self.leader = False

    def _after_runner(self) -> None:
        self._later(self.world.pause(0.05, 2), self._supervisor_goes_on)

    def _supervisor_goes_on(self) -> None:
        if self.leader:
            self._record("exit", f"fail:supervisor:the job's supervising shell was killed:{self.node.uptime:.2f}")
            self._sweep(self.node.uptime)

    def _sweep(self, since: float) -> None:
        if not self.leader:
            return
        if not (self.command or self.child):
            self._finish()
            return
        if self._obeys and self.world.chance(0.5):
            self._end_members(143)
        elif self.node.uptime - since > 1:
            self._kill_members()
        if self.node.uptime - since > STUCK_AFTER_S:
            self._record("stuck", str(self.pid + 2))
        self._later(self.world.between(0.1, 1 if self._killable else 5), lambda: self._sweep(since))

    def _end_members(self, code: int) -> None:
        self.child = False
        if self.command:
            self._story.ended_by_us = True
            self.command_ends(code)
            self.child = False
        self._count()

    def _kill_members(self) -> None:
        if self._killable:
            self._end_members(137)

    def release(self) -> None:
        """Whatever the kernel waited for has come."""
        self._killable = True

    def _finish(self) -> None:
        self.leader = False
        why = "=" if self._own_end() else self._records.get("stop", "-")
        self._record("clean", f"{self.node.uptime:.2f}{':own' if why == '=' else ''}")
        output = self.node.directory(self.key).output
        sizes = f"{len(output['stdout'])},{len(output['stderr'])},"
        self._event(f"ended {why} {sizes} {self._records.get('exit', '')}")

    def _own_end(self) -> bool:
        """A stop that came, if one did, came too late."""
        exited = self._records.get("exit", "fail:")
        return not exited.startswith("fail:") and ("stop" not in self._records or "told" not in self._records)

    # --- the reaper -------------------------------------------------------------------------------------------------

    def launch_reaper(self) -> None:
        if not self._reaping:
            self._reaping = True
            self._later(self.world.pause(0.1, 3), lambda: self._reap(self.node.uptime, False))

    def _reap(self, since: float, told: bool) -> None:
        if "clean" in self._records:
            return
        started = "started" in self._records
        # while the supervisor lives it spares the runner of a job that has begun; without it the runner is one of them
        members = self.command or self.child or (self.runner and not (started and self.leader))
        if not members and not self.leader:
            text = "supervisor:the job's supervising shell was killed" if started else "node:it hung"
            self._record("exit", f"fail:{text}:{self.node.uptime:.2f}")
            self._finish()
            return
        if self.node.uptime - since >= GRACE_S:
            if not started and "exit" not in self._records:
                self.runner = self.leader = False
            self._tell()
            self._kill_members()
            if self.node.uptime - since >= GRACE_S + STUCK_AFTER_S:
                self._record("stuck", str(self.pid + 2))
        elif not told and self.command:
            told = True
            self._tell()
            if self._obeys:
                code = self.world.random.choice((143, 143, 0))
                self._later(self.world.between(0, 0.5), lambda: self._end_members(code))
        self._later(self.world.between(0.1, 0.5 if self._killable else 5), lambda: self._reap(since, told))

    def _tell(self) -> None:
        """A signal reaches the command."""
        if self.command:
            self._story.ended_by_us = True
            self._record("told", f"{self.node.uptime:.2f}")

    # --- records ----------------------------------------------------------------------------------------------------

    def _record(self, name: str, content: str) -> bool:
        """First one wins."""
        if name in self._records:
            return False
        self._records[name] = content
        if name in ("stop", "exit", "clean", "stuck"):
            self.world.note(f"{self.node.name}: {self.key} {name} {content}")
        return True

    def _event(self, text: str) -> None:
        self.node.on_event(self.node.name, f"{self.key} {text}")

    def _gate_words(self) -> str:
        return self._records["pid"].rpartition(":")[0]

    def _write(self, stream: str, data: bytes) -> None:
        if self.command:
            self.node.directory(self.key).output[stream] += data
            self._story.output[stream] += data
