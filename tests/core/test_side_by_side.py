"""Several tasks of a command side by side: the shell text that starts them, under each shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mgpu.core.launch import Launch, NodeWorld
from mgpu.core.model import Command, CommandForm
from tests.core.test_launch import SHELLS, rendered, run

ARGV, SHELL, SCRIPT = CommandForm.ARGV, CommandForm.SHELL, CommandForm.SCRIPT
RANKS = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NTASKS_PER_NODE $RANK $LOCAL_RANK $WORLD_SIZE"


def tasks(command: Command, count: int, ranks: int = 1, rank: int = 0, **more: Any) -> Launch:
    spec = {"tasks_per_node": count, **more.pop("spec", {})}
    return rendered(command, ranks=ranks, rank=rank, spec=spec, **more)


def shell(line: str) -> Command:
    return Command(SHELL, (line,))


@pytest.mark.parametrize("name", SHELLS)
def test_each_task_is_told_its_rank(name: str, tmp_path: Path) -> None:
    done = run(name, tasks(shell(RANKS), 3, ranks=2, rank=1), tmp_path)
    assert sorted(done.stdout.decode().splitlines()) == [f"{3 + n} {n} 6 3 {3 + n} {n} 6" for n in range(3)]
    assert (done.returncode, done.stderr) == (0, b"")
    alone = run(name, tasks(shell(RANKS), 1, ranks=2, rank=1), tmp_path)
    assert (alone.returncode, alone.stdout) == (0, b"1 0 2 1 1 0 2\n")


@pytest.mark.parametrize("name", SHELLS)
def test_a_task_may_see_its_own_gpus_alone(name: str, tmp_path: Path) -> None:
    bound = tasks(shell("echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES $SLURM_GPUS_PER_TASK"), 3, spec={"gpus_per_task": 2})
    script = bound.script.replace("CUDA_VISIBLE_DEVICES='0'", "CUDA_VISIBLE_DEVICES='0,1,3,GPU-x,11,12'")
    done = run(name, Launch(script), tmp_path)
    assert sorted(done.stdout.decode().splitlines()) == ["0 0,1 2", "1 3,GPU-x 2", "2 11,12 2"]


@pytest.mark.parametrize("name", SHELLS)
def test_every_form_of_a_command(name: str, tmp_path: Path) -> None:
    nasty = ("a  b", "$HOME", "'", "*", "")
    argv = Command(ARGV, (sys.executable, "-c", "import sys; sys.stdout.write(f'{sys.argv[1:]}\\n')", *nasty))
    assert run(name, tasks(argv, 2), tmp_path).stdout.decode() == f"{list(nasty)}\n" * 2
    script = Command(SCRIPT, ("x y",), 'echo "$# $1"\n', "x.sh")
    assert run(name, tasks(script, 2), tmp_path).stdout == b"1 x y\n" * 2
    world = NodeWorld(setup="f() { echo by setup $#; }; set -a; set -e")
    lines = run(name, tasks(shell("f; env | grep mgpu_ || true"), 2, world=world), tmp_path)
    assert (lines.stdout, lines.returncode) == (b"by setup 0\n" * 2, 0)
    fails = run(name, tasks(shell("false; echo not reached"), 2, world=world), tmp_path)
    assert (fails.stdout, fails.returncode) == (b"", 1)


@pytest.mark.parametrize("name", SHELLS)
def test_a_line_swallows_nothing_of_ours(name: str, tmp_path: Path) -> None:
    for line in ("echo ')' # )", "cat <<X\n)\nX", "echo ')'; exit 0"):
        done = run(name, tasks(shell(line), 2), tmp_path)
        assert (done.stdout, done.returncode) == (b")\n" * 2, 0)
    for line in ("echo ')'; }; {", "echo '", "if true"):
        done = run(name, tasks(shell(line), 2), tmp_path)
        assert done.returncode != 0
        assert done.stderr


@pytest.mark.parametrize("name", SHELLS)
def test_signals_have_their_own_meaning_in_a_task_and_stdin_is_the_firsts(name: str, tmp_path: Path) -> None:
    code = (
        "import signal, sys; own = [signal.getsignal(n) == signal.SIG_DFL for n in (3, 10, 15)]\n"
        "sys.stdout.write(f'{own} {sys.stdin.read()}\\n')"
    )
    launch = tasks(Command(ARGV, (sys.executable, "-c", code)), 2)
    (tmp_path / "given").write_text("for one")
    with_stdin = Launch(f"exec <{tmp_path}/given\n{launch.script}")
    assert sorted(run(name, with_stdin, tmp_path).stdout.decode().splitlines()) == [
        "[True, True, True] ",
        "[True, True, True] for one",
    ]


@pytest.mark.parametrize("name", SHELLS)
def test_the_first_that_fails_is_the_jobs_end(name: str, tmp_path: Path) -> None:
    """The others are left to whoever watches over the job."""
    line = "[ $RANK = 2 ] && exit 3; exec sleep 5 >/dev/null 2>&1"
    done = run(name, tasks(shell(line), 4, world=NodeWorld(setup="IFS=,; set -u")), tmp_path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr == b"mgpu: task 2 on node001 ended with 3: the other tasks there are ended too\n"
    assert (tmp_path / "failed").is_symlink()


@pytest.mark.parametrize("name", SHELLS)
def test_whoever_is_being_ended_has_its_time_for_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "stop").symlink_to("CANCEL")
    done = run(name, tasks(shell("[ $RANK = 0 ] && exit 143; sleep 0.3; echo saved"), 3), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"saved\n" * 2, b"")
    assert not (tmp_path / "failed").is_symlink()


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_of_ours_that_is_killed_hangs_nobody(name: str, tmp_path: Path) -> None:
    line = "[ $RANK = 1 ] || exit 0; read -r _ _ _ parent _ </proc/self/stat; kill -KILL $parent; sleep 0.1"
    assert run(name, tasks(shell(line), 3), tmp_path).returncode == 137
