"""Signals on their way to a job: by the command, and through its srun."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.end_to_end.cluster import Cluster, until

# says which signals it got, and ends with the last of them
PROGRAM = """
import signal, sys
def got(number, _frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGUSR2:
        sys.exit(9)
signal.signal(signal.SIGUSR1, got)
signal.signal(signal.SIGUSR2, got)
print("begun", flush=True)
while True:
    signal.pause()
"""


def test_the_program_of_a_script_gets_it(cluster: Cluster) -> None:
    (cluster.home / "program.sh").write_text(f"#!/bin/sh\npython3 -c '{PROGRAM}'\necho ended with $?\n")
    job_id = cluster.submit(cluster.home / "program.sh")
    cluster.await_output(job_id, "begun")
    assert cluster("signal", job_id, "SIGUSR1").out == f"Signalled job {job_id}\n"
    cluster.await_output(job_id, "SIGUSR1")
    assert cluster("cancel", "-s", "12", job_id).out == f"Signalled job {job_id}\n"
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    assert cluster.output(job_id).splitlines() == ["begun", "SIGUSR1", "SIGUSR2", "ended with 9"]
    assert "has already ended" in cluster.refused("signal", job_id, "USR1", code=1)
    assert "there is no signal 'USR3'" in cluster.refused("signal", job_id, "USR3")


def test_srun_passes_user_signals_on(cluster: Cluster) -> None:
    follower = cluster.start("srun", "python3", "-c", PROGRAM)
    follower.read_until("begun")
    follower.send(signal.SIGUSR1)
    follower.read_until("SIGUSR1")
    follower.send(signal.SIGUSR2)
    result = follower.finish()
    assert (result.code, result.out) == (9, "begun\nSIGUSR1\nSIGUSR2\n")


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for it."""
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_one_that_waits_has_nothing_to_signal(cluster: Cluster) -> None:
    blocker = cluster.submit("-G", 8, "--", "sleep", 60)
    cluster.await_running(blocker)
    follower = cluster.start("srun", "-G", 8, "true")
    until("it waits", lambda: len(cluster.json("queue")["jobs"]) == 2)
    until("it listens for signals", lambda: catches(follower.pid, signal.SIGUSR1))
    follower.send(signal.SIGUSR1)
    follower.read_until("SIGUSR1 was not passed on")
    assert follower.running
    follower.send(signal.SIGINT)
    assert follower.finish().code == 130
