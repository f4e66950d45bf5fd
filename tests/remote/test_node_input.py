"""The node's half: what a job reads, through a pipe and through a terminal."""

from __future__ import annotations

import random
import threading

import pytest

from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ShellRunner
from tests.remote.conftest import Workbench, living, wait_until

SIZE = "24x80"


def told(bench: Workbench, text: bytes) -> None:
    wait_until(lambda: text in bench.output("1.1"), repr(text))


def begin(bench: Workbench, script: str, given: str = "pipe") -> None:
    assert bench.start("1.1", script, input=given) is None
    bench.wait("1.1", "started")


def test_what_is_given_is_read_byte_for_byte_up_to_its_end(bench: Workbench) -> None:
    data = random.Random(5).randbytes(300_000) + bytes(range(256)) + b"-\n\\0101 %s\n"
    begin(bench, "cat")
    with bench.runner.feeding("1.1") as feed:
        assert feed.fed == 0
        for piece in (b"-", data[:7000], data[7000:]):
            feed.give(piece)
        feed.end()
        while feed.awaited:
            feed.settle()
        assert feed.fed == 1 + len(data)
        assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"-" + data


def test_without_input_there_is_none(bench: Workbench) -> None:
    assert bench.run("1.1", "cat; ls -l /proc/self/fd") == "0"
    assert b"pipe" not in bench.output("1.1")
    with pytest.raises(RemoteError) as error, bench.runner.feeding("1.1"):
        pass
    assert error.value.trouble is Trouble.GONE


def test_the_next_one_goes_on_where_the_pipe_stands(bench: Workbench) -> None:
    begin(bench, "cat")
    with bench.runner.feeding("1.1") as feed:
        feed.give(b"one ")
    second = ShellRunner(bench.login())
    with second.feeding("1.1") as feed:
        assert feed.fed == 4
        feed.give(b"two")
        feed.end()
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"one two"


def test_one_that_is_cut_off_in_the_middle_leaves_what_it_has(bench: Workbench) -> None:
    begin(bench, "cat")
    cut = bench.login()
    with cut.shell() as shell:
        talk = shell.begin("feed", "1.1")
        talk.hear(10.0)
        talk.say("in 100000 @100000", b"x" * 99_000)
        told(bench, b"x")
        shell.close()
    cut.close()
    with bench.runner.feeding("1.1") as feed:
        assert feed.fed == 99_000
        feed.give(b"y" * 1000)
        feed.end()
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"x" * 99_000 + b"y" * 1000


def test_who_does_not_read_holds_up_the_giver_alone(bench: Workbench) -> None:
    begin(bench, f"until [ -e {bench.folder}/go ]; do sleep 0.05; done; wc -c")
    with bench.runner.feeding("1.1") as feed:
        giver = threading.Thread(target=feed.give, args=(bytes(500_000),))
        giver.start()
        assert bench.look("1.1").alive
        giver.join(0.3)
        assert giver.is_alive()
        (bench.folder / "go").touch()
        giver.join(10.0)
        feed.end()
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1").split() == [b"500000"]


def test_the_end_of_the_job_is_told_to_the_giver(bench: Workbench) -> None:
    begin(bench, "head -n 1")
    with bench.runner.feeding("1.1") as feed:
        feed.give(b"line\n")
        assert bench.exit_of("1.1") == "0"
        with pytest.raises(RemoteError):
            while True:
                feed.give(b"more\n")
    with pytest.raises(RemoteError) as error, bench.runner.feeding("1.1"):
        pass
    assert error.value.trouble is Trouble.GONE
    assert bench.output("1.1") == b"line\n"


def test_what_nobody_read_is_no_request(bench: Workbench) -> None:
    assert bench.run("2.1", "exit 0") == "0"
    begin(bench, "sleep 0.2")
    with bench.login().shell() as shell:
        talk = shell.begin("feed", "1.1")
        talk.hear(10.0)
        data = b"77 clean 2.1\n" * 40_000
        with pytest.raises(RemoteError):  # over, and the shell is gone
            talk.say(f"in {len(data)} @{len(data)}", data)
            while talk.hear(10.0):
                pass
    assert (bench.place("2.1") / "script").exists()


def test_a_job_that_is_given_input_ends_as_any_other(bench: Workbench) -> None:
    begin(bench, "trap 'echo usr1' USR1; kill -USR1 $$; exec cat")
    told(bench, b"usr1")
    assert bench.stop("1.1") == ("ok", "stopping")
    assert bench.exit_of("1.1") == "143"
    leases = bench.devices(1)
    assert bench.run("2.1", "exit 7", leases, input="pipe") == "7"
    assert bench.run("3.1", "exit 0", leases, input="pipe") == "0"


def test_a_terminal(bench: Workbench) -> None:
    begin(bench, 'tty <&2; stty size; read -r line; echo "got $line"; stty size; exit 5', SIZE)
    told(bench, b"24 80")
    with bench.runner.feeding("1.1") as feed:
        feed.resize(50, 132)
        feed.give(b"hello\r")
        assert bench.exit_of("1.1") == "5"
    name, *lines = bench.output("1.1").split(b"\r\n")
    assert name.startswith(b"/dev/pts/")
    assert lines == [b"24 80", b"hello", b"got hello", b"50 132", b""]
    assert bench.output("1.1", "stderr") == b""


def test_control_characters_mean_on_a_terminal_what_they_mean(bench: Workbench, mark: str) -> None:
    begin(bench, f"trap 'echo interrupted' INT; cat; echo over; sleep {mark}", SIZE)
    with bench.runner.feeding("1.1") as feed:
        feed.give(b"a\r")
        told(bench, b"a\r\na\r\n")
        feed.give(b"\x04")
        told(bench, b"over")
        wait_until(lambda: bool(living(mark)), "what is interrupted")  # before, the shell alone would hear of it
        feed.give(b"\x03")
        told(bench, b"interrupted")
    assert bench.exit_of("1.1") in ("0", "130")


def test_a_terminal_ends_when_it_is_told(bench: Workbench) -> None:
    begin(bench, "trap '' TERM HUP; while :; do sleep 1; done", SIZE)
    assert bench.stop("1.1") == ("ok", "stopping")
    bench.exit_of("1.1")
    assert bench.look("1.1").records["stop"] == "CANCEL"


def test_nothing_but_the_records_is_left_of_it(bench: Workbench) -> None:
    for key, given in (("1.1", "pipe"), ("2.1", SIZE)):
        assert bench.start(key, "head -n 1", input=given) is None
        bench.wait(key, "started")
        with bench.runner.feeding(key) as feed:
            feed.give(b"line\n")
            assert bench.exit_of(key) == "0"
        bench.wait(key, "clean")
        bench.runner.clean([key])
        assert {path.name for path in bench.place(key).iterdir()} == {"pid", "exit", "clean"}


def test_the_login_s_own_shell_stays_in_the_environment_of_a_terminal(bench: Workbench) -> None:
    bench.environ["SHELL"] = "/bin/false"
    begin(bench, 'echo "$SHELL $(env | grep -c ^MGPU_) ${0##*/}"', SIZE)
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"/bin/false 1 script\r\n"  # MGPU_TOKEN


def test_one_whose_link_is_dead_gives_way(bench: Workbench) -> None:
    """Its sshd does not know that yet: there, a shell still waits for the rest of a piece."""
    begin(bench, "cat")
    dead = bench.login()
    with dead.shell() as shell:
        talk = shell.begin("feed", "1.1")
        talk.hear(10.0)
        talk.say("in 100000 @100000", b"x" * 99_000)
        told(bench, b"x")
        with bench.runner.feeding("1.1") as feed:
            there = feed.fed  # what was still on its way is nowhere: it is given again
            assert 0 < there <= 99_000
            feed.give(b"x" * (99_000 - there) + b"y" * 1000)
        with ShellRunner(bench.login()).feeding("1.1") as feed:
            feed.give(b"z")
            feed.end()
            while feed.awaited:
                feed.settle()
    dead.close()
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"x" * 99_000 + b"y" * 1000 + b"z"
