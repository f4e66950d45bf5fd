"""The node's half: what one part asks for, and the part that does it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from mgpu.core.launchers.spawning import AGENT, WAIT
from mgpu.core.shelltext import quote
from mgpu.remote.errors import RemoteError
from tests.remote.conftest import Workbench, living, wait_until

# an ask's way from rank 0 to a part, with the test in the master's place
PREPARED = f"""\
mkdir -p "${{0%/*}}/spawn"; printf %s {quote(AGENT)} >"${{0%/*}}/spawn/agent"
echo 'own slots=1
10.0.0.2 slots=1' >"${{0%/*}}/spawn/hosts"; env -0 | tr '\\n\\0' '\\001\\n' >"${{0%/*}}/spawn/world"
agent() {{ sh "${{0%/*}}/spawn/agent" "$@"; }}
"""


def ask_of(bench: Workbench, key: str = "1.1") -> tuple[str, bytes]:
    """The one that waits, once there is one: its name and its text."""
    wait_until(lambda: bool(bench.look(key).asks), "an ask")
    (name,) = bench.look(key).asks
    return name, bench.runner.read(key, f"spawn/ask.{name}", 0)[0]


def hand(bench: Workbench, what: str, name: str, text: bytes, key: str = "1.1") -> tuple[str, ...]:
    return bench.runner.hand(key, bench.tokens[key], what, name, text)


def waits(bench: Workbench, key: str = "1.1") -> None:
    bench.start(key, WAIT)
    bench.wait(key, "started")


def worked(bench: Workbench, name: str, key: str = "1.1") -> str:
    answers: list[tuple[str, ...]] = []

    def done() -> bool:
        answers.append(hand(bench, "work", name, b"", key))
        return answers[-1][0] == "worked"

    wait_until(done, f"the end of {name}")
    return answers[-1][1]


# --- who asks ---------------------------------------------------------------------------------------------------------


def test_an_ask_is_answered_by_a_code_and_a_word(bench: Workbench) -> None:
    bench.start("1.1", PREPARED + "agent -x -l bob 10.0.0.2 ' orted' --daemonize '\"env\"'; echo $?")
    name, text = ask_of(bench)
    assert text == b'@1\n orted --daemonize "env"\n'
    assert hand(bench, "answer", name, b"127\nnode002: it is not there\n") == ("taken",)
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"127\n"
    assert bench.output("1.1", "stderr") == b"node002: it is not there\n"
    # given again, nobody takes it
    assert hand(bench, "answer", name, b"0\n") == ("ended",)
    assert (bench.place("1.1").parent / "events").read_text().count(f"1.1 ask {name}\n") == 1


def test_what_the_job_has_set_goes_along_and_nothing_of_the_nodes_own(bench: Workbench) -> None:
    set_since = "export NEW='a b' LINES=\"it's\n  two\"; export MGPU_RANK=7 OMPI_x=7 SLURM_x=7 CUDA_VISIBLE_DEVICES=7"
    command = 'printf "%s|" "$NEW" "$LINES" "$OLD"'
    bench.start("1.1", f"export OLD=1\n{PREPARED}{set_since}\nagent other {quote(command)}")
    name, text = ask_of(bench)
    host, _, shell = text.partition(b"\n")
    assert host == b"other"
    argv = [bench.bin / "sh", "-c", shell]
    ran = subprocess.run(argv, capture_output=True, check=True, env={"PATH": os.environ["PATH"]})
    assert ran.stdout == b"a b|it's\n  two||"
    assert b"7" not in shell
    assert (bench.place("1.1") / f"spawn/ask.{name}").stat().st_mode & 0o77 == 0
    hand(bench, "answer", name, b"0\n")
    assert bench.exit_of("1.1") == "0"


def test_the_node_itself_is_no_other_node(bench: Workbench) -> None:
    own = Path("/proc/sys/kernel/hostname").read_text().strip()
    here, known_late = f"agent {own} 'echo here; exit 3'", "agent 10.0.0.1 'echo too; umask; exit 4'"
    bench.start("1.1", f"{PREPARED}{here}; echo $?; {known_late}; echo $?; umask")
    name, _ = ask_of(bench)
    hand(bench, "answer", name, b"here\n")
    assert bench.exit_of("1.1") == "0"
    first, code, second, mask, other, own_mask = bench.output("1.1").decode().split()
    assert (first, code, second, other) == ("here", "3", "too", "4")
    assert mask == own_mask


def test_a_command_for_the_c_shell_is_read_by_it(bench: Workbench) -> None:
    """mpirun writes it for the account's own shell."""
    tcsh = shutil.which("tcsh") or pytest.skip("no tcsh here")
    own = Path("/proc/sys/kernel/hostname").read_text().strip()
    command = 'setenv A "it\'s so"; echo $A; exit 3'
    bench.start("1.1", f"{PREPARED}export SHELL={tcsh}\nagent {own} {quote(command)}")
    assert bench.exit_of("1.1") == "3"
    assert bench.output("1.1") == b"it's so\n"


def test_who_asks_ends_with_its_job(bench: Workbench) -> None:
    bench.start("1.1", PREPARED + "agent other sleep")
    ask_of(bench)
    assert bench.stop("1.1") == ("ok", "stopping")
    bench.exit_of("1.1")
    left = [file.name for file in (bench.place("1.1") / "spawn").iterdir()]
    assert sorted(left) == ["agent", "hosts", "world"]


def test_what_a_job_lays_there_itself_is_no_ask(bench: Workbench) -> None:
    script = (
        'mkdir "${0%/*}/spawn"; cd "${0%/*}/spawn"; mkdir ask.1.1; ln -s / ask.2.2; echo >"ask.3 3"; echo >ask.$(id)'
    )
    bench.start("1.1", script + "; i=0; while [ $((i += 1)) -le 300 ]; do echo >ask.9.$i; done; sleep 100")
    wait_until(lambda: len(bench.look("1.1").asks) == 200)
    assert all(name.startswith("9.") for name in bench.look("1.1").asks)


# --- who waits --------------------------------------------------------------------------------------------------------


def test_work_is_done_once_and_its_code_told(bench: Workbench) -> None:
    waits(bench)
    assert hand(bench, "work", "10.1", b"") == ("absent",)
    for _ in range(3):
        assert hand(bench, "work", "10.1", b"echo ran >>ran; pwd; exit 3\n")[0] in ("taken", "worked")
    assert worked(bench, "10.1") == "3"
    place = bench.place("1.1")
    assert bench.output("1.1").decode() == f"{place}/spawn\n"
    assert (place / "spawn/ran").read_text() == "ran\n"
    events = (place.parent / "events").read_text()
    assert events.count("1.1 worked 10.1\n") == 1
    assert not (place / "spawn/work.10.1").exists()
    bench.stop("1.1", reason="GANG")
    assert bench.exit_of("1.1") == "0"
    assert not str(bench.record("1.1", "clean")).endswith(":own")
    assert hand(bench, "work", "10.2", b"echo never") == ("ended",)


def test_work_that_a_signal_ended_is_told_with_the_parts_own_end(bench: Workbench) -> None:
    """Unless more came after it, or it was our own that did."""
    for number, (codes, told) in enumerate(
        {(137,): "255", (3,): "0", (143,): "0", (137, 0): "0", (0, 139): "255"}.items()
    ):
        key = f"{number + 1}.1"
        waits(bench, key)
        for step, code in enumerate(codes):
            hand(bench, "work", f"10.{step}", f"exit {code}".encode(), key)
            assert worked(bench, f"10.{step}", key) == str(code)
        bench.stop(key, reason="GANG")
        assert bench.exit_of(key) == told
        said = f"mgpu: what mpirun ran here was ended by a signal: status {codes[-1]}\n" if told == "255" else ""
        assert bench.output(key, "stderr").decode() == said


def test_several_at_a_time_and_daemons_that_live_on(bench: Workbench, mark: str) -> None:
    waits(bench)
    hand(bench, "work", "10.1", f"sleep {mark}".encode())
    hand(bench, "work", "10.2", f"/usr/bin/setsid -f sleep {mark}".encode())
    assert worked(bench, "10.2") == "0"
    assert hand(bench, "work", "10.1", b"") == ("taken",)
    wait_until(lambda: len(living(mark)) == 2)
    bench.stop("1.1", reason="GANG")
    assert bench.exit_of("1.1") == "0"
    assert living(mark) == []


def test_work_that_came_before_the_part_began(bench: Workbench) -> None:
    bench.start("1.1", WAIT, gang=True)
    bench.wait("1.1", "ready")
    assert hand(bench, "work", "10.1", b"exit 5") == ("taken",)
    bench.runner.go("1.1", "run")
    assert worked(bench, "10.1") == "5"


def test_signals_reach_the_work_and_not_who_waits(bench: Workbench, mark: str) -> None:
    waits(bench)
    hand(bench, "work", "10.1", f"trap 'exit 9' USR1 INT; sleep {mark} & wait".encode())
    wait_until(lambda: bool(living(mark)))
    for number in (signal.SIGUSR1, signal.SIGINT):
        bench.runner.signal("1.1", bench.tokens["1.1"], str(int(number)))
        if number is signal.SIGUSR1:
            assert worked(bench, "10.1") != "0"
    hand(bench, "work", "10.2", b"exit 4")
    assert worked(bench, "10.2") == "4"


def test_ended_by_somebody_else_it_has_not_ended_well(bench: Workbench) -> None:
    waits(bench)
    leader, runner = (int(bench.record("1.1", name).split(":")[0]) for name in ("pid", "started"))  # type: ignore[union-attr]
    children = Path(f"/proc/{runner}/task/{runner}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert leader
    assert bench.exit_of("1.1") == "143"


def test_another_attempt_hands_nothing(bench: Workbench) -> None:
    waits(bench)
    assert bench.runner.hand("1.1", "other", "work", "10.1", b"echo never") == ("ended",)
    long = b"# " + b"x" * 20_000 + b"\nexit 6\n"
    assert hand(bench, "work", "10.2", long) == ("taken",)
    assert worked(bench, "10.2") == "6"
    assert bench.runner.hand("1.1", "other", "work", "10.3", long) == ("ended",)
    assert bench.look("1.1").alive


def test_what_cannot_be_written_is_refused(bench: Workbench) -> None:
    waits(bench)
    wait_until((bench.place("1.1") / "spawn").is_dir)
    (bench.place("1.1") / "spawn").rename(bench.place("1.1") / "elsewhere")
    (bench.place("1.1") / "spawn").touch()
    with pytest.raises(RemoteError, match=r"takes no work for 1\.1: .*cannot write"):
        hand(bench, "work", "10.1", b"echo never")
    assert bench.look("1.1").alive


def test_work_of_whose_end_nobody_can_tell_was_killed(bench: Workbench, mark: str) -> None:
    """mpirun would wait for ever."""
    waits(bench)
    hand(bench, "work", "10.1", f"sleep {mark}".encode())
    wait_until(lambda: bool(living(mark)))
    assert hand(bench, "work", "10.1", b"") == ("taken",)
    os.kill(int((bench.place("1.1") / "spawn/by.10.1").readlink().name.split(":")[0]), signal.SIGKILL)
    assert worked(bench, "10.1") == "137"
    bench.stop("1.1", reason="GANG")
    bench.exit_of("1.1")
    assert living(mark) == []


def test_a_pipe_that_is_full_keeps_nobody_waiting(bench: Workbench) -> None:
    """A job has it in its own directory, and may put into it what it likes."""
    fill = "exec 7<>wake; head -c 65536 /dev/zero >&7; exec 8<>spawn/wake.9.1; head -c 65536 /dev/zero >&8"
    made = "mkdir spawn; rm -f wake; mkfifo wake spawn/wake.9.1; echo >spawn/ask.9.1; echo >spawn/ask.9.2"
    bench.start("1.1", f'cd "${{0%/*}}"; {made}; {fill}; touch full; sleep 1000')
    wait_until((bench.place("1.1") / "full").exists)
    assert hand(bench, "answer", "9.1", b"0\n") == ("taken",)
    assert hand(bench, "answer", "9.2", b"0\n") == ("ended",)
    assert hand(bench, "work", "9.1", b"true") == ("taken",)
    assert bench.stop("1.1") == ("ok", "stopping")
    bench.exit_of("1.1")
    assert not (bench.place("1.1") / "spawn/ask.9.2").exists()


# --- where it is done -------------------------------------------------------------------------------------------------


def test_the_path_of_a_shipped_tree_leads_to_the_parts_own(bench: Workbench) -> None:
    bench.start("1.1", 'mkdir "${0%/*}/work"\n' + PREPARED + "agent other 'cd there; cat tree'")
    name, text = ask_of(bench)
    waits(bench, "2.1")
    there = bench.folder / "run/db/it's 9/1.1"
    command = (
        text.partition(b"\n")[2].replace(b"/node001/1.1", b"/it'\\''s 9/1.1").replace(b"/node001'", b"/it'\\''s 9'")
    )
    command = command.replace(b"cd there", f'cd "{there}/work"'.encode())
    (bench.place("2.1") / "work").mkdir()
    (bench.place("2.1") / "work/tree").write_text("its own\n")
    hand(bench, "work", name, command, "2.1")
    assert worked(bench, name, "2.1") == "0"
    assert bench.output("2.1") == b"its own\n"
    assert bench.output("2.1", "stderr") == b""
    assert there.readlink() == bench.place("2.1")
    bench.stop("2.1", reason="GANG")
    bench.exit_of("2.1")
    bench.runner.clean(["2.1"])
    assert not there.parent.exists()
    hand(bench, "answer", name, b"0\n")
    bench.exit_of("1.1")
    bench.runner.clean(["1.1"])
    assert [file.name for file in bench.place("1.1").iterdir()].count("spawn") == 0
