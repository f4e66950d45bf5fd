"""The TCP port: nobody comes in without a token, whatever they say; what strangers can cost is bounded."""

import asyncio
import json
import os
import pwd
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mgpu.api import gate, knock, line, strangers, tcp
from mgpu.client import http
from mgpu.core.token import Token
from tests.api.elsewhere import (
    answer_on,
    ask,
    audit,
    connect,
    free_port,
    head,
    is_closed,
    listens,
    token,
    until,
)

ME = pwd.getpwuid(os.getuid()).pw_name


def test_a_token_lets_its_user_in(served):
    port = listens(served)
    shown = token(served, name="laptop")
    status, _, answer = ask(port, head(shown))
    assert (status, answer) == (200, {"jobs": []})
    assert [(row.what, row.who, row.origin) for row in audit(served)] == [("token create", ME, "socket")]


def test_whoever_asks_through_a_token_is_its_user_at_that_address(served):
    port = listens(served)
    shown = token(served)
    job_id = served.submit()
    body = json.dumps({"request_id": "c" * 8, "ids": [job_id]}).encode()
    more = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    assert ask(port, head(shown, "POST", "/v1/cancel", **more) + body)[0] == 200
    row = next(row for row in audit(served) if row.what == "cancel")
    assert (row.what, row.who, row.uid, row.origin) == ("cancel", ME, os.getuid(), "tcp 127.0.0.1")


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "mgpu_00000000_" + "0" * 64,
        "x",
        "mgpu_" + "0" * 72,
    ],
)
def test_without_a_token_that_holds_nobody_learns_why(served, shown):
    port = listens(served)
    token(served)
    status, headers, answer = ask(port, head(shown))
    assert (status, headers["www-authenticate"], headers["connection"]) == (401, "Bearer", "close")
    assert answer["error"]["code"] == "no_token"
    assert answer == ask(port, head(token(served)[:-1] + "x"))[2]


def test_the_right_secret_alone_opens(served):
    port = listens(served)
    shown = token(served)
    other = shown[:-1] + ("0" if shown[-1] != "0" else "1")
    assert ask(port, head(other))[0] == 401
    assert ask(port, head(shown))[0] == 200


def test_each_request_of_a_connection_shows_the_token_that_opened_it(served):
    port = listens(served)
    first, second = token(served), token(served)
    for later in ("", second):
        with connect(port) as kept:
            kept.sendall(head(first))
            assert answer_on(kept)[0] == 200
            kept.sendall(head(later))
            assert answer_on(kept)[0] == 401


def test_web_pages_and_other_names_are_refused_even_with_a_token(served):
    port = listens(served)
    shown = token(served)
    for said in (head(shown, Origin="https://elsewhere.example"), head(shown, Host="rebound.example:8080")):
        assert ask(port, said)[0] == 403
    for host in (f"127.0.0.1:{port}", "localhost", socket.gethostname(), "[::1]:8080"):
        assert ask(port, head(shown, Host=host))[0] == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n",
        b"\0\1\2\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: mgpu\r\nHost: mgpu\r\n\r\n",
        b"GET / HTTP/1.1\r\nAuthorization : Bearer x\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_before_the_server_hears_of_it(served, said, caplog):
    port = listens(served)
    assert ask(port, said)[0] == 400
    assert caplog.records == []


def test_a_head_without_end_is_not_read_to_the_end(served):
    port = listens(served)
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (knock.LIMIT_B + 100))
        assert answer_on(connection)[0] == 431


def test_a_strangers_body_is_not_read(served):
    port = listens(served)
    with connect(port) as connection:
        connection.sendall(head("", "POST", "/v1/jobs", Content_Length=str(8 << 20)))
        assert answer_on(connection)[0] == 401
        assert is_closed(connection)


def test_who_says_his_head_too_slowly_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(gate, "HEAD_S", 0.3)
    port = listens(served)
    with connect(port) as silent, connect(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert is_closed(silent)
        assert is_closed(slow)


def test_an_address_has_so_many_strangers_at_once_the_others_wait_and_the_socket_goes_on(served, monkeypatch):
    monkeypatch.setattr(gate, "HEAD_S", 600.0)
    monkeypatch.setattr(line, "WAIT_S", 600.0)
    port = listens(served)
    shown = token(served)
    silent = [connect(port) for _ in range(line.INSIDE_OF_ONE)]
    with connect(port) as late:
        late.sendall(head(shown))
        assert served.ask("GET", "/v1/jobs")[0] == 200
        assert not select.select([late], [], [], 0.2)[0]
        silent.pop().close()
        assert answer_on(late)[0] == 200
    for connection in silent:
        connection.close()


def test_more_than_can_wait_are_sent_away(served, monkeypatch):
    monkeypatch.setattr(line, "WAITING_OF_ONE", 2)
    port = listens(served)
    waiting = [connect(port) for _ in range(line.INSIDE_OF_ONE + 2)]
    with connect(port) as late:
        assert is_closed(late)
    for connection in waiting:
        connection.close()
    shown = token(served)
    until("there is room again", lambda: is_let_in(port, shown))


def test_many_come_at_once_from_one_machine_and_all_come_in(served):
    port = listens(served)
    shown = token(served)
    with ThreadPoolExecutor(80) as pool:
        answers = list(pool.map(lambda _: ask(port, head(shown))[0], range(160)))
    assert answers == [200] * 160


def test_what_comes_while_a_token_is_looked_at_is_not_lost():
    """A body right behind its head: not every transport holds it back."""

    class Door:
        def came(self, gate): ...
        def let_in(self, gate): ...
        def left(self, gate): ...

        async def judge(self, said, address):
            await asyncio.sleep(0)
            return Token("00c0ffee", "", 0, "root", "", 1.0)

    class Inner(asyncio.Protocol):
        heard = b""

        def data_received(self, data):
            self.heard += data

    class Held(asyncio.Transport):
        def pause_reading(self): ...
        def resume_reading(self): ...
        def is_closing(self):
            return False

    async def play():
        inner = Inner()
        made = gate.Gate(Door(), "10.0.0.1", lambda: inner)
        made.connection_made(Held())
        made.data_received(head("x", "POST"))
        made.data_received(b"one")
        await asyncio.sleep(0.01)
        made.data_received(b"two")
        made.connection_lost(None)
        return inner.heard

    assert asyncio.run(play()) == head("x", "POST") + b"onetwo"


def test_a_flood_of_strangers_leaves_the_socket_alone(served):
    """Each is told nothing but the end; the unix socket answers meanwhile."""
    port = listens(served)
    crowd = []
    try:
        for number in range(2000):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            crowd.append(connection)
            if len(crowd) > 400:
                crowd.pop(0).close()
            if number % 200 == 0:
                assert served.ask("GET", "/v1/jobs")[0] == 200
        assert len(list(Path("/proc/self/fd").iterdir())) < 400 + line.INSIDE + line.WAITING + 100
    finally:
        for connection in crowd:
            connection.close()


def test_a_user_has_so_many_connections(served, monkeypatch):
    monkeypatch.setattr(tcp, "MOST_OF_ONE", 2)
    port = listens(served)
    shown = token(served)
    kept = [connect(port) for _ in range(3)]
    answers = []
    for connection in kept:
        connection.sendall(head(shown))
        answers.append(answer_on(connection)[0])
        if answers[-1] != 200:
            connection.close()
    assert answers == [200, 200, 503]
    for connection in kept:
        connection.close()


def test_refusals_wait_longer_and_longer_and_the_audit_is_not_filled(served):
    watch = strangers.Strangers(served.context)
    delays = [watch.failed("10.0.0.1", 1.0) for _ in range(8)]
    assert delays == sorted(delays)
    assert delays[0] < delays[3] < delays[-1] == strangers.LONGEST_DELAY_S
    assert watch.failed("10.0.0.2", 1.0) == delays[0]
    assert watch.failed("10.0.0.1", 2.0 + strangers.FORGOTTEN_S) == delays[0]


def test_a_flood_from_everywhere_has_so_many_rows_an_hour(served):
    import asyncio

    watch = strangers.Strangers(served.context)
    for number in range(5000):
        watch.failed(f"10.{number // 250}.0.{number % 250}", 1.0)
        if number % 500 == 0:
            asyncio.run(watch.tell(1.0))
    asyncio.run(watch.tell(1.0))
    rows = [row for row in audit(served) if row.what == "come in"]
    assert len(rows) == strangers.ROWS_AN_HOUR
    assert {(row.result, row.uid) for row in rows} == {("refused", None)}


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
    ],
)
def test_who_is_taken_for_one(address, block):
    assert strangers.block_of(address) == block


def test_a_port_in_use_is_told_and_tried_again(served, monkeypatch, caplog):
    monkeypatch.setattr(tcp, "AGAIN_S", 0.2)
    monkeypatch.setattr("tests.api.elsewhere.free_port", lambda: port)
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        listens(served)
        told = served.ask("GET", "/v1/status")[1]["listens"]
        assert told == f"not at http://127.0.0.1:{port}: Address already in use; it is tried again"
    until("it listens", lambda: served.ask("GET", "/v1/status")[1]["listens"] == f"http://127.0.0.1:{port}")
    assert ask(port, head(token(served)))[0] == 200
    assert sum("cannot listen" in record.message for record in caplog.records) == 1


def test_the_socket_asks_for_no_token(served):
    listens(served)
    assert http.request(served.endpoint, "GET", "/v1/jobs").status == 200


def is_let_in(port, shown):
    try:
        return ask(port, head(shown))[0] == 200
    except (OSError, IndexError):
        return False
