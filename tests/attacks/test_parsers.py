"""Whatever a node, a master or a file says: what reads it answers, or raises what it is documented to, no more."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mgpu.client import http
from mgpu.client.websocket import StreamClosed, WebSocket
from mgpu.config.load import load
from mgpu.core import hostlist, reconcile
from mgpu.core.errors import ConfigError, RequestError
from mgpu.core.residue import parse_residue
from mgpu.core.smi.facts import parse_obstructed
from mgpu.core.smi.gpus import FIELDS, OLD_FIELDS, parse_gpus
from mgpu.core.smi.mig import parse_instances
from mgpu.core.smi.processes import parse_processes
from mgpu.core.smi.topology import parse_topology
from mgpu.numeral import numeral
from mgpu.remote import wire
from mgpu.remote.errors import RemoteError
from mgpu.remote.feed import Feed
from mgpu.remote.shell import NodeShell

bounded = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))

DIGITS = st.sampled_from(["²", "٣", "9" * 5000, "-1", "1e999", "nan", "0", "7", "18446744073709551616"])
# words of our own forms among all that there may be, so that what is read goes further than its first word
OURS = """
1.1 17.2 started ready ended ended= requeue leftover ask worked fed over end ok failed begin section hello = , . : stop
CANCEL GPU-12345678-1234-1234-1234-123456789012 00000000:0A:00.0 MiB N/A [Unknown] None Processes Type NV12 NODE Device
"""
PIECES = st.one_of(DIGITS, st.text(max_size=6), st.sampled_from(OURS.split()))
LINES = st.lists(st.lists(PIECES, max_size=8), max_size=12).flatmap(
    lambda lines: st.sampled_from([" ", ", ", "\t", "  : "]).map(lambda gap: "\n".join(map(gap.join, lines)))
)


@bounded
@given(LINES)
def test_lines_of_the_events_file(text: str) -> None:
    for line in text.split("\n"):
        reconcile.event_news(line, lambda _uptime: 1.0)
        reconcile.left_behind(line)
        reconcile.ask_told(line)
        reconcile.uptime_of(line)


@bounded
@given(LINES, LINES, st.sampled_from([OLD_FIELDS, FIELDS]))
def test_nvidia_smi(text: str, table: str, fields: tuple[str, ...]) -> None:
    gpus = parse_gpus(fields, text, [])
    parse_instances(gpus, text, table)
    parse_processes(text)
    parse_topology(text)
    parse_obstructed(text)


@bounded
@given(LINES, st.text(max_size=30))
def test_what_is_left_on_a_node(text: str, now: str) -> None:
    names = ("base", "sizes", "runs", "events", "trees", "leases")
    for sections in ({}, dict.fromkeys(names, (text, text))):
        with suppress(ValueError, KeyError):  # which its caller takes for an answer that cannot be read
            parse_residue(sections, now)


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "+1", "1_0", " 1", "1.0", "9" * 19, "9" * 10**6])
def test_what_is_no_number(text: str) -> None:
    assert numeral(text) is None


@bounded
@given(st.integers(0, 10**18 - 1))
def test_numbers_come_back(number: int) -> None:
    assert numeral(str(number)) == number


@bounded
@given(st.text(max_size=30), LINES)
def test_hostlists(text: str, more: str) -> None:
    for one in (text, more, f"n[{text}]", f"[{more}]"):
        with suppress(RequestError):
            assert len(hostlist.expand(one)) <= hostlist.MAX_NAMES


@pytest.mark.parametrize(
    "text", ["a[0-999999999999]", "a[1-9][1-99999][1-99999]", "[" * 10**5, "a[1-" + "9" * 10**5 + "]"]
)
def test_a_hostlist_that_is_short_and_means_much(text: str) -> None:
    with pytest.raises(RequestError):
        hostlist.expand(text)


@bounded
@given(st.binary(max_size=300))
def test_a_word_comes_back_from_the_wire(data: bytes) -> None:
    word = wire.encode(data)
    assert word.isascii()
    assert word.isprintable()
    assert " " not in word
    assert _unescaped(word) == data


def _unescaped(word: str) -> bytes:
    """As printf's %b has it."""
    if word == "-":
        return b""
    found, at = bytearray(), 0
    while at < len(word):
        if word[at] != "\\":
            found.append(ord(word[at]))
            at += 1
        elif word[at + 1] == "0":
            found.append(int(word[at + 2 : at + 5], 8))
            at += 5
        else:
            found.append({"n": 10, "t": 9, "\\": 92}[word[at + 1]])
            at += 2
    return bytes(found)


class _Said:
    """A channel, and its connection, on which a node says what it likes. MARK is the shell's own."""

    address, alive = "node", True

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._mark = b""

    def open_channel(self, command: str) -> _Said:
        self._mark = command.encode()
        return self

    def send(self, data: bytes, timeout_s: float) -> None:
        pass

    def receive(self, timeout_s: float | None) -> bytes:
        return self._pieces.pop(0).replace(b"MARK", self._mark) if self._pieces else b""

    def receive_error(self, timeout_s: float | None) -> bytes:
        return b""

    def close(self) -> None:
        pass


SAID = (
    b"\nMARK 1 end ok ", b"\nMARK 1 end", b"\nMARK 2 end ok\n", b"\nMARK 1 section a b\n", b"MARK 1 begin\n",
    b"\n", b"MARK 1 fed\n", b"\nMARK hello end ok boot host\n", b"\nMARK 1 end ok 9999999999999999999999\n", b"\xff",
)  # fmt: skip
FRAMES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        LINES.map(lambda text: text.encode(errors="replace")),
        st.sampled_from(SAID),
    ),
    max_size=20,
)  # fmt: skip


@bounded
@given(FRAMES)
def test_frames_of_a_node(pieces: list[bytes]) -> None:
    def shell(monkey: pytest.MonkeyPatch) -> NodeShell:
        monkey.setattr(wire, "login_command", lambda mark, _sudo="": mark)
        return NodeShell(_Said([b"\nMARK hello end ok boot host\n", *pieces]), 1.0)

    asked: list[Callable[[NodeShell], object]] = [
        lambda one: one.sections(one.request("probe")),
        lambda one: one.request("read").number(0),
        lambda one: list(one.events()),
        lambda one: Feed(one.begin("feed")),
    ]
    for ask in asked:
        with pytest.MonkeyPatch.context() as monkey:
            made = shell(monkey)
            with suppress(RemoteError):
                ask(made)
            assert len(made._buffer) < 1 << 20


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "login_command", lambda mark, _sudo="": mark)
    monkeypatch.setattr(_Said, "receive", lambda *_: b"x" * (1 << 20))
    with pytest.raises(RemoteError, match="has no end"):
        NodeShell(_Said([]), 60.0)


@bounded
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 \xb2 OK\r\n", b"HTTP/1.0 " + b"9" * 5000]),
)
def test_what_stands_before_an_answer(tail: bytes, first: bytes) -> None:
    for data in (first + tail, first + b"Content-Length: " + tail + b"\r\n\r\n", first + tail + b"\r\n\r\n" + tail):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)
            ours.settimeout(5.0)
            with suppress(OSError):
                http.read_response(ours)


@bounded
@given(st.lists(st.binary(max_size=30), max_size=8))
def test_frames_of_a_stream(pieces: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    stream = WebSocket.__new__(WebSocket)
    stream._socket, stream._buffer, stream._outbox = ours, bytearray(), bytearray()
    stream._opcode, stream._message = 0, bytearray()
    with ours, theirs:
        ours.setblocking(False)
        with suppress(OSError):
            theirs.sendall(b"".join(pieces))
        theirs.close()
        with pytest.raises(StreamClosed):
            while True:
                stream.receive()


KEYS = """
cluster master inventory defaults nodes partitions networking scheduling retries health external users privacy notify
retention log node_id hostname ssh gpu_count devices port state_dir
"""
LEAVES = st.sampled_from(["~", "*a", "&a x", "!!python/object:os.system x"])
YAML = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), DIGITS, LEAVES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(KEYS.split())), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(bounded, max_examples=60)
@given(YAML, st.binary(max_size=60))
def test_configurations(tmp_path_factory: pytest.TempPathFactory, value: object, raw: bytes) -> None:
    import yaml

    path = tmp_path_factory.mktemp("c") / "cluster_config.yaml"
    for data in (yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass"), raw):
        _load(path, data)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + "\n".join(f"d{n}: [*c, *c, *c, *c]" for n in range(99)),
        "a: " + "[" * 5000,
        "nodes: [{node_id: 'n[1-999999999]'}]",
        "nodes: [{node_id: '../../etc'}]",
        'nodes: [{node_id: "a\\nb"}]',
        "nodes: [{node_id: n, hostname: '-oProxyCommand=touch /tmp/owned'}]",
        "inventory: /dev/zero",
        "? [a]\n: b",
        "a: !!python/object/apply:os.system [true]",
    ],
)
def test_a_hostile_inventory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster_config.yaml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        load(path)


def _load(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)
    with suppress(ConfigError):
        load(path)
