"""A job in the foreground: waits with it, streams it, passes ^C on, and ends as it ended.

^C takes a waiting job off the queue. Of a running one, the first ^C tells the state and a second within a second ends
it; where nobody sees that (stderr is no terminal) the first one does. SIGTERM ends the job. SIGHUP, SIGQUIT and a
reader of our output that went away end only the following: the job runs on, and the last line says how to see it again.
"""

from __future__ import annotations

import os
import sys

from mgpu import clock
from mgpu.cli.leave import STOPPED_FOLLOWING, Leave
from mgpu.cli.signals import LEAVING, PASSED_ON, Signals
from mgpu.cli.sink import Sink
from mgpu.cli.text import say, terminal_columns
from mgpu.client.http import MasterError, NoMaster
from mgpu.client.job_stream import Event, JobStream, Output
from mgpu.client.master import Master
from mgpu.client.options import seconds
from mgpu.lean.context import suppress
from mgpu.lean.typing import TYPE_CHECKING, Any, Mapping
from mgpu.wording import jobs as outcome
from mgpu.wording.figures import duration, in_local_time
from mgpu.wording.letters import clean, cut

if TYPE_CHECKING:
    import signal

    from mgpu.cli.terminal import Terminal
else:
    import _signal as signal  # `signal` makes enumerations of all that

LIMITS = ("immediate", "session_timeout", "max_wait_time", "connection_timeout", "max_consecutive_timeouts")
SECOND_INTERRUPT_S = 1.0
WAIT_BEFORE_TOLD_S = 1.0
WAIT_WITHOUT_REASON_S = 5.0
LOST_BEFORE_TOLD_S = 5.0
IN_TURN = ("Resources", "Priority")  # it waits as all do: on a terminal alone that is told


class Follower:
    """`run()` gives the exit status. `options`: quiet, label, output, error and the limits in LIMITS. `stream`: what is
    followed of the job, None = all. `joins`: it was somebody else who began it, and it may be over long since.
    `terminal`: ours, for a job that has one."""

    def __init__(
        self,
        master: Master,
        job_id: int | str,
        options: Mapping[str, str | bool],
        signals: Signals,
        stream: JobStream | None = None,
        joins: bool = False,
        terminal: Terminal | None = None,
    ) -> None:
        self._master = master
        self._job_id = job_id
        self._signals = signals
        self._stream = stream or JobStream(master, job_id)
        self._joins = joins
        self._pty = terminal  # its keys are the job's as long as that runs
        self._quiet = bool(options.get("quiet"))
        self._absence = options.get("kill_on_disconnect")
        self._limits = {key: seconds(options, key) for key in LIMITS}
        stdout, stderr = str(options.get("output", "")), str(options.get("error", ""))
        self._sink = Sink(stdout, stderr, bool(options.get("label")), job_id, signals.fd, self._attend)
        self._terminal = os.isatty(2)
        self._job: dict[str, Any] = {"job_id": job_id, "state": "PENDING"}
        self.left = ""  # why the following ended before the job did
        self._began = self._waiting_since = self._heard = clock.monotonic()
        self._lost_since: float | None = None
        self._lost_told = False
        self._away: dict[str, float] = {}  # node -> since when there is no contact with it
        self._away_told: set[str] = set()
        self._interrupted = -SECOND_INTERRUPT_S
        self._stop_status: int | None = None
        self._stop_sent = True
        self._told_reason = ""
        self._prospects: dict[str, Any] = {}
        self._told_attempt = 0
        self._told_notices: set[str] = set()
        self._notices: list[str] = []
        self._status_shown = False

    @property
    def job(self) -> dict[str, Any]:
        """As it was told last."""
        return self._job

    def run(self) -> int:
        """Raises MasterError when the master refuses to let us follow."""
        try:
            self._follow()
        except Leave as leave:
            self._clear_status()
            self.left = leave.reason
            if not self._quiet:
                say(f"{leave.reason}: {self._way_back(leave.over)}")
            return leave.exit_code
        except BrokenPipeError:
            self.left = "nobody reads the output"
            say(f"{self.left}: {self._way_back(self._is_over())}")
            return 128 + signal.SIGPIPE
        except OSError as error:
            self.left = f"cannot write the output ({error.strerror or error})"
            say(f"{self.left}: {self._way_back(self._is_over())}")
            return STOPPED_FOLLOWING
        return self._end()

    def _is_over(self) -> bool:
        """Asked where output has waited for its reader: what was told before that is old."""
        if self._lost_since is None:
            with suppress(MasterError):
                self._job = self._master.call("GET", f"/v1/jobs/{self._job_id}")
        return self._job["state"] not in outcome.ACTIVE

    def _follow(self) -> None:
        try:
            for item in self._stream.items(self._signals.fd, 0.5):
                if isinstance(item, Output):
                    self._output(item)
                elif isinstance(item, Event):
                    self._event(item)
                self._attend()
            self._sink.finish()
        finally:
            if self._pty:
                self._pty.leave()

    def _way_back(self, over: bool = False) -> str:
        if over:
            return f"job {self._job_id} has ended; see all of it with: mgpu logs {self._job_id}"
        if self._stop_status is not None and self._stop_sent:
            return f"job {self._job_id} is being ended; how it ended shows: mgpu show {self._job_id}"
        if self._absence:
            until = f"job {self._job_id} ends in {self._absence} s (--kill-on-disconnect)"
            return f"{until}, unless you go back to it with: mgpu attach {self._job_id}"
        return f"job {self._job_id} goes on; go back to it with: mgpu attach {self._job_id}"

    def _end(self) -> int:
        self._tell_where(any(map(started, self._parts())))
        self._clear_status()
        status = outcome.exit_status(self._job, self._stop_status)
        if status or not self._quiet:
            say(outcome.ending(self._job, self._stop_status))
        return status

    # --- what the master sends ---

    def _output(self, item: Output) -> None:
        self._heard = clock.monotonic()
        self._tell_where(True)
        self._sink.write(*item)

    def _event(self, event: Event) -> None:
        if event.name in ("state", "end"):
            if event.body["job"]["state"] == "PENDING" and self._job["state"] != "PENDING":
                self._waiting_since = clock.monotonic()
                if self._pty:
                    self._pty.leave()
            self._job = event.body["job"]
            if self._joins and self._job["state"] not in outcome.ACTIVE:
                self._told_attempt = self._job.get("attempt") or 0  # it runs nowhere any more
            self._joins = False
            self._sink.know(self._job)
            self._tell_where(all(map(started, self._parts())))
        elif event.name == "notice":
            self._notice(str(event.body.get("text", "")))
        elif event.name == "prospects":
            self._prospects = event.body
        elif event.name == "lost":
            self._lost(event.body)
        elif event.name == "found":
            self._found()

    def _notice(self, text: str) -> None:
        """A stream that was opened again begins with all of them."""
        if text not in self._told_notices:
            self._told_notices.add(text)
            self._notices.append(text)
            self._tell_notices()

    def _tell_notices(self) -> None:
        """After the line that says where the job runs, as they are about that."""
        if self._told_attempt:
            for text in self._notices if not self._quiet else ():
                self._tell(text)
            self._notices.clear()

    def _lost(self, body: dict[str, Any]) -> None:
        self._lost_since = self._lost_since or clock.monotonic()
        limit = self._limits["max_consecutive_timeouts"]
        if limit is not None and body["count"] >= max(limit, 1):
            raise Leave(
                STOPPED_FOLLOWING, f"the master did not answer {body['count']} times (--max-consecutive-timeouts)"
            )
        away_s = clock.monotonic() - self._lost_since
        if (body["count"] >= 3 or away_s > LOST_BEFORE_TOLD_S) and not self._lost_told:  # a restart takes less
            self._lost_told = True
            self._tell(f"lost the master ({body['text']}); job {self._job_id} goes on; trying again")

    def _found(self) -> None:
        self._lost_since = None
        if self._lost_told:
            self._lost_told = False
            self._tell("the master is back")
        if not self._stop_sent:
            self._send_stop()

    # --- signals and clocks ---

    def _attend(self) -> None:
        """Looks at signals and clocks. Raises Leave."""
        for number in self._signals.take():
            self._signal(number)
        now = clock.monotonic()
        self._check_limits(now)
        self._tell_contact(now)
        if self._job["state"] == "PENDING" and self._stop_status is None:
            self._tell_waiting(now)

    def _signal(self, number: int) -> None:
        if number in (signal.SIGWINCH, signal.SIGCONT):
            if self._pty:
                self._pty.again()
            return
        if number in LEAVING:
            raise Leave(128 + number, LEAVING[number])
        if number in PASSED_ON:
            self._pass_on(number)
            return
        if self._stop_status is not None:
            asked = (
                "not waited for its end" if self._stop_sent else "its end could not be asked for, the master is away"
            )
            raise Leave(self._stop_status, asked)
        now = clock.monotonic()
        sure = self._job["state"] == "PENDING" or not self._terminal or now - self._interrupted <= SECOND_INTERRUPT_S
        if number == signal.SIGTERM:
            self._stop(128 + signal.SIGTERM)
        elif sure:
            self._stop(128 + signal.SIGINT)
        else:
            self._interrupted = now
            began = duration(now - self._began)
            self._tell(f"{outcome.tasks_in_short(self._job)}; followed for {began}; ^C again within 1 s ends it")

    def _pass_on(self, number: int) -> None:
        body = {"ids": [self._job_id], "signal": str(number)}
        try:
            answer = self._master.call("POST", "/v1/signal", {"request_id": os.urandom(16).hex(), **body})
            refused = [error["message"] for error in answer["errors"]]
        except MasterError as error:
            refused = [error.message]
        for text in refused:
            from signal import Signals as Names

            self._tell(f"{Names(number).name} was not passed on: {text}")

    def _stop(self, status: int) -> None:
        """Asks for the job's end, and goes on following until it is gone."""
        self._stop_status = status
        self._send_stop()
        if any(part.get("state") == "LOST" for part in self._parts()):
            again = "the master ends it once there is contact again; a further signal leaves it to that"
            self._tell(f"{outcome.tasks_in_short(self._job)}: {again}")

    def _send_stop(self) -> None:
        """Raises Leave if nothing but output is missing."""
        body = {"request_id": os.urandom(16).hex(), "ids": [self._job_id]}
        try:
            answer = self._master.call("POST", "/v1/cancel", body)
            refused = [MasterError(error["code"], error["message"], error["hint"]) for error in answer["errors"]]
            self._stop_sent = True
        except NoMaster:
            self._stop_sent = False  # sent as soon as the master is back
            return
        except MasterError as error:
            refused = [error]
        for refusal in refused:
            if refusal.code == "already_ended":
                self._job = self._master.call("GET", f"/v1/jobs/{self._job_id}")
                raise Leave(outcome.exit_status(self._job, None), "not waited for the rest of its output", over=True)
            self._stop_status = None
            self._tell(refusal.told)

    def _check_limits(self, now: float) -> None:
        """The older options end only the following; --immediate takes the job back."""
        immediate = self._limits["immediate"]
        waits = self._job["state"] == "PENDING" and self._stop_status is None
        if waits and immediate is not None and now - self._began > immediate and not self._begins():
            reason = outcome.why(self._job)
            because = f"; it waited: {reason}" if reason else ""
            unmet = f"did not start within {immediate:g} s (--immediate): taken off the queue"
            self.left = f"{unmet}{because}"
            self._tell(f"job {self._job_id} {self.left}")
            self._stop(STOPPED_FOLLOWING)
        since = {"session_timeout": self._began, "max_wait_time": self._heard, "connection_timeout": self._lost_since}
        for key, start in since.items():
            limit = self._limits[key]
            if limit is not None and start is not None and now - start > limit:
                raise Leave(STOPPED_FOLLOWING, f"stopped following after {limit:g} s (--{key.replace('_', '-')})")

    def _begins(self) -> bool:
        """It was given its GPUs just now, and that is about to be told; else it is known now why it waits."""
        with suppress(MasterError):
            self._job = self._master.call("GET", f"/v1/jobs/{self._job_id}")
        return bool(self._job["state"] != "PENDING")

    # --- what we say ---

    def _tell_waiting(self, now: float) -> None:
        """On a terminal a line that is kept up; else each trouble that keeps it waiting, once."""
        waited, reason = now - self._waiting_since, outcome.why(self._job)
        if self._quiet or waited < (WAIT_BEFORE_TOLD_S if reason else WAIT_WITHOUT_REASON_S):
            return
        reason = reason or "not looked at yet"
        if self._terminal:
            expected = outcome.queue_place(self._prospects, clock.now())
            text = f"mgpu: job {self._job_id} waits {duration(waited)}{expected and f' ({expected})'}: {reason}"
            line = cut(clean(in_local_time(text)), (terminal_columns(2) or 80) - 1)
            self._write_status(f"\r\x1b[K{line}")
            self._status_shown = True
        elif (self._job.get("reason") or reason) not in (*IN_TURN, self._told_reason):
            self._told_reason = self._job.get("reason") or reason
            say(f"job {self._job_id} waits: {reason}")

    def _tell_contact(self, now: float) -> None:
        """Of its nodes: which are away for more than a moment, and which are back."""
        if self._quiet or self._stop_status is not None:
            return
        states = {part["node"]: part.get("state") for part in self._parts()}
        lost = {node for node, state in states.items() if state == "LOST"}
        self._away = {node: self._away.get(node, now) for node in lost}
        if back := sorted(self._away_told & states.keys() - lost):
            self._tell(f"there is contact with {' '.join(back)} again")
        self._away_told &= lost
        if news := sorted(node for node in lost - self._away_told if now - self._away[node] > LOST_BEFORE_TOLD_S):
            self._away_told.update(news)
            self._tell(outcome.contact_lost(self._job, news))

    def _parts(self) -> list[dict[str, Any]]:
        return self._job.get("allocation") or []

    def _tell_where(self, begun: bool) -> None:
        """One line per attempt, as soon as it has begun and the nodes' own names are known."""
        attempt = self._job.get("attempt") or 0
        if begun and self._parts() and attempt > self._told_attempt:
            self._told_attempt = attempt
            if not self._quiet:
                for line in outcome.where(self._job):
                    self._tell(line)
            if self._stream.rank is not None and self._stream.rank >= len(self._parts()):
                self._tell(f"job {self._job_id} has no rank {self._stream.rank}, so there is nothing to show")
            self._tell_notices()
            if self._pty:
                self._pty.enter()

    def _tell(self, text: str) -> None:
        self._clear_status()
        if self._pty:
            self._pty.tell(text)
        else:
            say(text)

    def _clear_status(self) -> None:
        if self._status_shown:
            self._status_shown = False
            self._write_status("\r\x1b[K")

    def _write_status(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._terminal = False


def started(part: dict[str, Any]) -> bool:
    """Its command began, and did not merely end before that."""
    return part.get("start_time") is not None
