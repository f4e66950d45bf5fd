"""A job in the foreground against ssh: much through both, a key on a terminal, and many who look on at once."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, time

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.commands import in_turn, walls
from scripts.benchmarks.measure import (
    NEW_SSH,
    NOTHING,
    OURS,
    BenchError,
    Row,
    Run,
    Series,
    limited,
    ratio,
    run,
    wait_until,
)
from scripts.benchmarks.probes import memory_of, memory_since
from scripts.benchmarks.slurm import NAME as SLURM

BIG_MB = 200
FOLLOWED = 50
LINES = 10
KEYS = 40
STAMPS = 50
SETTLED_S = 0.15  # between two keys


def through(cluster: Cluster, repeats: int) -> list[Row]:
    """200 MB out of a job, into one, and both; beside ssh, each over a new connection."""
    node = cluster.lab.nodes[0]
    node.run(f"head -c {BIG_MB}000000 /dev/urandom >big")
    rows: list[Row] = []
    before = memory_of(cluster)
    with spare_file(BIG_MB * 1_000_000) as big:
        for name, (command, stdin) in {
            "out": ("cat ~/big", NOTHING),
            "in": ("wc -c", big),
            "in and out": ("cat", big),
        }.items():
            rows += _way(cluster, repeats, name, command, stdin)
    return [*rows, *memory_since(before, cluster)]


def _way(cluster: Cluster, repeats: int, name: str, command: str, stdin: Path) -> list[Row]:
    def ssh() -> Run:
        return run(cluster.ssh_words(command, shared=False), cluster.env, keep=False, stdin=stdin)

    def srun() -> Run:
        return run(cluster.mgpu_words("srun", "-Q", "sh", "-c", command), cluster.env, keep=False, stdin=stdin)

    cold, job = in_turn(repeats, ssh, srun)
    if {one.size for one in (*cold, *job)} - {BIG_MB * 1_000_000, cold[0].size}:
        raise BenchError("not all of it came")
    return [
        Row(f"{BIG_MB} MB {name}, ssh, new connection", [BIG_MB / one.wall_s for one in cold], "MB/s", 1.0),
        Row(f"{BIG_MB} MB {name}, srun", [BIG_MB / one.wall_s for one in job], "MB/s", 1.0),
        ratio(f"{BIG_MB} MB {name}: time, srun / ssh", walls(job), walls(cold), goal=2.0),
    ]


@contextmanager
def spare_file(size: int) -> Iterator[Path]:
    path = Path(f"/tmp/mgpu-bench-{os.getpid()}.in")
    try:
        path.write_bytes(os.urandom(size))
        yield path
    finally:
        path.unlink(missing_ok=True)


# --- a key ----------------------------------------------------------------------------------------------------------


def keys(cluster: Cluster, repeats: int) -> list[Row]:
    """From a key to its echo, on the terminal of a job and on one of ssh, each typed in turn."""
    count = KEYS if repeats > 2 else 5
    with (
        Typed(["ssh", "-tt", *cluster.ssh_words("cat")[1:]], cluster.env) as theirs,
        Typed(cluster.mgpu_words("srun", "-Q", "--pty", "cat"), cluster.env) as ours,
    ):
        for terminal in (theirs, ours):
            terminal.until_it_echoes()
        took = [(theirs.key(), ours.key()) for _ in range(count)]
    ssh, job = Series([one for one, _ in took]), Series([two for _, two in took])
    return [
        Row("from a key to its echo, `ssh -t`", ssh.values),
        Row("from a key to its echo, `mgpu srun --pty`", job.values),
        Row("what that adds to ssh's", [job.median - ssh.median], goal=5.0),
    ]


class Typed:
    """A program on a terminal of its own, of so many rows and columns. `bye`: what ends it."""

    def __init__(
        self,
        words: list[str],
        env: dict[str, str],
        size: tuple[int, int] = (24, 80),
        term: str = "dumb",
        bye: bytes = b"\r\x04",
    ) -> None:
        self._bye = bye
        self._fd, theirs = pty.openpty()
        tty.setraw(theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        self._child = subprocess.Popen(
            words,
            env={**env, "TERM": term},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Typed:
        return self

    def __exit__(self, *_error: object) -> None:
        os.write(self._fd, self._bye)
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._fd)

    def until_it_echoes(self) -> None:
        def echoed() -> bool:
            os.write(self._fd, b"x")
            return bool(select.select([self._fd], [], [], 0.5)[0])

        wait_until("an echo", echoed)
        Event().wait(1.0)
        self.drain()

    def drain(self) -> None:
        while self.read(SETTLED_S):
            pass

    def read(self, seconds: float) -> bytes:
        """What it shows, once it shows something; b"" = nothing for so long."""
        return os.read(self._fd, 1 << 16) if select.select([self._fd], [], [], seconds)[0] else b""

    def answer(self, key: bytes, what: str) -> float:
        """Seconds from the key until something is shown. Raises BenchError."""
        self.drain()
        began = monotonic()
        os.write(self._fd, key)
        if not self.read(10.0):
            raise BenchError(what)
        return monotonic() - began

    def key(self) -> float:
        return self.answer(b"k", "a key has no echo")

    @property
    def pid(self) -> int:
        return self._child.pid


# --- a line ---------------------------------------------------------------------------------------------------------


def lines(cluster: Cluster, repeats: int) -> list[Row]:
    """From a line's writing to its reading, one job followed. The node shares this machine's clock."""
    count = STAMPS if repeats > 2 else 10
    command = f"for i in $(seq {count}); do date +%s.%N; sleep 0.1; done"
    ways = {
        NEW_SSH: (cluster.ssh_words(command, shared=False), cluster.env),
        OURS: (cluster.mgpu_words("srun", "-Q", "--", "sh", "-c", command), cluster.env),
    }
    if cluster.slurm is not None:
        ways[SLURM] = (["srun", "sh", "-c", command], cluster.slurm.env)
    rows = []
    for who, (words, env) in ways.items():
        child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert child.stdout is not None
        with limited(child), child.stdout:
            late = [time() - float(line) for line in child.stdout]
            child.wait()
        if len(late) != count:
            raise BenchError(f"{who}: {len(late)} lines came of {count}")
        goal = 5.0 if who == OURS else None
        rows.append(Row(f"{who}: from a line's writing to its reading", late[1:], goal=goal, topic="a line", who=who))
    return rows


# --- many -----------------------------------------------------------------------------------------------------------


def crowd(cluster: Cluster, _repeats: int) -> list[Row]:
    """Jobs on one node that allows ten sessions a connection, each followed live from its first line to its last."""
    before = memory_of(cluster)
    began = monotonic()
    line = f"for i in $(seq {LINES}); do date +%s.%N; sleep 1; done"
    words = cluster.mgpu_words("srun", "-Q", "-G", "0", "--mem", "1", "-c", "0", "sh", "-c", line)
    followers = [
        subprocess.Popen(words, env=cluster.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(FOLLOWED)
    ]
    try:
        late = _lateness(followers)
        took = monotonic() - began
        if any(follower.wait(60) for follower in followers):
            raise BenchError("not all of them ended well")
    finally:
        for follower in followers:
            follower.kill()
            follower.wait()
            assert follower.stdout is not None
            follower.stdout.close()
    return [
        Row(f"{FOLLOWED} jobs followed on one node: from a line's writing to its reading", late),
        Row("from the first srun to the last line of all", [took], "s", 1.0),
        *memory_since(before, cluster),
    ]


def _lateness(followers: list[subprocess.Popen[bytes]]) -> list[float]:
    """Of each line but a job's first, which waits for the job's start to be known."""
    late: list[float] = []
    pipes = {follower.stdout.fileno(): bytearray() for follower in followers if follower.stdout}
    lines = dict.fromkeys(pipes, 0)
    deadline = monotonic() + 120.0
    while pipes:
        if monotonic() > deadline:
            raise BenchError(f"{len(pipes)} of {FOLLOWED} jobs have not ended after two minutes")
        for pipe in select.select(list(pipes), [], [], 1.0)[0]:
            data, now = os.read(pipe, 1 << 16), time()
            if not data:
                del pipes[pipe]
                continue
            pipes[pipe] += data
            *whole, rest = pipes[pipe].split(b"\n")
            pipes[pipe][:] = rest
            for text in whole:
                lines[pipe] += 1
                if lines[pipe] > 1:
                    late.append(now - float(text))
    if len(late) != FOLLOWED * (LINES - 1):
        raise BenchError(f"{len(late)} lines came of {FOLLOWED * (LINES - 1)}")
    return late
