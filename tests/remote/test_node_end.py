"""The node's half: how jobs end, are ended, and what is left of them: nothing."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from time import sleep

import pytest

from mgpu.core.lifecycle import PartEvent
from mgpu.core.model import AttemptState, FailureClass, JobId, NodeName, Part
from mgpu.core.reconcile import event_news, news_of
from mgpu.remote.errors import RemoteError, Trouble
from tests.remote.conftest import Workbench, living, wait_until
from tests.remote.test_node_members import ESCAPES, replace_in_program

ENDS = {
    "exit 0": "0",
    "exit 1": "1",
    "exit 75": "75",  # also what flock says for a lease that is taken
    "exit 126": "126",
    "exit 255": "255",
    "exec /does/not/exist": "127",
    "exec /etc/passwd": "126",
    "kill -INT $$; echo survived": "130",
    "kill -KILL $$": "137",
    "kill -TERM $$": "143",
    "exec sh -c 'kill -PIPE $$'": "141",
    "kill -USR1 $$": "138",
}


def test_exit_codes_are_exact(bench: Workbench) -> None:
    (bench.folder / "account/core").write_text("")
    for number, script in enumerate(ENDS):
        assert bench.start(f"{number}.1", f"ulimit -c 0; {script}") is None
    found = {script: bench.exit_of(f"{number}.1") for number, script in enumerate(ENDS)}
    assert found == ENDS
    for number, script in enumerate(ENDS):
        assert bench.output(f"{number}.1") == b"", script
        if "exec /" not in script:
            assert bench.output(f"{number}.1", "stderr") == b"", script


def test_output_arrives_byte_for_byte(bench: Workbench) -> None:
    everything = bytes(range(256)) * 16 + b"\xff\xfe" + b"x" * 1_000_000
    (bench.folder / "blob").write_bytes(everything)
    assert bench.run("1.1", f"cat {bench.folder}/blob; cat {bench.folder}/blob {bench.folder}/blob >&2") == "0"
    assert bench.output("1.1") == everything
    assert bench.output("1.1", "stderr") == everything * 2
    assert bench.look("1.1").sizes == (len(everything), 2 * len(everything))


def test_output_that_cannot_be_read_is_gone(bench: Workbench) -> None:
    """A job can do that to its own files. Whoever waits for the bytes is told that none will come."""
    assert bench.run("1.1", f"rm {bench.place('1.1')}/stdout; mkdir {bench.place('1.1')}/stdout") == "0"
    with pytest.raises(RemoteError) as caught:
        bench.output("1.1")
    assert caught.value.trouble is Trouble.GONE
    assert bench.output("1.1", "stderr") == b""


def test_out_of_memory_is_what_the_kernel_says(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters are files of ours here: no kernel has to run out of memory."""
    groups = bench.folder / "cgroup"
    replace_in_program(monkeypatch, "/sys/fs/cgroup", groups)
    counters = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, place = line.split(":", 2)
        if kind in ("", "memory"):
            counters.append(groups / kind / place.lstrip("/") / ("memory.oom_control" if kind else "memory.events"))
    assert counters
    for counter in counters:
        counter.parent.mkdir(parents=True, exist_ok=True)
        counter.write_text("oom 3\noom_kill 3\n")
    killed = f"echo 'oom_kill 4' >'{counters[0]}'; kill -KILL $$"
    assert bench.run("1.1", "kill -KILL $$") == "137"
    assert bench.record("1.1", "stop") is None
    assert bench.run("2.1", killed.replace("kill -KILL $$", "exit 1")) == "1"
    assert bench.record("2.1", "stop") is None
    counters[0].write_text("oom_kill 3\n")
    assert bench.run("3.1", killed) == "137"
    assert bench.record("3.1", "stop") == "OOM"
    news = news_of(part_of("3.1"), bench.tokens["3.1"], bench.answer("3.1"))
    assert [(one.event, one.stop, one.exit_code) for one in news if one.event is not PartEvent.STARTED] == [
        (PartEvent.STOP_WANTED, "OOM", None),
        (PartEvent.EXITED, "", 137),
    ]
    for counter in counters:
        counter.unlink()
    assert bench.run("4.1", "kill -KILL $$") == "137"
    assert bench.record("4.1", "stop") is None


def test_a_stop_ends_the_whole_tree_first_gently(bench: Workbench, mark: str) -> None:
    uuids = bench.devices(1)
    said = bench.folder / "said"
    gentle = f"trap 'sleep 0.3; echo saved >>{said}; exit 9' TERM; sleep {mark} & wait"
    bench.start("1.1", gentle, uuids)
    stubborn = "\n".join([*ESCAPES.values(), "trap '' TERM; sleep MARK; sleep MARK"])
    bench.start("2.1", stubborn.replace("MARK", mark))
    for key in ("1.1", "2.1"):
        bench.wait(key, "started")
    wait_until(lambda: len(living(mark)) >= len(ESCAPES) + 2)
    assert bench.stop("1.1", grace_s=10) == ("ok", "stopping")
    assert bench.stop("2.1", grace_s=0) == ("ok", "stopping")
    assert bench.exit_of("1.1") == "9"
    assert bench.exit_of("2.1") == "137"
    assert said.read_text() == "saved\n"
    assert bench.record("1.1", "stop") == "CANCEL"
    assert living(mark) == []
    assert bench.run("3.1", "echo", uuids) == "0"


def test_a_time_limit_ends_the_job_on_the_node_itself(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"trap 'echo late; exit 0' TERM; sleep {mark} & wait", time_limit_s=1)
    assert bench.exit_of("1.1") == "0"
    assert bench.record("1.1", "stop") == "TIMEOUT"
    assert bench.output("1.1") == b"late\n"
    assert living(mark) == []


def test_a_limit_that_is_not_reached_leaves_no_timer(bench: Workbench) -> None:
    assert bench.run("1.1", "sleep 0.1", time_limit_s=3600) == "0"
    wait_until(lambda: not living(str(bench.place("1.1"))), "the end of the timer")
    assert bench.record("1.1", "stop") is None
    deadline, started = bench.wait("1.1", "deadline"), bench.wait("1.1", "started").split(":")[1]
    assert int(deadline) == int(float(started)) + 3601


def test_a_deadline_can_be_moved_while_it_runs(quick_bench: Workbench) -> None:
    bench = quick_bench
    bench.start("1.1", "sleep 3.5; echo done", time_limit_s=2)
    bench.wait("1.1", "deadline")
    deadline = bench.place("1.1") / "deadline"
    (deadline.parent / "new").symlink_to(str(int(deadline.readlink().name) + 3600))
    (deadline.parent / "new").rename(deadline)
    assert bench.exit_of("1.1") == "0"
    assert bench.record("1.1", "stop") is None


def test_a_limit_can_be_given_moved_and_taken_away_while_it_runs(bench: Workbench) -> None:
    def limit(key: str, seconds: int | None) -> None:
        bench.runner.limit(key, bench.tokens[key], seconds)

    def timers(key: str) -> int:
        return len(set(living("mgpu-timer")) & set(living(str(bench.place(key)))))

    for key in ("1.1", "2.1", "3.1"):
        bench.start(key, "sleep 1000", time_limit_s=None if key == "1.1" else 3600)
    for key in ("1.1", "2.1", "3.1"):
        bench.wait(key, "started")
    limit("1.1", 3600)
    wait_until(lambda: timers("1.1") == 1, "a timer")
    limit("1.1", 3601)
    began = int(float(bench.wait("1.1", "started").split(":")[1]))
    assert bench.record("1.1", "deadline") == str(began + 3602)
    limit("2.1", None)
    assert bench.record("2.1", "deadline") is None
    limit("2.1", 1)  # the timer slept, and is woken
    assert bench.exit_of("2.1") == "143"
    assert bench.record("2.1", "stop") == "TIMEOUT"
    limit("2.1", 3600)  # too late, and harmless
    bench.runner.limit("3.1", "another", 1)
    assert bench.record("3.1", "deadline") != "1"
    assert timers("1.1") == timers("3.1") == 1
    for key in ("1.1", "3.1"):
        bench.stop(key)
        assert bench.exit_of(key) == "143"
        assert bench.record(key, "stop") == "CANCEL"
        wait_until(lambda key=key: timers(key) == 0, "the end of the timer")  # type: ignore[misc]


def test_a_signal_comes_before_the_limit_once(bench: Workbench) -> None:
    job = "trap 'echo first' USR1; sh -c 'trap \"echo second\" USR1; while :; do sleep 0.1; done' & "
    job += "while :; do wait; sleep 0.1; done"
    for key, signal_at in (("1.1", "10@3599"), ("2.1", "B:10@3599"), ("3.1", "10@5")):
        bench.start(key, job, time_limit_s=3600, signal=signal_at)
    wait_until(lambda: sorted(bench.output("1.1").split()) == [b"first", b"second"], "the signal")
    wait_until(lambda: bench.output("2.1") == b"first\n", "the signal to the first process")
    bench.runner.limit("2.1", bench.tokens["2.1"], 3601)
    for key in ("1.1", "2.1", "3.1"):
        bench.stop(key, grace_s=0)
        assert bench.exit_of(key) in ("137", "143")
    assert sorted(bench.output("1.1").split()) == [b"first", b"second"]
    assert bench.output("2.1") == b"first\n"
    assert bench.output("3.1") == b""


def test_a_job_can_ask_to_be_queued_again(bench: Workbench, mark: str) -> None:
    path = 'PATH="${0%/*}/bin:$PATH"; '
    bench.start("7.1", f"{path}sleep {mark} & trap 'echo told; exit 3' TERM; scontrol requeue 7; echo $?; wait")
    assert bench.exit_of("7.1") == "3"
    assert bench.output("7.1").splitlines()[-1] == b"told"
    assert living(mark) == []
    assert bench.record("7.1", "stop") == "REQUEUE"
    news = news_of(part_of("7.1"), bench.tokens["7.1"], bench.answer("7.1"))
    assert [(one.event, one.stop) for one in news[:1]] == [(PartEvent.STOP_WANTED, "REQUEUE")]
    events = (bench.place("7.1").parent / "events").read_text().splitlines()
    assert [one.stop for line in events for one in event_news(line, lambda _: 0.0) if one.stop] == [
        "REQUEUE",
        "REQUEUE",
    ]


REFUSED_WISHES = ["requeue 8", "requeue", "requeue 7 8", "show job 7", "show", ""]


def test_what_else_could_be_asked_is_refused(bench: Workbench) -> None:
    script = "; ".join(f"${{0%/*}}/bin/scontrol {words}; echo $?" for words in REFUSED_WISHES)
    assert bench.run("7.1", script) == "0"
    assert bench.output("7.1").split() == [b"1"] * len(REFUSED_WISHES)
    said = bench.output("7.1", "stderr").decode().splitlines()
    knows = "scontrol: here it knows, for the job that it runs in: scontrol show hostnames; scontrol requeue 7"
    assert said == [knows] * len(REFUSED_WISHES)
    assert bench.record("7.1", "stop") is None
    assert bench.run("8.1", "${0%/*}/bin/scontrol requeue 8; echo $?", requeue=False) == "0"
    assert bench.output("8.1") == b"1\n"
    refused = b"scontrol: srun and --no-requeue: the job is not queued again\n"
    assert (bench.output("8.1", "stderr"), bench.record("8.1", "stop")) == (refused, None)


def test_the_nodes_of_the_job_a_line_each(bench: Workbench) -> None:
    asks = 'export SLURM_JOB_NODELIST=10.0.0.1,10.0.0.2 PATH="${0%/*}/bin:$PATH"; scontrol show hostnames'
    lists = f"{asks}; scontrol show hostname a,b | head -n 1; scontrol show hostnames 'a[1-2]' || echo $?"
    assert bench.run("7.1", lists, requeue=False) == "0"
    assert bench.output("7.1").split() == [b"10.0.0.1", b"10.0.0.2", b"a", b"1"]


def test_a_later_attempt_appends_and_its_output_is_what_it_wrote(bench: Workbench) -> None:
    out, err = bench.folder / "out.txt", bench.folder / "err.txt"
    out.write_text("of somebody else")
    files = {"output": str(out), "error": str(err)}
    assert bench.run("1.1", "echo one; echo bad >&2", **files) == "0"
    assert bench.run("1.2", "echo three; echo worse >&2", append=True, **files) == "0"
    assert (out.read_text(), err.read_text()) == ("one\nthree\n", "bad\nworse\n")
    assert (bench.output("1.2"), bench.output("1.2", "stderr")) == (b"three\n", b"worse\n")
    assert bench.look("1.2").sizes == (6, 6)
    assert bench.runner.read("1.2", "stdout", 2) == (b"ree\n", 6)
    (ended,) = [
        one
        for line in (bench.place("1.2").parent / "events").read_text().splitlines()
        for one in event_news(line, lambda _: 0.0)
        if line.startswith("1.2 ended")
    ]
    assert ended.sizes == (6, 6)
    heard: list[bytes] = []
    with bench.runner.following("1.2", (1, 0), (heard.append, heard.append)):
        wait_until(lambda: sum(map(len, heard)) == 11)
    assert sorted(b"".join(heard)) == sorted(b"hree\nworse\n")
    assert bench.run("1.3", "echo five", append=True, output=str(out)) == "0"
    assert (bench.output("1.1"), bench.output("1.2"), bench.output("1.3")) == (b"one\n", b"three\n", b"five\n")
    out.write_text("")  # somebody empties it
    assert bench.output("1.2") == b""


# --- when those who watch are killed --------------------------------------------------------------------------------


def part_of(key: str, **known: object) -> Part:
    job, attempt = key.split(".")
    place = (JobId(int(job)), int(attempt), 0, NodeName("node001"), "", (), ())
    return Part(*place, AttemptState.RUNNING, started=1.0, **known)  # type: ignore[arg-type]


def test_a_killed_supervisor_is_an_orphaned_job(bench: Workbench, mark: str) -> None:
    uuids = bench.devices(1)
    bench.start("1.1", f"sleep {mark}", uuids)
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    os.kill(int(bench.wait("1.1", "pid").split(":")[0]), signal.SIGKILL)
    wait_until(lambda: not bench.look("1.1").alive)
    assert [news.event for news in news_of(part_of("1.1"), bench.tokens["1.1"], bench.answer("1.1"))] == [
        PartEvent.STARTED,
        PartEvent.ORPHANED,
    ]
    assert bench.run("2.1", "echo", uuids).startswith("fail:newcomer:")
    assert bench.stop("1.1", reason="ORPHANED") == ("ok", "stopping")
    bench.wait("1.1", "clean")
    assert living(mark) == []
    assert bench.run("3.1", "echo", uuids) == "0"


def test_a_job_that_ends_well_without_its_supervisor_keeps_its_code(shell_bench: Workbench) -> None:
    shell_bench.start("1.1", f"while [ ! -e {shell_bench.folder}/go ]; do sleep 0.05; done; exit 7")
    shell_bench.wait("1.1", "started")
    os.kill(int(shell_bench.wait("1.1", "pid").split(":")[0]), signal.SIGKILL)
    (shell_bench.folder / "go").touch()
    assert shell_bench.wait("1.1", "exit").startswith("7:")
    assert shell_bench.record("1.1", "clean") is None
    shell_bench.stop("1.1", reason="ORPHANED")
    assert shell_bench.exit_of("1.1") == "7"


def test_a_killed_runner_ends_the_job(shell_bench: Workbench, mark: str) -> None:
    shell_bench.start("1.1", f"sleep {mark}")
    runner = int(shell_bench.wait("1.1", "started").split(":")[0])
    wait_until(lambda: bool(living(mark)))
    os.kill(runner, signal.SIGKILL)
    assert shell_bench.exit_of("1.1") == "fail:supervisor:the job's supervising shell was killed"
    assert living(mark) == []
    *_, last = news_of(part_of("1.1"), shell_bench.tokens["1.1"], shell_bench.answer("1.1"))
    assert (last.event, last.failure) == (PartEvent.EXITED, FailureClass.SUPERVISOR)


def test_a_job_whose_run_directory_was_removed_is_ended_all_the_same(bench: Workbench, mark: str) -> None:
    uuids = bench.devices(1)
    bench.start("1.1", f"trap '' TERM; sleep {mark}; sleep {mark}", uuids)
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    place = bench.place("1.1")
    place.rename(bench.folder / "gone")
    shutil.rmtree(bench.folder / "gone")
    (news,) = news_of(part_of("1.1"), bench.tokens["1.1"], bench.answer("1.1"))
    assert news.event is PartEvent.GONE
    assert bench.stop("1.1", grace_s=0) == ("ok", "stopping")
    ended = bench.exit_of(
        "1.1"
    )  # those that watch over it are found by the token alone, which one process of perl does not bear
    assert ended == "137" if bench.quick else ended.startswith("fail:supervisor:")
    assert living(mark) == []
    assert bench.run("2.1", "echo", uuids) == "0"


def test_who_stops_those_that_watch_can_be_ended(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"kill -STOP $PPID; sleep {mark}")
    wait_until(lambda: bool(living(mark)))
    assert bench.stop("1.1") == ("ok", "stopping")
    assert bench.exit_of("1.1") == "143"
    assert bench.record("1.1", "stop") == "CANCEL"


@pytest.mark.parametrize("number", [1, 2, 3, 10, 12, 15])
def test_who_watches_does_not_hear_what_a_job_sends_there(bench: Workbench, number: int) -> None:
    assert bench.run("1.1", f"trap '' {number}; kill -{number} $PPID; kill -{number} 0; exit 7") == "7"


def session_of(pid: int) -> int:
    """0 = it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def test_only_one_reaper_at_a_time(quick_bench: Workbench, mark: str) -> None:
    bench = quick_bench
    bench.start("1.1", f"trap '' TERM; sleep {mark}; sleep {mark}")
    bench.wait("1.1", "started")
    bench.stop("1.1", grace_s=1)
    wait_until((bench.place("1.1") / "reaper").is_symlink)
    for _ in range(5):
        bench.stop("1.1", grace_s=1)
    sleep(0.1)
    # each has a session of its own, in which there are shells that are called as it is, for a moment
    sessions = {session_of(pid) for pid in set(living("mgpu-reap")) & set(living(str(bench.place("1.1"))))}
    assert len(sessions - {0}) == 1
    assert bench.exit_of("1.1") == "137"


def test_what_a_job_leaves_where_its_start_was_told_holds_nobody_up(bench: Workbench) -> None:
    """A gigabyte without a line break, say: neither a look at it, nor its end."""
    script = 'cd "${0%/*}"; rm -f step; truncate -s 1G step; rm -f started; touch there; exec sleep 1000'
    bench.start("1.1", script)
    wait_until((bench.place("1.1") / "there").exists)
    assert len(bench.look("1.1").step) <= 1000
    assert bench.look("1.1").alive
    assert bench.stop("1.1", grace_s=1) == ("ok", "stopping")
    assert bench.exit_of("1.1") is not None
