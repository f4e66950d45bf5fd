"""What the master can ask of a node: the few methods that everything else stands on (a simulator has the same).

Each takes and gives values; each may raise RemoteError, and then whether it was carried out is not known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from mgpu import clock
from mgpu.core.launch import Launch
from mgpu.core.model import DeviceUuid, FailureClass
from mgpu.core.observation import RawProbe
from mgpu.core.reconcile import NodeAnswer, uptime_of
from mgpu.core.residue import Residue, parse_residue
from mgpu.core.smi.gpus import FIELDS
from mgpu.meters import Contact
from mgpu.remote.answers import parse_probe, parse_state, words_of
from mgpu.remote.channel import CHUNK
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.feed import Feed
from mgpu.remote.peers import Peers, ShellPeers
from mgpu.remote.session import NodeSession
from mgpu.remote.shell import Follow, NodeShell, Offsets
from mgpu.remote.wire import encode, encode_text

READ_LIMIT = 4 * 1024 * 1024
KILL_GRACE_S = 10  # as watch/timer.sh has it, for a time limit
OWN_PROGRAMS = "${0%/*}/bin"  # where a job's script finds what is made for it; not made where it does not look there


@dataclass(frozen=True, slots=True)
class Refusal:
    """The node answered that it cannot start the part; nothing of it runs. `text` is the node's reason."""

    text: str
    failure: FailureClass = FailureClass.NODE


Source = Callable[[], tuple[BinaryIO, int]]  # a file to read from, and its size


@dataclass(frozen=True, slots=True)
class ProbeWanted:
    """What to ask a node. `nvidia_smi` "" = where it is found; `slow`: also what seldom changes and takes longer;
    `check`: the site's own command, "" = none."""

    nvidia_smi: str = ""
    timeout_s: float = 45.0
    slow: bool = False
    check: str = ""
    check_timeout_s: float = 10.0


class Runner(Protocol):
    """One node under one account."""

    @property
    def address(self) -> str: ...
    @property
    def contact(self) -> Contact: ...
    @property
    def peers(self) -> Peers: ...
    def enter(self) -> None: ...
    def start(self, key: str, token: str, uuids: Sequence[DeviceUuid], launch: Launch) -> Refusal | None: ...
    def look(self, keys: Sequence[str]) -> NodeAnswer: ...
    def stop(self, key: str, token: str, reason: str) -> str: ...
    def go(self, key: str, word: str) -> str: ...
    def limit(self, key: str, token: str, seconds: int | None) -> None: ...
    def signal(self, key: str, token: str, word: str) -> str: ...
    def hand(self, key: str, token: str, what: str, ask: str, text: bytes) -> tuple[str, ...]: ...
    def clean(self, keys: Sequence[str]) -> None: ...
    def read(self, key: str, stream: str, offset: int) -> tuple[bytes, int]: ...
    def following(
        self, key: str, offsets: Offsets, sinks: tuple[Callable[[bytes], None], Callable[[bytes], None]]
    ) -> contextlib.AbstractContextManager[Follow]: ...
    def feeding(self, key: str) -> contextlib.AbstractContextManager[Feed]: ...
    def events(self) -> Iterator[str]: ...
    def probe(self, wanted: ProbeWanted) -> RawProbe: ...
    def send_tree(self, digest: str, source: Source) -> Refusal | None: ...
    def residue(self) -> Residue: ...
    def remove(self, age_s: int, places: Sequence[str]) -> dict[str, str]: ...
    def remove_leases(self, names: Sequence[str]) -> dict[str, str]: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


class ShellRunner:
    """The runner over the serve loop of node/."""

    def __init__(self, session: NodeSession) -> None:
        self._session = session
        self.peers: Peers = ShellPeers(session)
        self._events: NodeShell | None = None
        self._fields = FIELDS  # without those that this node's driver has turned down

    @property
    def address(self) -> str:
        return self._session.address

    @property
    def contact(self) -> Contact:
        return self._session.contact

    def enter(self) -> None:
        """Whether the account can be entered now, whatever is open already."""
        self._session.enter()

    def start(self, key: str, token: str, uuids: Sequence[DeviceUuid], launch: Launch) -> Refusal | None:
        """None = it will start, or has started already; by this token once only. Returns before the command runs."""
        script, script_text = encode_text(launch.script)
        job_file, job_text = encode_text(launch.job_file)
        reply = self._session.quick(
            "start",
            key,
            token,
            ",".join(sorted(uuid.replace("/", "_") for uuid in uuids)) or "-",
            "1" if launch.gang else "0",
            launch.shell,
            _mode(launch),
            encode(launch.directory),
            encode(launch.output),
            encode(launch.error),
            "-" if launch.time_limit_s is None else str(launch.time_limit_s),
            script,
            job_file,
            "1" if launch.append else "0",
            launch.signal or "-",
            str(2 - launch.requeue) if OWN_PROGRAMS in launch.script else "0",
            launch.input or "-",
            str(launch.port or "-"),
            texts=script_text + job_text,
        )
        if reply.status == "failed":
            return Refusal(words_of(reply, 1))
        return None

    def look(self, keys: Sequence[str]) -> NodeAnswer:
        reply = self._session.quick("state", *keys)
        if reply.status != "ok":
            raise RemoteError(f"the node does not tell the state of its jobs: {words_of(reply)}")
        uptime_s = uptime_of(reply.word(0))
        if uptime_s is None:
            raise RemoteError(f"the node's uptime cannot be read: {reply.word(0)[:80]}")
        return NodeAnswer(parse_state(reply.text), uptime_s, reply.word(1), clock.now())

    def stop(self, key: str, token: str, reason: str) -> str:
        """ "fenced" (it never ran and never will), "stopping" (the end shows in the records) or "ended" (it does)."""
        reply = self._session.quick("stop", key, token, reason, str(KILL_GRACE_S))
        if reply.status != "ok":
            raise RemoteError(f"the node cannot stop {key}: {words_of(reply, 1)}")
        return reply.word(0)

    def go(self, key: str, word: str) -> str:
        """What was decided: `word`, or what somebody decided before."""
        return self._session.control("go", key, word).word(0)

    def limit(self, key: str, token: str, seconds: int | None) -> None:
        """Move the end of what runs there; what has ended, or is not this attempt, is left as it is."""
        reply = self._session.control("limit", key, token, "-" if seconds is None else str(seconds))
        if reply.status != "ok":
            raise RemoteError(f"the node cannot move the time limit of {key}: {words_of(reply, 1)}", Trouble.REFUSED)

    def signal(self, key: str, token: str, word: str) -> str:
        """`word`: a signal's number, behind B: to the first process alone, behind S: not to a shell that the job began
        with. "sent", "early" (its command has not begun) or "ended"."""
        reply = self._session.control("signal", key, token, word)
        if reply.status != "ok":
            raise RemoteError(f"the node sends no signal to {key}: {words_of(reply)}")
        return reply.word(0)

    def hand(self, key: str, token: str, what: str, ask: str, text: bytes) -> tuple[str, ...]:
        """`what` "work" for the part that waits there, or the "answer" to what it has asked for. How that stands:
        "taken", "worked" and the exit code, "ended" (nobody takes it any more), "absent" (there is none of it, and no
        text was given)."""
        word, texts = encode_text(text)
        reply = self._session.control("hand", key, token, what, ask, word, texts=texts)
        if reply.status != "ok":
            raise RemoteError(f"the node takes no {what} for {key}: {words_of(reply, 1)}", Trouble.REFUSED)
        return reply.words

    def clean(self, keys: Sequence[str]) -> None:
        self._session.quick("clean", *keys)

    def read(self, key: str, stream: str, offset: int) -> tuple[bytes, int]:
        """Bytes from `offset` on (at most READ_LIMIT) and the size of the file."""
        with self._session.shell() as shell:
            reply = shell.request("read", key, stream, str(offset), str(READ_LIMIT), timeout_s=self._session.timeout_s)
        if reply.status != "ok":
            raise RemoteError(f"the output file is gone from the node: {words_of(reply, 1)}", Trouble.GONE)
        return reply.body, reply.number(0)

    @contextlib.contextmanager
    def following(
        self, key: str, offsets: Offsets, sinks: tuple[Callable[[bytes], None], Callable[[bytes], None]]
    ) -> Iterator[Follow]:
        with self._session.shell() as shell:
            follow = shell.follow(key, offsets, sinks)
            try:
                yield follow
            finally:
                follow.stop()

    @contextlib.contextmanager
    def feeding(self, key: str) -> Iterator[Feed]:
        with self._session.shell() as shell:
            talk = shell.begin("feed", key)
            try:
                yield Feed(talk)
            finally:
                talk.end()
                shell.broken = True  # it serves nothing more

    def events(self) -> Iterator[str]:
        """First "" when nothing is missed any more, then a line per event. Endless but for RemoteError."""
        with self._session.shell() as shell:
            self._events = shell
            self._session.warm()
            yield from shell.events()

    def probe(self, wanted: ProbeWanted) -> RawProbe:
        if wanted.slow:
            self._fields = FIELDS  # it may be another driver by now
        with self._session.shell() as shell:
            reply = shell.request(
                "probe",
                encode(wanted.nvidia_smi),
                str(int(wanted.timeout_s)),
                ",".join(self._fields),
                "1" if wanted.slow else "0",
                encode(wanted.check),
                str(int(wanted.check_timeout_s)),
                # at most two of its questions can hang, then it asks no more
                timeout_s=2 * wanted.timeout_s + wanted.check_timeout_s + 30,
            )
            raw = parse_probe(shell.sections(reply), reply)
        self._fields = tuple(field for field in FIELDS if field in raw.fields) or FIELDS
        return raw

    def send_tree(self, digest: str, source: Source) -> Refusal | None:
        """See to it that the node has this tree; None = it has. In a shell of its own, for however long it takes."""
        with self._session.shell() as shell:
            reply = shell.request("tree", digest, timeout_s=self._session.timeout_s)
            if reply.status == "ok" and reply.word(0) == "absent":
                file, size = source()
                with file:
                    reply = shell.request_with(
                        _pieces(file, size), "take_tree", digest, f"@{size}", timeout_s=self._session.timeout_s
                    )
        if reply.status == "failed":
            failure = FailureClass.DIRECTORY if reply.word(0) == "directory" else FailureClass.NODE
            return Refusal(words_of(reply, 1), failure)
        return None

    def residue(self) -> Residue:
        with self._session.shell() as shell:
            reply = shell.request("residue", timeout_s=60.0)
            try:
                return parse_residue(shell.sections(reply), " ".join(reply.words))
            except (KeyError, ValueError) as error:
                raise RemoteError("what the node says of what is left there cannot be read") from error

    def remove(self, age_s: int, places: Sequence[str]) -> dict[str, str]:
        """Run directories in which nothing lives and nothing has changed for so long; place -> what came of it."""
        return self._removed("remove", str(age_s), *places)

    def remove_leases(self, names: Sequence[str]) -> dict[str, str]:
        """Those of our own account that nobody holds; name -> what came of it."""
        return self._removed("remove_leases", *map(encode, names))

    def _removed(self, operation: str, *words: str) -> dict[str, str]:
        with self._session.shell() as shell:
            reply = shell.request(operation, *words, timeout_s=60.0)
        lines = (line.rpartition(" ") for line in reply.text.splitlines() if line)
        return {name: word for name, _, word in lines}

    def reset(self) -> None:
        self._session.reset()

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
        self._session.close()


def _mode(launch: Launch) -> str:
    """Of the working directory."""
    if launch.tree:
        return f"tree:{launch.tree}"
    return "must" if launch.directory_must_exist else "try"


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Of so many bytes, and the line that ends them (see serve/start.sh, spill). Raises RemoteError."""
    left = size
    while left:
        try:
            data = file.read(min(left, CHUNK))
        except OSError as error:
            raise RemoteError(f"the shipped tree cannot be read here: {error.strerror}", Trouble.REFUSED) from error
        if not data:
            raise RemoteError("the shipped tree was cut here", Trouble.REFUSED)
        left -= len(data)
        yield data
    yield b".\n"
