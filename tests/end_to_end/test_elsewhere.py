"""MGPU_MASTER=ssh://head: everything that works on the head works from another machine, over one login a command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import LabMaker
from tests.end_to_end import afar
from tests.end_to_end.cluster import until
from tests.end_to_end.elsewhere import Elsewhere, lives
from tests.end_to_end.tmux import Tmux
from tests.lab import Lab, Settings


@pytest.fixture(scope="module")
def shared(swept: None, lab_prefix: object) -> Iterator[Elsewhere]:
    assert callable(lab_prefix)
    with (
        Lab(Settings(ephemeral=True), lab_prefix(), "loopback") as lab,
        closing(Elsewhere(lab, "away")) as made,
    ):
        # as somebody at the head does first; it leaves the path of its mgpu
        made("nodes", env=made.on_head())
        yield made


@pytest.fixture
def away(shared: Elsewhere) -> Iterator[Elsewhere]:
    shared.record.write_text("")
    yield shared
    shared.clear()


def test_looking_takes_one_login(away: Elsewhere) -> None:
    assert "node002" in away("nodes").out
    assert len(away.logins()) == 1
    assert away.json("queue") == {"jobs": []}
    until("ssh ends with its command", lambda: not any(map(lives, away.logins())))


def test_from_python(away: Elsewhere) -> None:
    afar.python_asks(away)


def test_ones_own_jobs_under_another_name(away: Elsewhere, tmp_path: Path) -> None:
    job_id = away.submit("--", "sleep", "300")
    # by whatever name this machine knows us
    (tmp_path / "sitecustomize.py").write_text(
        "import pwd\ndef nobody(uid): raise KeyError(uid)\npwd.getpwuid = nobody\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{away.environ['PYTHONPATH']}"}
    assert [job["job_id"] for job in away.json("queue", "--me", env=env)["jobs"]] == [job_id]
    assert away("cancel", "--me", env=env).out == f"Cancelled job {job_id}\n"


def test_a_script_that_lies_here(away: Elsewhere, tmp_path: Path) -> None:
    script = tmp_path / "work.sh"
    script.write_text("#!/bin/sh\n#MGPU -J mine\necho from a script: $1\n")
    job_id = away.submit(script, "argument")
    assert away.await_job(job_id)["name"] == "mine"
    away.record.write_text("")
    assert away("logs", job_id).out == "from a script: argument\n"
    assert len(away.logins()) == 1  # several requests, one after the other


def test_srun_streams_apart_and_ends_with_the_jobs_exit_code(away: Elsewhere) -> None:
    result = away("srun", "-G", 1, "--", "sh", "-c", "printf 'a\\0\\377'; echo b >&2; exit 7", check=False)
    assert (result.code, result.raw) == (7, b"a\0\xff")
    assert "b" in result.told
    assert "FAILED, exit 7" in result.told[-1]
    assert len(away.logins()) == 1


def test_stdin_goes_along(away: Elsewhere) -> None:
    afar.stdin_goes_along(away, 3 << 20)


def test_a_terminal_there_outlives_a_cut(away: Elsewhere) -> None:
    afar.a_terminal_outlives(away, away.cut)


def test_here_nothing_of_linux_is_needed(away: Elsewhere, tmp_path: Path) -> None:
    """As far as that can be tried on Linux: its own calls are taken away."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, socket\ndel os.pipe2, os.memfd_create, socket.MSG_NOSIGNAL, socket.SO_PEERCRED, socket.AF_NETLINK\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{away.environ['PYTHONPATH']}"}
    assert away("srun", "-Q", "--", "echo", "x", env=env).out == "x\n"
    assert away("logs", "-f", 1, env=env).code == 0


def test_a_cut_connection_is_made_again_and_no_byte_is_lost_or_doubled(away: Elsewhere) -> None:
    afar.no_byte_is_lost_or_doubled(away, away.cut)
    assert len(away.logins()) == 3


def test_a_killed_client_leaves_its_job_and_no_ssh(away: Elsewhere) -> None:
    command = away.start("srun", "--", "sh", "-c", "echo here; sleep 300")
    command.read_until("here")
    [job_id] = away.active_jobs()
    command.send(signal.SIGKILL)
    until("ssh is gone", lambda: not any(map(lives, away.logins())))
    assert away.job(job_id)["state"] == "RUNNING"
    viewer = away.start("logs", "-f", job_id)
    viewer.read_until("here")


def test_interrupts_of_a_terminal_are_ours_and_not_sshs(away: Elsewhere) -> None:
    terminal = away.terminal("srun", "--", "sh", "-c", "echo here; sleep 300")
    terminal.read_until("here")
    [job_id] = away.active_jobs()
    terminal.type("\x03")
    terminal.read_until("^C again within 1 s")
    assert away.job(job_id)["state"] == "RUNNING"
    assert all(map(lives, away.logins()))
    terminal.type("\x03\x03")
    assert terminal.finish() == 130
    assert away.await_job(job_id)["state"] == "CANCELLED"
    assert "lost" not in terminal.text
    # the wish to cancel could not go over the stream: it had a session of its own in the same connection
    assert len(away.logins()) == 2


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_the_monitor_looks_on_and_acts_over_logins_that_it_keeps(away: Elsewhere, tmp_path: Path) -> None:
    job_id = away.submit("-J", "watched", "--", "sh", "-c", "echo written there; sleep 300")
    away.await_running(job_id)
    away.record.write_text("")
    with closing(Tmux(tmp_path, away.environ, (120, 40))) as tmux:
        tmux.run(sys.executable, "-m", "mgpu", "top")
        tmux.await_text("watched")
        tmux.await_text("node002")
        tmux.type("Enter")
        tmux.await_text("written there")
        before = len(away.logins())
        moment = tmux.text.splitlines()[0].split()[-1]
        tmux.await_gone(moment)
        tmux.type("c")
        tmux.await_text(f"Cancel job {job_id}")
        tmux.type("y")
        tmux.await_text(f"job {job_id} CANCELLED")
        assert len(away.logins()) <= before + 1, "to look again takes no further login, nor does a wish take several"
        assert away.await_job(job_id)["state"] == "CANCELLED"
        tmux.type("q")
        tmux.await_gone("Queue")
    until("ssh ends with it", lambda: not any(map(lives, away.logins())))


def test_the_line_that_show_prints_gets_there(away: Elsewhere) -> None:
    job_id = away.submit("--", "sleep", "300")
    away.await_running(job_id)
    lines = dict(line.split("  ", 1) for line in away("show", job_id).lines if "  " in line)
    words = lines["log in"].strip()
    assert words.startswith("ssh -J node001 -p ")
    node = away.lab.nodes[1]
    assert words.endswith(f"-p {node.port} {node.user}@127.0.0.1")
    # each node of such a lab has a home of its own
    there = subprocess.run(["sh", "-c", f"{words} pwd"], env=away.environ, capture_output=True, text=True, check=True)
    assert there.stdout.strip().endswith("/node002/home")
    assert lines["port 8888"].strip().startswith("ssh -N -L 8888:localhost:8888 -J node001 ")
    assert " -J " not in away("show", job_id, env=away.on_head()).out


def test_a_master_that_does_not_run_is_started_but_not_for_status(away: Elsewhere) -> None:
    assert "Jobs run on" in away("stop").out
    assert "no master answers" in away.refused("status", code=69)
    with pytest.raises(OSError):
        away.master_pid()
    assert away.json("queue") == {"jobs": []}
    assert away.master_pid()


def test_an_address_in_the_users_own_file(away: Elsewhere) -> None:
    own = away.home / ".config/mgpu/config.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"master: ssh://{away.head.name}\njob_name: mine\n")
    try:
        job_id = away.submit("--", "true", env={"MGPU_MASTER": ""})
        assert away.await_job(job_id)["name"] == "mine"
        own.write_text("master: ssh://nowhere?x=y\n")
        assert "is no master's address" in away.refused("queue", env={"MGPU_MASTER": ""})
    finally:
        own.unlink()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://node001:1", "refuses connections at port 1"),
        ("ssh://nobody.invalid", "no machine called nobody.invalid is known"),
        ("ssh://nobody@node001", "does not let nobody in"),
        ("ssh://node002", "mgpu is not found on node002"),
        ("ssh://node001?mgpu=/no/mgpu", "/no/mgpu cannot be run on node001"),
    ],
)
def test_what_keeps_us_away_is_told_in_a_line(away: Elsewhere, url: str, words: str) -> None:
    assert words in away.refused("queue", code=69, env={"MGPU_MASTER": url})
    for line in (["srun", "true"], ["logs", "-f", "1"], ["attach", "1"], ["wait", "1"]):
        assert words in away.refused(*line, code=69, env={"MGPU_MASTER": url})


def test_the_doctor_looks_at_the_way(away: Elsewhere) -> None:
    def checks(code: int = 0, **env: str) -> dict[str, tuple[str, str]]:
        result = away("--json", "doctor", check=False, env=env)
        assert result.code == code, result.err
        return {found["check"]: (found["status"], found["text"]) for found in json.loads(result.raw)["master"]}

    seen = checks()
    assert {check: status for check, (status, _) in seen.items()} == {
        "ssh": "ok", "login": "ok", "master": "ok", "same": "ok", "nodes": "skipped",
    }  # fmt: skip
    assert f"@127.0.0.1 port {away.head.port}" in seen["ssh"][1]
    assert "1 of 1 nodes up" in seen["master"][1]
    assert seen["nodes"][1].endswith("ssh node001 'mgpu doctor'")
    away("stop")
    assert checks()["master"][0] == "skipped"
    assert "refuses connections" in checks(1, MGPU_MASTER="ssh://node001:1")["login"][1]
    assert "ssh node001 mgpu doctor node002" in away.refused("doctor", "node002")
    away("nodes")  # starts it


def test_a_patience_that_was_given(away: Elsewhere) -> None:
    line = away.refused("queue", code=69, env={"MGPU_MASTER": "ssh://node001:1", "MGPU_CONNECTION_TIMEOUT": "2"})
    assert "refuses connections" in line
    assert len(away.logins()) > 1
    away.record.write_text("")
    away.refused("submit", "--connection-timeout", 30, "--", "true", code=69, env={"MGPU_MASTER": "ssh://node002"})
    assert len(away.logins()) == 1  # what stays so is not tried again


def test_a_master_that_comes_back_within_the_patience(make_lab: LabMaker) -> None:
    lab = make_lab(nodes=2, mode="loopback")
    with closing(Elsewhere(lab, "patient")) as away:
        away("nodes", env=away.on_head())
        away.head.fault("sshd", "stop")
        command = away.start("submit", "--connection-timeout", 60, "--", "true")
        until("it was tried", lambda: len(away.logins()) > 1)
        away.head.fault("sshd", "start")
        assert command.finish().lines == ["Submitted job 1"]


def test_the_tree_goes_along_over_the_same_login(away: Elsewhere, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "data").write_bytes(os.urandom(1 << 20))
    (tree / ".mgpuignore").write_text("*.bin\n")
    (tree / "left.bin").write_bytes(b"x")
    result = away("srun", "-Q", "--ship", "-G", 1, "sh", "-c", "ls; wc -c <data", cwd=tree)
    assert result.lines == ["data", str(1 << 20)]
    assert len(away.logins()) == 1


def test_several_jobs_are_followed_at_once(away: Elsewhere) -> None:
    afar.several_are_followed_at_once(away)
