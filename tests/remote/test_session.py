"""Requests on a session: how long an answer may take is the configuration's to say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.remote.channel import LocalChannel, LocalConnection
from mgpu.remote.connections import MAX_SHELLS, Connections
from mgpu.remote.errors import RemoteError
from mgpu.remote.session import NodeSession
from mgpu.remote.shell import NodeShell


def test_an_answer_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    slow = tmp_path / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 1\necho done\n")
    slow.chmod(0o755)
    root = ("db", "node001", str(tmp_path))
    for timeout_s in (0.2, 60.0):
        session = NodeSession(lambda: LocalConnection(os.environ), root, 30.0, timeout_s)
        try:
            assert session.control("state").status == "ok"
            if timeout_s < 1:
                with pytest.raises(RemoteError, match="did not answer in time"):
                    session.control("probe", str(slow), "20", "a", "b")
            else:
                assert "done" in session.control("probe", str(slow), "20", "a", "b").text
        finally:
            session.close()


def test_two_accounts_on_the_same_connections(tmp_path: Path) -> None:
    made: list[LocalConnection] = []

    def connect() -> LocalConnection:
        made.append(LocalConnection(os.environ))
        return made[-1]

    root = ("db", "node001", str(tmp_path))
    own = NodeSession(connect, root, 30.0)
    other = NodeSession(own.connections, root, 30.0, spare=1)
    try:
        for session in (own, other):
            with session.shell():
                assert session.control("state").status == "ok"
        assert len(made) == 1
        assert own.contact.shells == 4  # of each one for orders and a spare one
        assert other.contact.shells == 0  # they are counted once
        other.enter()
        assert own.contact.shells == 4
        other.close()
        assert own.contact.shells == 2
        assert own.control("state").status == "ok"
        with pytest.raises(RemoteError, match="the master is stopping"):
            other.control("state")
    finally:
        own.close()


def test_enough_shells_of_several_make_a_further_connection(tmp_path: Path) -> None:
    root = ("db", "node001", str(tmp_path))
    own = NodeSession(lambda: LocalConnection(os.environ), root, 30.0)
    others = [NodeSession(own.connections, root, 30.0) for _ in range(MAX_SHELLS)]
    try:
        for session in (own, *others):
            assert session.control("state").status == "ok"
        assert own.contact.connections == 2
    finally:
        for session in (*others, own):
            session.close()


@pytest.mark.parametrize("kind", ["none", "own", "theirs", "link", "file"])
def test_a_folder_beside_those_of_others_has_to_be_ones_own(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "ann"
    if kind in ("own", "theirs"):
        place.mkdir()
    if kind == "theirs":
        if os.getuid():
            pytest.skip("only root can give it away")
        os.chown(place, 1, 1)
    elif kind == "link":
        place.symlink_to(tmp_path)
    elif kind == "file":
        place.touch()
    session = NodeSession(lambda: LocalConnection(os.environ), ("db", "node001", str(place), "own"), 30.0)
    try:
        if kind in ("none", "own"):
            assert session.control("state").status == "ok"
            assert place.is_dir()
        else:
            with pytest.raises(RemoteError, match="ann is not a folder of this account alone"):
                session.control("state")
    finally:
        session.close()


def test_it_is_known_of_a_request_that_nothing_of_it_has_left(tmp_path: Path) -> None:
    shut = False

    def connect() -> LocalConnection:
        if shut:
            raise RemoteError("not let in")
        return LocalConnection(os.environ)

    session = NodeSession(connect, ("db", "node001", str(tmp_path)), 30.0)
    try:
        assert session.control("state").status == "ok"
        shut = True
        session.reset()
        assert session._control.shell is not None
        session._control.shell.close()
        with pytest.raises(RemoteError) as unsent:
            session.control("state")
        shut = False
        assert session.control("state").status == "ok"
        shut = True
        session.connections.reset()
        session.connections.discard(session._control.shell.connection)
        session._control.shell._channel.close()  # found dead only once it is asked
        with pytest.raises(RemoteError) as sent:
            session.control("state")
        assert (unsent.value.sent, sent.value.sent) == (False, True)
    finally:
        session.close()


def test_spare_shells_that_have_died_unseen_keep_no_request_of_the_quick_half_from_a_fresh_one(tmp_path: Path) -> None:
    session = NodeSession(lambda: LocalConnection(os.environ), ("db", "node001", str(tmp_path)), 30.0)
    try:
        session.warm()
        assert session.quick("state").status == "ok"
        assert session._quick.shell is not None
        for shell in (session._quick.shell, *session._idle):
            shell._channel.close()  # found dead only once it is asked
        assert session.quick("state").status == "ok"
    finally:
        session.close()


class Mortal(LocalConnection):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_connection_that_is_dead_is_closed_too_when_no_shell_was_on_it() -> None:
    made = Mortal(os.environ)
    there = Connections(lambda: made, 30.0)
    assert there.login() is made
    assert there.with_room(()) is made
    made.alive = False
    assert there.with_room(()) is None
    assert (made.closed, there.contact.connections) == (1, 0)


def test_where_no_process_can_be_made_it_is_a_node_that_does_not_answer() -> None:
    with pytest.raises(RemoteError, match="no shell can be run on this machine: Argument list too long"):
        LocalConnection({"HUGE": "x" * 1_000_000}).open_channel("true")


class Kept(LocalConnection):
    """Knows the channels that were opened on it, over which no more is sent than so much."""

    def __init__(self, most: int) -> None:
        super().__init__(os.environ)
        self.most = most
        self.channels: list[LocalChannel] = []

    def open_channel(self, command: str) -> LocalChannel:
        channel = super().open_channel(command)
        assert isinstance(channel, LocalChannel)
        send, sent = channel.send, iter(range(self.most))
        channel.send = lambda *given: next(sent, None) is None or send(*given)  # type: ignore[method-assign]
        self.channels.append(channel)
        return channel


@pytest.mark.parametrize(("most", "said"), [(2, "not a folder of this account alone"), (1, "did not answer in time")])
def test_a_shell_whose_program_does_not_begin_is_closed(tmp_path: Path, most: int, said: str) -> None:
    place = tmp_path / "file"
    place.touch()
    connection = Kept(most)
    patience_s = 30.0 if most > 1 else 2.0
    session = NodeSession(lambda: connection, ("db", "node001", str(place), "own"), patience_s)
    with pytest.raises(RemoteError, match=said):
        session.control("state")
    assert [channel._process.returncode for channel in connection.channels] == [0]


class Full(LocalConnection):
    """Takes nothing, as behind a window that stays full."""

    channel: LocalChannel

    def open_channel(self, command: str) -> LocalChannel:
        self.channel = LocalChannel(command, os.environ)
        self.channel.send = lambda *_: (_ for _ in ()).throw(TimeoutError)  # type: ignore[method-assign]
        return self.channel


def test_one_that_takes_nothing_is_one_that_does_not_answer() -> None:
    connection = Full(os.environ)
    with pytest.raises(RemoteError, match="did not answer in time"):
        NodeShell(connection, 0.1)
    assert connection.channel._process.returncode is not None
