"""mgpu logs: what jobs wrote, as it came."""

from __future__ import annotations

import os
import select

from mgpu.cli.filters import job_number, job_path
from mgpu.cli.session import Session, bad_request
from mgpu.cli.signals import ENDING, Signals
from mgpu.cli.sink import Heads, Sink
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError
from mgpu.client.job_stream import STDERR, STDOUT, Event, JobStream, Output
from mgpu.client.master import Master
from mgpu.client.option import FROM_0, FROM_1
from mgpu.client.output import Pieces
from mgpu.client.zone import own_zone
from mgpu.lean.typing import Any, Callable, NamedTuple, Sequence
from mgpu.wording.jobs import ending

MOST_FOLLOWED = 50  # at once: each has a connection of its own
NAMES = {STDOUT: "stdout", STDERR: "stderr"}
TAIL = Option("-n --tail", "N", "Begin N lines before the end, of each rank, stdout and stderr.", whole=FROM_0)
RANK = Option("--rank", "R", "Of this rank of a node alone.", whole=FROM_0)
EXAMPLES = """
Examples:
  mgpu logs 17                what there is: stdout on stdout, stderr on stderr
  mgpu logs -f 17             go on until the job ends
  mgpu logs -f -n 20 17       from the last 20 lines on
  mgpu logs --since 10m 17    what came in the last ten minutes
  mgpu logs 17 --stderr       its stderr alone, on stdout
  mgpu logs 17 --rank 1 --attempt 2
  mgpu logs 20_4              of a task of an array
  mgpu logs -f -l 17 18       of both, each line with its job and rank
"""


class Wanted(NamedTuple):
    """Which output of a job. `tail`, `since`: where it begins, None = at the start."""

    follow: bool
    rank: int | None
    only_stderr: bool
    attempt: int | None
    label: bool
    tail: int | None
    since: str | None

    @property
    def beginning(self) -> dict[str, int | str | None]:
        return {"tail": self.tail, "since": self.since, "zone": own_zone() if self.since else None}


class Interrupted(Exception):
    """A signal ended the looking on."""


@command(
    Argument("ids", "ID...", nargs="*"),
    Option("-f --follow", "", "Go on until the job ends; of several, the last of them."),
    TAIL,
    Option("--since", "TIME", "What came since then, to some seconds: 10m, 1h30m, 16:00, 2026-12-01T08:00."),
    RANK,
    Option("--stderr", "", "The stderr alone, on our stdout.", key="only_stderr"),
    Option("--attempt", "K", "Of this attempt (default: the last).", whole=FROM_1),
    Option("-l --label", "", "Begin each line with the rank of its node; of several jobs, with job and rank."),
    has_json=False,
    examples=EXAMPLES,
)
def logs(session: Session, /, ids: tuple[str, ...], **given: Any) -> int:
    """Show the output of jobs, byte for byte; of several, under a heading each. ^C ends the looking on, never a job."""
    jobs = list(dict.fromkeys(map(job_number, ids)))
    if not jobs:
        raise bad_request("which job?", "give its number: mgpu queue and mgpu history show them")
    wanted = Wanted(**given)
    if wanted.follow and len(jobs) > MOST_FOLLOWED:
        raise bad_request(f"{len(jobs)} jobs are more than can be followed at once", f"name {MOST_FOLLOWED} at most")
    if wanted.follow:
        session.master().reach()
    with Signals(ENDING) as signals:
        try:
            if len(jobs) == 1:
                Viewer(session.master(), jobs[0], wanted, signals.fd, lambda: attend(signals)).run()
                return 0
            return (follow_all if wanted.follow else show_all)(session, jobs, wanted, signals)
        except Interrupted as error:
            return 128 + int(error.args[0])


def attend(signals: Signals) -> None:
    """Raises Interrupted."""
    if taken := signals.take():
        raise Interrupted(taken[0])


def require_rank(job: dict[str, Any], rank: int | None) -> None:
    """Nothing would ever come of one that is not there. Raises MasterError (not_found)."""
    ranks = len(job.get("allocation") or ())
    if rank is not None and 0 < ranks <= rank:
        raise MasterError("not_found", f"job {job['job_id']} has no rank {rank}", f"its ranks are 0 to {ranks - 1}")


def show_all(session: Session, jobs: Sequence[int | str], wanted: Wanted, signals: Signals) -> int:
    """One after the other. One that cannot be shown is told of, and does not keep the rest back."""
    master, heads, status = session.master(), Heads(), 0
    for job_id in jobs:
        try:
            Viewer(master, job_id, wanted, signals.fd, lambda: attend(signals), heads).run()
        except MasterError as error:
            session.print_error(error)
            status = max(status, error.exit_code)
    return status


def follow_all(session: Session, jobs: Sequence[int | str], wanted: Wanted, signals: Signals) -> int:
    """All at once, a thread for each; whatever comes first is shown first."""
    import threading

    master, heads = session.master(), Heads()
    done, woken = os.pipe()  # a byte when one is done
    stop, stopped = os.pipe()  # never read: once there is a byte, all of them wake up
    failures: list[MasterError | OSError] = []

    def look() -> None:
        if select.select([stop], [], [], 0)[0]:
            raise Interrupted

    def follow(job_id: int | str) -> None:
        try:
            Viewer(master, job_id, wanted, stop, look, heads).run()
        except Interrupted:
            pass
        except (MasterError, OSError) as error:
            failures.append(error)
        finally:
            os.write(woken, b".")

    threads = [threading.Thread(target=follow, args=(job_id,), daemon=True) for job_id in jobs]
    for thread in threads:
        thread.start()
    status, left = 0, len(threads)
    try:
        while left:
            ready, _, _ = select.select([done, signals.fd], [], [])
            attend(signals)
            if done in ready:
                left -= len(os.read(done, len(threads)))
            while failures:
                error = failures.pop()
                if not isinstance(error, MasterError):
                    raise error
                session.print_error(error)
                status = max(status, error.exit_code)
    finally:
        os.write(stopped, b".")
        for thread in threads:
            thread.join()
    return status


class Viewer:
    """Writes what is wanted of a job to our stdout and stderr. `attend` is called when `wake_fd` becomes readable, and
    may raise. `heads`: of several jobs."""

    def __init__(
        self,
        master: Master,
        job_id: int | str,
        wanted: Wanted,
        wake_fd: int,
        attend: Callable[[], None],
        heads: Heads | None = None,
    ) -> None:
        self._master = master
        self._job_id = job_id
        self._wanted = wanted
        self._wake_fd = wake_fd
        self._attend = attend
        self._sink = Sink("", "", wanted.label, job_id, wake_fd, attend, heads)
        self._fresh = True
        self._owed = False

    def run(self) -> None:
        """Raises what `attend` does, BrokenPipeError, MasterError."""
        if self._wanted.follow:
            self._follow()
        else:
            self._copy_all()
        self._sink.finish()
        if self._owed:
            say(f"job {self._job_id}: not all of its output is here; the rest is fetched when its nodes answer again")

    def _follow(self) -> None:
        wanted = self._wanted
        stream = JobStream(self._master, self._job_id, wanted.rank, wanted.attempt, beginning=wanted.beginning)
        for item in stream.items(self._wake_fd):
            self._attend()
            if isinstance(item, Output):
                self._write(item.kind, item.rank, item.data)
            elif isinstance(item, Event) and item.name in ("state", "end"):
                require_rank(item.body["job"], wanted.rank)
                if item.name == "end" and os.isatty(2):
                    say(ending(item.body["job"]))

    def _copy_all(self) -> None:
        """Rank by rank, as far as there is output now."""
        job = self._master.call("GET", job_path(str(self._job_id)))
        count = max(len(job.get("allocation") or ()), 1)
        for kind in (STDERR,) if self._wanted.only_stderr else (STDOUT, STDERR):
            for rank in range(count) if self._wanted.rank is None else (self._wanted.rank,):
                self._copy(kind, rank)

    def _copy(self, kind: int, rank: int) -> None:
        place = {"stream": NAMES[kind], "rank": rank, "attempt": self._wanted.attempt}
        pieces = Pieces(self._master, self._job_id, place, self._wanted.beginning, self._fresh)
        for data in pieces:
            if data:
                self._write(kind, rank, data)
            self._attend()
        self._owed |= pieces.owed
        self._fresh = False  # that was for all of its ranks and streams

    def _write(self, kind: int, rank: int, data: bytes) -> None:
        if self._wanted.only_stderr and kind == STDOUT:
            return
        self._sink.write(STDOUT if self._wanted.only_stderr else kind, rank, data)
