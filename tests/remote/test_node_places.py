"""The node's half: working directories, output files, reading and following, events."""

from __future__ import annotations

import contextlib
import shutil
import stat
import threading
from collections.abc import Iterator

import pytest

from mgpu.core.reconcile import event_news
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ShellRunner
from tests.remote.conftest import Workbench, living, wait_until


def test_working_directories(bench: Workbench) -> None:
    here = bench.folder / "a b'c"
    here.mkdir()
    file = bench.folder / "file"
    file.touch()
    (bench.home / "below").mkdir()
    cases: dict[str, tuple[str, bool, str]] = {
        "1.1": (str(here), True, f"0 {here} -"),
        "2.1": (str(here), False, f"0 {here} -"),
        "3.1": ("", True, f"0 {bench.home} -"),
        "4.1": ("~/below", True, f"0 {bench.home}/below -"),
        "5.1": ("~", True, f"0 {bench.home} -"),
        "6.1": ("/not/here", False, f"0 {bench.home} home"),
        "7.1": (str(file), False, f"0 {bench.home} home"),
    }
    for key, (directory, must, _) in cases.items():
        bench.start(key, "pwd", directory=directory, directory_must_exist=must)
    for key, (directory, _, wanted) in cases.items():
        code = bench.exit_of(key)
        ran = bench.output(key).decode().strip()
        notice = bench.wait(key, "started").split(":")[2]
        assert f"{code} {ran} {notice}" == wanted, directory


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/not/here", "fail:directory:working directory /not/here does not exist"),
        ("/etc/passwd", "fail:directory:working directory /etc/passwd is not a directory"),
        ("/" + "long/" * 900, "fail:directory:working directory /long/"),
    ],
)
def test_working_directories_that_must_be_there(bench: Workbench, place: str, said: str) -> None:
    assert bench.run("1.1", "echo ran", directory=place, directory_must_exist=True).startswith(said)
    assert bench.record("1.1", "started") is None
    assert bench.output("1.1") == b""


def test_a_home_that_is_not_there_is_the_nodes_trouble(bench: Workbench) -> None:
    bench.home.rmdir()
    assert bench.run("1.1", "echo") == f"fail:node:the home directory {bench.home} cannot be entered"


def test_files_of_the_jobs_own(bench: Workbench) -> None:
    both = "echo out; echo err >&2"
    bench.start("1.1", both, output="o %s.txt", error="e.txt")
    bench.start("2.1", both, output=str(bench.folder / "both"))
    bench.start("3.1", both, output="same", error="same")
    bench.start("4.1", both, error="only-err")
    bench.start("5.1", both, output="/not/here/out")
    assert [bench.exit_of(f"{number}.1") for number in (1, 2, 3, 4)] == ["0"] * 4
    home = bench.home
    assert ((home / "o %s.txt").read_text(), (home / "e.txt").read_text()) == ("out\n", "err\n")
    assert (bench.folder / "both").read_text() == (home / "same").read_text() == "out\nerr\n"
    assert (bench.output("4.1"), (home / "only-err").read_text()) == (b"out\n", "err\n")
    assert stat.S_IMODE((home / "e.txt").stat().st_mode) == 0o644
    # they are read through the run directory all the same
    assert (bench.output("1.1"), bench.output("1.1", "stderr")) == (b"out\n", b"err\n")
    assert (bench.output("2.1"), bench.output("2.1", "stderr")) == (b"out\nerr\n", b"")
    assert bench.look("1.1").sizes == (4, 4)
    assert bench.exit_of("5.1") == "fail:directory:cannot write /not/here/out"


# --- reading --------------------------------------------------------------------------------------------------------


def test_reading_from_offsets(bench: Workbench) -> None:
    bench.run("1.1", "printf 0123456789")
    for offset, wanted in ((0, b"0123456789"), (4, b"456789"), (9, b"9"), (10, b""), (99, b"")):
        assert bench.runner.read("1.1", "stdout", offset) == (wanted, 10)
    with pytest.raises(RemoteError, match="gone") as caught:
        bench.runner.read("9.9", "stdout", 0)
    assert caught.value.trouble is Trouble.GONE


def test_following_and_the_same_shell_again(bench: Workbench) -> None:
    """Bytes that look like the start of an end mark are not held back for ever, and none is lost or doubled."""
    gate = bench.folder / "go"
    waits = f"while [ ! -e {gate} ]; do sleep 0.02; done"
    bench.start("1.1", f"printf 'old\\n\\n'; {waits}; printf 'new\\n'; printf err >&2")
    wait_until(lambda: bench.look("1.1").sizes == (5, 0))
    out, err = bytearray(), bytearray()
    with bench.session.shell() as shell:
        follow = shell.follow("1.1", (2, 0), (out.extend, err.extend))
        wait_until(lambda: bytes(out) in (b"d\n", b"d\n\n"))
        assert not follow.ended
        gate.touch()
        wait_until(lambda: bytes(out) == b"d\n\nnew\n"[: len(out)] and len(out) >= 6 and bytes(err) == b"err")
        follow.stop()
        assert bytes(out) == b"d\n\nnew\n"
        assert not shell.broken
        assert shell.request("state").status == "ok"
    bench.exit_of("1.1")


def test_a_tail_ends_with_its_shell(bench: Workbench) -> None:
    place = f"{bench.place('1.1')}/stdout"
    bench.run("1.1", "echo hello")
    shell = bench.session._borrow()
    shell.follow("1.1", (0, 0), (lambda data: None, lambda data: None))
    wait_until(lambda: bool(living(place)), "the tail")
    shell.close()
    wait_until(lambda: not living(place), "the end of the tail")


def test_events_tell_what_a_look_would(bench: Workbench) -> None:
    runner = ShellRunner(bench.login())
    lines: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        try:
            for line in runner.events():
                lines.append(line)
                ready.set()
        except RemoteError:
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    assert ready.wait(20)
    bench.run("1.1", "printf hello; printf no >&2; exit 4")
    bench.start("2.1", "sleep 1000", gang=True)
    bench.wait("2.1", "ready")
    bench.stop("2.1")
    bench.exit_of("2.1")
    wait_until(lambda: sum(" ended " in line for line in lines) == 2, "the events")
    # somebody tidies up at home: what comes afterwards is told as well
    shutil.rmtree(bench.place("1.1").parent)
    bench.run("3.1", "exit 3")
    wait_until(lambda: any(line.startswith("3.1 ended ") for line in lines), "the event of a file made anew")
    runner.close()
    listener.join(20)
    assert not listener.is_alive()
    news = [item for line in lines if line for item in event_news(line, float)]
    told = {(item.key.job_id, item.event.value): item for item in news}
    assert {key for key in told if key[0] < 3} == {
        *((1, "started"), (1, "exited"), (2, "ready"), (2, "stop_wanted"), (2, "launch_failed")),
    }
    assert (told[1, "exited"].exit_code, told[1, "exited"].sizes) == (4, (5, 2))
    assert told[2, "stop_wanted"].stop == "CANCEL"
    assert told[1, "started"].pid and told[1, "started"].boot_id and told[2, "ready"].pid


def test_the_file_of_events_is_cut_while_somebody_hears_them(bench: Workbench) -> None:
    """A link may hold for months, and each job adds some lines."""
    runner = ShellRunner(bench.login())
    lines: list[str] = []
    listener = threading.Thread(target=lambda: lines.extend(heard(runner)))
    listener.start()
    wait_until(lambda: "" in lines)
    file = bench.place("events")
    with file.open("a") as events:
        events.write("no event of ours\n" * 100_000)
    bench.runner.clean([])
    wait_until(lambda: file.stat().st_size < 1_000_000)
    bench.run("1.1", "true")
    wait_until(lambda: any(line.startswith("1.1 ended") for line in lines), "the event")
    runner.close()
    listener.join(15)
    assert not listener.is_alive()


def heard(runner: ShellRunner) -> Iterator[str]:
    with contextlib.suppress(RemoteError):
        yield from runner.events()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_shell_is_not_used_again_where_what_it_said_was_not_taken(quick_bench: Workbench) -> None:
    quick_bench.run("1.1", "echo one; echo two >&2")

    def fail(_data: bytes) -> None:
        raise ZeroDivisionError

    with quick_bench.session.shell() as shell:
        follow = shell.follow("1.1", (0, 0), (fail, lambda _data: None))
        wait_until(lambda: follow.ended)
        follow.stop()
        assert shell.broken
