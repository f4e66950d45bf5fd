"""mgpu logs: a job's output, as it came."""

from __future__ import annotations

import os

from mgpu.cli.filters import job_number, job_path
from mgpu.cli.outcome import ending
from mgpu.cli.session import Session
from mgpu.cli.signals import Signals
from mgpu.cli.sink import Sink
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.http import with_query
from mgpu.client.job_stream import STDERR, STDOUT, Event, JobStream, Output
from mgpu.client.master import Master
from mgpu.lean_typing import Any, NamedTuple

PIECE_B = 1 << 20
NAMES = {STDOUT: "stdout", STDERR: "stderr"}
EXAMPLES = """
Examples:
  mgpu logs 17                what there is: stdout on stdout, stderr on stderr
  mgpu logs -f 17             go on until the job ends
  mgpu logs 17 --stderr       its stderr alone, on stdout
  mgpu logs 17 --rank 1 --attempt 2
  mgpu logs 20_4              of a task of an array
"""


class Wanted(NamedTuple):
    """Which output of which job."""

    job_id: int | str
    follow: bool
    rank: int | None
    only_stderr: bool
    attempt: int | None
    label: bool


class Interrupted(Exception):
    """A signal ended the looking on."""


@command(
    Argument("job_id", "ID"),
    Option("-f --follow", "", "Go on until the job ends."),
    Option("--rank", "R", "Of this rank alone.", least=0),
    Option("--stderr", "", "The stderr alone, on our stdout.", key="only_stderr"),
    Option("--attempt", "K", "Of this attempt (default: the last).", least=1),
    Option("-l --label", "", "Begin each line with its rank."),
    has_json=False,
    examples=EXAMPLES,
)
def logs(session: Session, /, job_id: str, **given: Any) -> int:
    """Show the output of a job, byte for byte. ^C ends the looking on, never the job."""
    wanted = Wanted(job_number(job_id), **given)
    with Signals() as signals:
        try:
            Viewer(session.master(), wanted, signals).run()
        except Interrupted as error:
            return 128 + int(error.args[0])
    return 0


class Viewer:
    """Writes what is wanted to our stdout and stderr."""

    def __init__(self, master: Master, wanted: Wanted, signals: Signals) -> None:
        self._master = master
        self._wanted = wanted
        self._signals = signals
        self._sink = Sink("", "", wanted.label, wanted.job_id, signals.fd, self._attend)

    def run(self) -> None:
        """Raises Interrupted, BrokenPipeError, MasterError."""
        if self._wanted.follow:
            self._follow()
        else:
            self._copy_all()
        self._sink.finish()

    def _attend(self) -> None:
        if taken := self._signals.take():
            raise Interrupted(taken[0])

    def _follow(self) -> None:
        wanted = self._wanted
        for item in JobStream(self._master, wanted.job_id, wanted.rank, wanted.attempt).items(self._signals.fd):
            self._attend()
            if isinstance(item, Output):
                self._write(item.kind, item.rank, item.data)
            elif isinstance(item, Event) and item.name == "end" and os.isatty(2):
                say(ending(item.body["job"]))

    def _copy_all(self) -> None:
        """Rank by rank, as far as there is output now."""
        job = self._master.call("GET", job_path(str(self._wanted.job_id)))
        count = max(len(job.get("allocation") or ()), 1)
        for kind in (STDERR,) if self._wanted.only_stderr else (STDOUT, STDERR):
            for rank in range(count) if self._wanted.rank is None else (self._wanted.rank,):
                self._copy(kind, rank)

    def _copy(self, kind: int, rank: int) -> None:
        path, offset, size = f"{job_path(str(self._wanted.job_id))}/output", 0, 1
        while offset < size:
            place = {"stream": NAMES[kind], "rank": rank, "attempt": self._wanted.attempt, "offset": offset}
            answer = self._master.raw("GET", with_query(path, **place, limit=PIECE_B))
            size = int(answer.headers.get("x-mgpu-size", 0))
            if not answer.body:
                return
            offset += len(answer.body)
            self._write(kind, rank, answer.body)
            self._attend()

    def _write(self, kind: int, rank: int, data: bytes) -> None:
        if self._wanted.only_stderr and kind == STDOUT:
            return
        self._sink.write(STDOUT if self._wanted.only_stderr else kind, rank, data)
