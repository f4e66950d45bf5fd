"""How jobs are ended: cancel, ^C, signals to srun, the time limit. Whatever it is, nothing of the job stays."""

from __future__ import annotations

import re
import signal
import time

import pytest

from tests.end_to_end.cluster import Cluster, until

# A shell with a child in its group, one in a session of its own, and one that left everything but its environment.
TREE = (
    "sleep 7001 & setsid sleep 7002 & setsid sh -c 'sleep 7003 & sleep 7004' & "
    "setsid -f sh -c 'cd /; exec sleep 7005 <&- >&- 2>&-'; echo ready; {0}sleep 7006; echo after"
)


def sleepers(cluster: Cluster) -> list[str]:
    """Of the trees, on all nodes."""
    found = []
    for node in cluster.lab.nodes:
        lines = node.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", "root").stdout
        found += [number for number in (f"700{i}" for i in range(1, 7)) if f"sleep {number} " in lines]
    return found


@pytest.mark.usefixtures("separate_nodes")
@pytest.mark.parametrize("stubborn", ["", "trap : TERM; "])
def test_cancel_ends_the_whole_tree(cluster: Cluster, stubborn: str) -> None:
    job_id = cluster.submit(TREE.format(stubborn))
    cluster.await_output(job_id, "ready")
    until("the tree", lambda: len(sleepers(cluster)) == 6)
    assert cluster("cancel", job_id).out == f"Cancelled job {job_id}\n"
    job = cluster.await_job(job_id)
    assert (job["state"], job["detail"]) == ("CANCELLED", "cancelled by root")
    assert sleepers(cluster) == []
    cluster.idle()
    assert "already ended" in cluster.refused("cancel", job_id, code=1)


def test_cancel_of_a_job_that_ignores_term(cluster: Cluster) -> None:
    program = "import signal,time; signal.signal(15, signal.SIG_IGN); print('deaf'); time.sleep(700)"
    job_id = cluster.submit("--", "python3", "-c", program)
    cluster.await_output(job_id, "deaf")
    cluster("cancel", job_id)
    # the device is not given out before the last process is gone
    assert cluster.job(job_id)["state"] == "RUNNING"
    job = cluster.await_job(job_id, patience_s=45)
    assert (job["state"], job["exit_code"]) == ("CANCELLED", 137)


def test_what_a_job_leaves_behind_is_ended(cluster: Cluster) -> None:
    result = cluster("srun", "sh", "-c", TREE.format("exit 0; "))
    assert result.out == "ready\n"
    assert sleepers(cluster) == []
    assert any("the command ended and left " in line for line in result.told)


def test_cancel_of_waiting_jobs(cluster: Cluster) -> None:
    first = cluster.submit("-G", 8, "sleep 60")
    cluster.await_running(first)
    waiting = [cluster.submit("-J", "late", "-G", 8, "echo never") for _ in range(2)]
    result = cluster("cancel", "--me", "--state", "PENDING")
    assert result.lines == [f"Cancelled job {job_id}" for job_id in waiting]
    for job_id in waiting:
        job = cluster.job(job_id)
        assert (job["state"], job["attempt"], job["start_time"]) == ("CANCELLED", 0, None)
    assert cluster.job(first)["state"] == "RUNNING"
    assert cluster("cancel", first).code == 0


def test_the_second_interrupt_ends_it(cluster: Cluster) -> None:
    terminal = cluster.terminal("srun", "sh", "-c", "echo begun; sleep 600")
    terminal.read_until("begun")
    terminal.type("\x03")
    terminal.read_until("^C again within 1 s ends it")
    assert "runs on node00" in terminal.text
    time.sleep(1.2)  # too late for a second one: this is another first
    terminal.type("\x03")
    until("told twice", lambda: terminal.pump_text().count("ends it") == 2)
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert "CANCELLED" in terminal.text
    cluster.idle()


def test_one_interrupt_takes_a_waiting_job_off_the_queue(cluster: Cluster) -> None:
    first = cluster.submit("-G", 8, "sleep 60")
    cluster.await_running(first)
    terminal = cluster.terminal("srun", "-G", 8, "true")
    terminal.read_until("waits")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert [job["job_id"] for job in cluster.json("queue")["jobs"]] == [first]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_without_a_terminal(cluster: Cluster, number: int, code: int) -> None:
    follower = cluster.start("srun", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    follower.send(number)
    result = follower.finish()
    assert result.code == code
    assert "CANCELLED" in result.told[-1]
    cluster.idle()


def test_a_hung_up_terminal_leaves_it_running(cluster: Cluster) -> None:
    follower = cluster.start("srun", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    follower.send(signal.SIGHUP)
    result = follower.finish()
    assert result.code == 129
    [job] = cluster.json("queue")["jobs"]
    assert job["state"] == "RUNNING"
    number = job["job_id"]
    assert result.told[-1] == f"mgpu: hung up: job {number} goes on; go back to it with: mgpu attach {number}"


def test_cancelled_by_another(cluster: Cluster) -> None:
    follower = cluster.start("srun", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    cluster("cancel", "--me")
    assert follower.finish().code == 143


def test_time_limit(cluster: Cluster) -> None:
    result = cluster("srun", "-t", "0:02", "sh", "-c", "echo begun; sleep 600", check=False)
    assert (result.code, result.out) == (124, "begun\n")
    assert re.search(r"TIMEOUT on node00. \(time limit reached\)", result.told[-1])
    cluster.idle()


def test_a_time_limit_can_be_moved(cluster: Cluster) -> None:
    waits = cluster.submit("-G", 4, "-w", "node002", "sleep 600")
    cluster.await_running(waits)
    later = cluster.submit("-w", "node002", "-t", 5, "sleep 600")
    assert cluster("update", later, "--time", "0:01").out == f"Updated job {later}: time limit 00:00:01\n"
    cluster("cancel", waits)
    runs = cluster.submit("-w", "node001", "-t", 60, "echo begun; sleep 600")
    cluster.await_output(runs, "begun")
    assert cluster.json("update", runs, "--time", "none")["time_limit_s"] is None
    cluster("update", runs, "-t", "0:01")
    for job_id in (later, runs):
        assert cluster.await_job(job_id)["state"] == "TIMEOUT"
    assert cluster.refused("update", runs, "-t", 5, code=1) == f"mgpu: job {runs} has already ended (TIMEOUT)"


def test_a_warning_before_the_limit(cluster: Cluster) -> None:
    job = "trap 'echo saved; exit 5' USR1; echo begun; while :; do sleep 0.1; done"
    result = cluster("srun", "-t", 1, "--signal", "B:USR1@59", "sh", "-c", job, check=False)
    assert (result.code, result.out) == (5, "begun\nsaved\n")
    assert "--signal needs a time limit" in cluster.refused("srun", "--signal", "USR1@5", "true")


@pytest.mark.usefixtures("separate_nodes")
def test_out_of_memory(cluster: Cluster) -> None:
    """The kernel's counter is a file of ours, on a node of the lab."""
    node = cluster.lab.nodes[0]
    job = """while IFS=: read -r _ kind place; do
      case $kind in
        '') file=$place/memory.events ;;
        memory) file=/memory$place/memory.oom_control ;;
        *) continue ;;
      esac
      mkdir -p "/sys/fs/cgroup${file%/*}"
      echo oom_kill 1 >"/sys/fs/cgroup$file"
    done </proc/self/cgroup
    kill -KILL $$"""
    node.run("mount -t tmpfs -o mode=777 none /sys/fs/cgroup", "root")
    try:
        job_id = cluster.submit("-w", node.name, job)
        ended = cluster.await_job(job_id)
    finally:
        node.run("umount /sys/fs/cgroup", "root")
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("FAILED", "OutOfMemory", 137)
    assert ended["detail"] == f"killed by signal 9: out of memory (the kernel says so) on {node.name}"


def test_a_handler_may_finish_its_work(cluster: Cluster) -> None:
    """TERM comes first, so that a checkpoint can be written."""
    program = "import signal,sys,time; signal.signal(15, lambda *_: (print('saved'), sys.exit(9)))"
    job_id = cluster.submit("--", "python3", "-c", f"{program}; print('begun'); time.sleep(600)")
    cluster.await_output(job_id, "begun")
    cluster("cancel", job_id)
    job = cluster.await_job(job_id)
    assert (job["state"], job["exit_code"], cluster.output(job_id)) == ("CANCELLED", 9, "begun\nsaved\n")


def test_immediate(cluster: Cluster) -> None:
    first = cluster.submit("-G", 8, "sleep 60")
    cluster.await_running(first)
    result = cluster("srun", "-G", 1, "-I", "true", check=False)
    assert result.code == 75
    assert "did not start within 1 s (--immediate): taken off the queue" in result.err
    assert [job["job_id"] for job in cluster.json("queue")["jobs"]] == [first]
