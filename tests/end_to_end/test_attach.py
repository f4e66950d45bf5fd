"""Coming back to a job: attach and logs, while it runs, after it ended, and when its node is no more."""

from __future__ import annotations

import signal

from tests.end_to_end.cluster import Cluster

# writes a line for each of the files in $0 that somebody makes, and ends with the third
STEPS = "for i in 1 2 3; do until [ -e $0/$i ]; do sleep 0.05; done; echo step $i; echo err $i >&2; done; exit 5"


def step(cluster: Cluster, number: int) -> None:
    cluster.lab.node("node001").run(f"touch /tmp/attach-steps/{number}")


def test_attach_goes_on_where_srun_was_hung_up(cluster: Cluster) -> None:
    cluster.lab.node("node001").run("mkdir -pm 777 /tmp/attach-steps")
    job_id = cluster.submit("-w", "node001", "--", "sh", "-c", STEPS, "/tmp/attach-steps")
    step(cluster, 1)
    cluster.await_output(job_id, "step 1")
    followers = [cluster.start("attach", *words, job_id) for words in ((), ("--from-start",), ("--tail", 1))]
    for follower in followers:
        follower.read_until("runs on")
    followers[1].read_until("step 1")
    followers[2].read_until("step 1")
    step(cluster, 2)
    step(cluster, 3)
    results = [follower.finish() for follower in followers]
    assert [result.code for result in results] == [5, 5, 5]
    assert [result.out for result in results] == ["step 2\nstep 3\n", *["step 1\nstep 2\nstep 3\n"] * 2]
    assert all(result.told[-1] == f"mgpu: job {job_id} FAILED, exit 5 on node001" for result in results)
    over = cluster("attach", job_id, check=False)
    assert (over.code, over.out, over.told) == (5, "", [f"mgpu: job {job_id} FAILED, exit 5 on node001"])


def test_ctrl_c_of_attach_is_that_of_srun(cluster: Cluster) -> None:
    job_id = cluster.submit("--", "sh", "-c", "echo begun; sleep 60")
    cluster.await_output(job_id, "begun")
    terminal = cluster.terminal("attach", job_id)
    terminal.read_until("runs on")
    terminal.type("\x03")
    terminal.read_until("^C again within 1 s ends it")
    assert cluster.job(job_id)["state"] == "RUNNING"
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert cluster.await_job(job_id)["state"] == "CANCELLED"


def test_the_end_of_several_jobs(cluster: Cluster) -> None:
    first, second = (cluster.submit("--", "sh", "-c", f"seq 100; echo {name} >&2") for name in ("one", "two"))
    for job_id in (first, second):
        cluster.await_job(job_id)
    result = cluster("logs", "-n", 2, first, second)
    assert result.out == f"==> job {first} <==\n99\n100\n\n==> job {second} <==\n99\n100\n"
    assert result.err == f"==> job {first} <==\none\n\n==> job {second} <==\ntwo\n"
    followed = cluster("logs", "-f", "-l", "-n", 1, "--stderr", first, second)
    assert sorted(followed.lines) == [f"{first}.0: one", f"{second}.0: two"]
    assert cluster("logs", "--since", "1h", first).out == "".join(f"{number}\n" for number in range(1, 101))
    assert cluster("logs", "--since", "2099-01-01", first).out == ""
    assert "--since 'soon' cannot be read" in cluster.refused("logs", "--since", "soon", first)


def test_a_look_shows_what_was_written_just_now(cluster: Cluster) -> None:
    """Nobody follows it, so nothing of it has come yet but by a sweep every few seconds."""
    cluster.lab.node("node001").run("mkdir -pm 777 /tmp/attach-now; rm -f /tmp/attach-now/*")
    # in the file stands what was written before it
    program = "cd /tmp/attach-now; while :; do date +%s.%N >new; cat new; mv new last; sleep 0.01; done"
    job_id = cluster.submit("-w", "node001", "--", "sh", "-c", program)
    cluster.await_running(job_id)
    for _ in range(3):
        look = "until [ -e /tmp/attach-now/last ]; do sleep 0.05; done; cat /tmp/attach-now/last"
        before = float(cluster.lab.node("node001").run(look).stdout)
        assert float(cluster("logs", "-n", 1, job_id).out) >= before
    before = float(cluster.lab.node("node001").run(look).stdout)
    follower = cluster.start("attach", job_id)
    follower.read_until(f"{before:.0f}"[:6])  # a moment
    follower.send(signal.SIGHUP)
    assert float(follower.finish().out.split()[0]) >= before
