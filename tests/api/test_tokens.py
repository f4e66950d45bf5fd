"""Tokens from their making to their end: whose they are, what is kept of them, when they open nothing any more."""

import grp
import json
import logging
import os
import pwd
from dataclasses import replace

import pytest

from mgpu.api import tcp
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.token import digest_of, parse_token
from mgpu.ops import keyring, tokens
from mgpu.ops.context import Caller
from tests.api.elsewhere import answer_on, ask, audit, connect, everything_under, head, is_closed, listens, token, until

ME = pwd.getpwuid(os.getuid()).pw_name


def test_a_revoked_token_opens_nothing_and_what_it_opened_ends(served, monkeypatch):
    port = listens(served)
    shown = token(served)
    job_id = served.submit()
    with connect(port) as kept, connect(port) as stream:
        kept.sendall(head(shown))
        assert answer_on(kept)[0] == 200
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
        key = {"Sec_WebSocket_Key": "bWdwdS1vd24tc29ja2V0IQ=="}
        stream.sendall(head(shown, path=f"/v1/jobs/{job_id}/stream", **upgrade, **key))
        assert b" 101 " in stream.recv(4096)
        token_id = shown.split("_")[1]
        assert served.ask("POST", f"/v1/tokens/{token_id}/revoke", {})[1]["state"] == "revoked"
        assert ask(port, head(shown))[0] == 401
        assert is_closed(kept)
        assert is_closed(stream)


def test_a_connection_that_is_open_asks_nothing_more_once_its_token_is_revoked(served, monkeypatch):
    monkeypatch.setattr(tcp, "LOOK_S", 3600.0)
    port = listens(served)
    shown = token(served)
    with connect(port) as kept:
        kept.sendall(head(shown))
        assert answer_on(kept)[0] == 200
        served.ask("POST", f"/v1/tokens/{shown.split('_')[1]}/revoke", {})
        kept.sendall(head(shown))
        assert answer_on(kept)[0] == 401


def test_an_expired_token_opens_nothing_and_what_it_opened_ends(served):
    port = listens(served)
    shown = token(served, expires="90d")
    with connect(port) as kept:
        kept.sendall(head(shown))
        assert answer_on(kept)[0] == 200
        expire(served, shown)
        assert ask(port, head(shown))[0] == 401
        assert is_closed(kept)


def test_a_user_who_is_gone_from_the_head_is_refused(served):
    port = listens(served)
    shown = token(served)
    change(served, shown, user="nobody-of-that-name")
    assert ask(port, head(shown))[0] == 401


def test_tokens_are_made_and_revoked_by_who_is_logged_in_alone(served):
    port = listens(served)
    shown = token(served)
    for path in ("/v1/tokens", f"/v1/tokens/{shown.split('_')[1]}/revoke"):
        more = {"Content_Type": "application/json", "Content_Length": "2"}
        status, _, answer = ask(port, head(shown, "POST", path, **more) + b"{}")
        assert (status, answer["error"]["code"]) == (403, "not_allowed")
    assert ask(port, head(shown, path="/v1/tokens"))[2]["tokens"][0]["state"] == "valid"


def test_nobody_makes_tokens_for_others_but_admins(served):
    other = Caller(4711, "mallory")
    shared = replace(served.context, config=replace(served.context.config, shared=True))
    with pytest.raises(NotAllowed, match="make tokens for others"):
        tokens.create(shared, other, {"user": ME})


def test_of_a_shared_master_each_is_who_his_token_is_of(served):
    listens(served)
    served.restart_shared()
    port = served.context.config.listen.port
    theirs = token(served, user="nobody")
    job_id = served.submit()
    body = json.dumps({"request_id": "c" * 8, "ids": [job_id]}).encode()
    more = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    answer = ask(port, head(theirs, "POST", "/v1/cancel", **more) + body)[2]
    assert [error["code"] for error in answer["errors"]] == ["not_allowed"]
    assert ask(port, head(theirs, "POST", "/v1/stop", **more) + body)[0] == 403
    rows = [(row.who, row.what, row.result, row.origin) for row in audit(served) if row.result]
    assert rows == [("nobody", what, "refused", "tcp 127.0.0.1") for what in ("cancel", "stop")]
    assert {each["user"] for each in ask(port, head(theirs, path="/v1/tokens"))[2]["tokens"]} == {"nobody"}


def test_who_is_not_of_the_sockets_group_has_no_use_for_a_token(served):
    groups = {grp.getgrgid(gid).gr_name for gid in os.getgrouplist("nobody", pwd.getpwnam("nobody").pw_gid)}
    other = next(group.gr_name for group in grp.getgrall() if group.gr_name not in groups)
    listens(served)
    served.restart_shared()
    port, shown = served.context.config.listen.port, token(served, user="nobody")
    assert ask(port, head(shown))[0] == 200
    served.context = replace(served.context, config=replace(served.context.config, socket_group=other))
    assert not keyring.is_account(pwd.getpwnam("nobody").pw_uid, "nobody", other)
    assert keyring.is_account(pwd.getpwnam("nobody").pw_uid, "nobody", "")
    assert keyring.is_account(os.getuid(), ME, other)
    with pytest.raises(RequestError, match=f"not of the group {other}"):
        tokens.create(served.context, Caller(os.getuid(), ME, "socket"), {"user": "nobody"})


def test_the_secret_is_kept_nowhere(served, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    port = listens(served)
    shown = token(served, name="laptop")
    assert ask(port, head(shown))[0] == 200
    assert ask(port, head(shown + "0"))[0] == 401
    _, secret = parse_token(shown)
    until("the refusal is told", lambda: any(row.what == "come in" for row in audit(served)))
    kept = everything_under(tmp_path)
    assert digest_of(secret).encode() in kept
    assert secret.encode() not in kept
    assert secret not in caplog.text
    assert secret not in json.dumps(served.ask("GET", "/v1/tokens")[1])


def test_when_a_token_was_used_is_stored_once_a_minute(served):
    port = listens(served)
    shown = token(served)
    for _ in range(3):
        assert ask(port, head(shown))[0] == 200
    until("it is stored", lambda: stored(served, shown).last_used is not None)
    first = stored(served, shown).last_used
    assert ask(port, head(shown))[0] == 200
    assert stored(served, shown).last_used == first
    assert served.ask("GET", "/v1/tokens")[1]["tokens"][0]["last_used"] is not None


def test_tokens_outlive_the_master(served):
    port = listens(served)
    shown = token(served)
    served.restart(keyring=type(served.context.keyring)())
    tokens.load(served.context)
    assert ask(port, head(shown))[0] == 200


def test_where_we_can_no_longer_look_whether_tokens_hold_nobody_is_in(served, monkeypatch, caplog):
    monkeypatch.setattr(tcp, "LOOK_S", 0.2)
    port = listens(served)
    shown = token(served)

    def fault(_token_id, _now):
        raise RuntimeError("a fault of ours")

    with connect(port) as kept:
        kept.sendall(head(shown))
        assert answer_on(kept)[0] == 200
        served.context.keyring.holds = fault
        assert is_closed(kept)
    told = served.ask("GET", "/v1/status")[1]["listens"]
    assert told == "not any more, after a fault: see the master's log; mgpu restart"
    with pytest.raises(OSError, match="refused"):
        connect(port)
    assert "nobody comes in over TCP any more" in caplog.text


def stored(served, shown):
    with served.store.read() as r:
        return next(each for each in r.tokens() if each.token_id == shown.split("_")[1])


def change(served, shown, **changes):
    before = stored(served, shown)
    after = replace(before, **changes)
    with served.store.write() as w:
        w.save_token(after, before)
    served.context.keyring.keep(after)


def expire(served, shown):
    change(served, shown, expires=1.0)


def test_a_bare_number_says_not_how_long(served):
    status, answer = served.ask("POST", "/v1/tokens", {"expires": "5"})
    assert (status, answer["error"]["hint"]) == (400, "5d are days, 5h hours")
