"""What has to work for a client on another machine, by whatever way it comes. `cut`: ends all connections at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.cluster import Cluster, Command

ASKS = Path(__file__).parents[1] / "programs" / "asks.py"
LINES = 2000
COUNTING = f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); [ $((i % 100)) -ne 0 ] || sleep 0.1; done"


def follow(away: Cluster) -> Command:
    """A job that counts, some time on its way."""
    command = away.start("srun", "--", "sh", "-c", COUNTING)
    command.read_until("\n300\n")
    return command


def every_line_comes_once(command: Command) -> None:
    result = command.finish()
    assert result.code == 0, result.err
    assert result.out == "".join(f"{number}\n" for number in range(LINES))


def no_byte_is_lost_or_doubled(away: Cluster, cut: Callable[[], object]) -> None:
    command = follow(away)
    cut()
    command.read_until("\n600\n")
    cut()
    every_line_comes_once(command)


def stdin_goes_along(away: Cluster, size: int) -> None:
    data = os.urandom(size)
    argv = [*map(os.fsdecode, away.argv(["srun", "-Q", "--", "sha256sum"]))]
    ran = subprocess.run(argv, env=away.environ, input=data, capture_output=True, check=True)
    assert ran.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def a_terminal_outlives(away: Cluster, cut: Callable[[], object]) -> None:
    terminal = away.terminal("srun", "--pty", "sh")
    terminal.read_until("$ " if os.getuid() else "# ")
    terminal.type("echo a$((1+1))b\r")
    terminal.read_until("a2b")
    cut()
    terminal.type("echo c$((2+2))d\r")
    terminal.read_until("c4d")
    terminal.type("exit 5\r")
    assert terminal.finish() == 5


def several_are_followed_at_once(away: Cluster) -> None:
    line = "for i in $(seq 300); do echo $i; done; sleep 0.5; echo last"
    jobs = [away.submit("-G", 1, "--", "sh", "-c", line) for _ in range(2)]
    shown = away("logs", "-f", "-l", *jobs).lines
    for job_id in jobs:
        mine = [text for text in shown if text.startswith(f"{job_id}.0: ")]
        assert mine == [f"{job_id}.0: {word}" for word in (*range(1, 301), "last")]
    assert away("attach", "--tail", 1, jobs[0]).out == "last\n"


def python_asks(away: Cluster) -> None:
    ran = subprocess.run(
        [sys.executable, ASKS], env=away.environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.pop("nodes")["node002"] == "UP"
    assert found == {
        "lines": [["stderr", "err"], ["stdout", "out"]],
        "exit_status": 3,
        "stdout": "given",
        "outputs": ["0\n", "1\n", "2\n"],
        "cancelled": True,
        "refused": "not_found",
    }
