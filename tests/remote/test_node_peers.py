"""The way between nodes as a node looks at it: it listens, it calls, with whatever programs it has."""

from __future__ import annotations

import secrets
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from mgpu.core.meeting import OWN, Door, parse_own
from mgpu.endpoint import LOOPBACK
from mgpu.remote.errors import RemoteError
from mgpu.remote.peers import NO_TOOL, Target
from mgpu.remote.wire import encode
from tests.remote.conftest import PATIENCE_S, Workbench, living, wait_until

LISTENERS = ("perl", "python3", "socat", "nc")
CALLERS = ("perl", "python3", "bash", "socat", "nc")
BROKEN = "#!/bin/sh\nexit 127\n"


def only(bench: Workbench, tool: str, order: tuple[str, ...]) -> None:
    """On this node none that comes before `tool` in `order` is of use."""
    found = shutil.which(tool)
    if found is None and tool == "nc" and (busybox := shutil.which("busybox")):
        (bench.bin / "nc").symlink_to(busybox)
    elif found is None:
        pytest.skip(f"no {tool} here")
    for name in order[: order.index(tool)]:
        if name in ("perl", "python3"):
            hide(bench, name)
        elif shutil.which(name):
            pytest.skip(f"{name} cannot be hidden")


def hide(bench: Workbench, name: str) -> None:
    (bench.bin / name).write_text(BROKEN)
    (bench.bin / name).chmod(0o755)


def free_port() -> int:
    """As far as can be known."""
    with socket.socket() as found:
        found.bind(("", 0))
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def nonce() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize("tool", LISTENERS)
def test_who_calls_where_it_listens_is_told_the_nonce(bench: Workbench, nonce: str, tool: str) -> None:
    only(bench, tool, LISTENERS)
    peers, port = bench.runner.peers, free_port()
    with peers.listening(nonce, [port], 30) as door:
        assert isinstance(door, Door)
        assert (door.tool, door.port) == (tool, port)
        assert (door.other is None) == (tool in ("socat", "nc"))
        heard = peers.reach([Target(LOOPBACK, each, nonce) for each in door.ports], 5)
        assert heard == {(LOOPBACK, each): "ok" for each in door.ports}
        assert living(nonce)
    wait_until(lambda: not living(nonce), "the end of it")
    assert peers.reach([Target(LOOPBACK, port, nonce)], 5) == {(LOOPBACK, port): "Connection refused"}


@pytest.mark.parametrize("tool", CALLERS)
def test_what_comes_of_a_call(bench: Workbench, nonce: str, tool: str) -> None:
    with bench.runner.peers.listening(nonce, [free_port()], 30) as door:
        assert isinstance(door, Door)
        with (
            closing(socket.create_server((LOOPBACK, 0))) as other,
            closing(socket.create_server((LOOPBACK, 0))) as mute,
        ):
            threading.Thread(target=greet, args=(other,), daemon=True).start()
            stranger, silent = other.getsockname()[1], mute.getsockname()[1]
            only(bench, tool, CALLERS)
            session = bench.login()
            nobody = free_port()
            targets = [Target(LOOPBACK, port, nonce) for port in (door.port, stranger, silent, nobody)]
            with session.shell() as shell:
                words = [str(word) for target in targets for word in target]
                reply = shell.request("reach", "2", *words)
    assert reply.words == (tool,)
    assert set(reply.text.strip().splitlines()) == {
        f"{LOOPBACK} {door.port} ok",
        f"{LOOPBACK} {stranger} somebody else answers",
        f"{LOOPBACK} {silent} Connection timed out",
        f"{LOOPBACK} {nobody} Connection refused",
    }


def greet(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            guest, _ = server.accept()
            guest.sendall(b"220 welcome\n")
            guest.close()


def test_the_next_port_is_taken_where_somebody_has_the_first(bench: Workbench, nonce: str) -> None:
    with closing(socket.create_server(("", 0))) as taken:
        number, free = taken.getsockname()[1], free_port()
        with bench.runner.peers.listening(nonce, [number, free], 30) as door:
            assert isinstance(door, Door)
            assert door.port == free
        with bench.runner.peers.listening(nonce, [number], 30) as door:
            assert door == "all ports that were tried are in use there"
        with bench.runner.peers.listening(nonce, [free], 30) as door:  # that shell serves on
            assert isinstance(door, Door)


def test_the_link_is_cut_and_nothing_is_left(bench: Workbench, nonce: str) -> None:
    folder = bench.folder / "shared"
    folder.mkdir()
    file = folder / f".mgpu.{nonce}"
    with bench.session.shell() as listener, bench.session.shell() as marker:
        assert listener.begin("listen", nonce, "600", str(free_port())).hear(PATIENCE_S)[0] == "listening"
        assert marker.begin("marks", nonce, encode(str(folder))).hear(PATIENCE_S) == ["marked", "1"]
        assert living(nonce)
        assert file.exists()
        listener.close()
        marker.close()
        wait_until(lambda: not living(nonce), "the end of the listener")
        wait_until(lambda: not file.exists(), "the end of the mark")


def test_it_ceases_by_itself(bench: Workbench, nonce: str) -> None:
    with bench.runner.peers.listening(nonce, [free_port()], 1) as door:
        assert isinstance(door, Door)
        wait_until(lambda: not living(nonce), "the end of its time")


def test_a_node_without_any_of_these_programs_says_so(bench: Workbench, nonce: str) -> None:
    if shutil.which("nc") or shutil.which("socat") or bench.shell == "busybox":
        pytest.skip("nc or socat cannot be hidden")
    hide(bench, "perl")
    hide(bench, "python3")
    with bench.runner.peers.listening(nonce, [free_port()], 30) as door:
        assert door == NO_TOOL


def test_a_listener_that_listens_nowhere_is_none(bench: Workbench, nonce: str) -> None:
    if shutil.which("socat") or bench.shell == "busybox":
        pytest.skip("socat, or busybox's own nc, cannot be hidden")
    for name in ("perl", "python3", "nc"):
        hide(bench, name)
    with bench.runner.peers.listening(nonce, [free_port(), free_port()], 30) as door:
        assert door == NO_TOOL


def test_a_text_is_run_with_bounds_and_is_in_no_command_line(bench: Workbench, nonce: str, mark: str) -> None:
    peers = bench.runner.peers
    text = f"secret={nonce}; echo $secret; tr '\\0' ' ' </proc/$$/cmdline; env | grep -c ^MGPU_TEXT; exit 3"
    status, said = peers.run(text, 5)
    assert (status, said.splitlines()[0], said.count(nonce)) == (3, nonce, 1)
    assert said.endswith("0")
    long = "true " + "x" * 20_000 + "\necho done"
    assert peers.run(long, 5) == (0, "done")
    assert peers.run(f"sleep {mark} & sleep {mark}", 1) == (124, "")
    wait_until(lambda: not living(mark), "the end of what it began")
    assert peers.run("echo $BASH_VERSION", 5, "bash")[1] != "" or shutil.which("bash") is None


def test_a_mark_is_there_as_long_as_it_is_wanted(bench: Workbench, nonce: str) -> None:
    folder = bench.folder / "with a blank"
    folder.mkdir()
    nowhere = bench.folder / "nowhere"
    files = [place / f".mgpu.{nonce}" for place in (bench.home, folder)]
    with bench.runner.peers.marked(nonce, ["~", str(nowhere), str(folder)]) as made:
        assert made == (True, False, True)
        assert all(file.exists() for file in files)
    wait_until(lambda: not any(file.exists() for file in files), "their end")
    assert not nowhere.exists()


def test_a_node_tells_its_own_addresses(bench: Workbench) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.77", 9))
        except OSError:
            pytest.skip("this machine has no network")
        ours = way.getsockname()[0]
    assert ours in parse_own(bench.runner.peers.run(OWN, 5)[1])


@pytest.fixture(autouse=True)
def nobody_left(nonce: str) -> Iterator[None]:
    yield
    with suppress(RemoteError):
        wait_until(lambda: not living(nonce), "the end of all")
