"""Tokens are made, listed and revoked. Made and revoked only by who is logged in on the head: a stolen one begets no
others."""

from __future__ import annotations

import math
import pwd
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mgpu import clock
from mgpu.config.times import seconds_or_never
from mgpu.core.errors import NotAllowed, NotFound, RequestError
from mgpu.core.token import ID_LETTERS, SECRET_LETTERS, Token, digest_of, render_token
from mgpu.ops.context import Caller, Context, require_operator
from mgpu.ops.keyring import is_account
from mgpu.ops.render import Json, moment
from mgpu.store.writing import Writer

LIFE_S = 90 * 86_400.0
LONGEST_S = 20 * 365 * 86_400.0
LONGEST_NAME = 100
MOST = 100  # that hold at once, of one user


def load(context: Context) -> None:
    """What is stored, for those who will ask."""
    with context.store.read() as r:
        context.keyring.fill(r.tokens())


def create(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """The only time that anybody sees it whole."""
    _require_login(caller, "make a token")
    uid, user = _whose(context, caller, payload.get("user"))
    name = str(payload.get("name") or "")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise RequestError("the token's name is too long or no plain text", f"at most {LONGEST_NAME} letters")
    now = clock.now()
    expires = _expiry(payload.get("expires"), now)
    token_id, secret = secrets.token_hex(ID_LETTERS // 2), secrets.token_hex(SECRET_LETTERS // 2)
    token = Token(token_id, digest_of(secret), uid, user, name, now, expires)
    with context.store.write() as w:
        if sum(not other.why_not(now) for other in w.tokens() if other.uid == uid) >= MOST:
            raise RequestError(f"{user} has {MOST} tokens that hold already", "mgpu token list, and revoke")
        w.add_token(token)
        w.audit(caller.entry("token create", detail=_words(token)))
    context.keyring.keep(token)
    return {"token": render_token(token_id, secret), **_shown(token, now)}


def list_tokens(context: Context, caller: Caller) -> Json:
    """Their own; an admin sees all."""
    now, everything = clock.now(), context.is_operator(caller)
    found = [token for token in context.keyring.tokens() if everything or token.uid == caller.uid]
    return {"tokens": [_shown(token, now) for token in found]}


def revoke(context: Context, caller: Caller, token_id: str) -> Json:
    """At once, and what goes on with it ends within seconds. One that was revoked before stays so."""
    _require_login(caller, "revoke a token")
    now = clock.now()
    with context.store.write() as w:
        token = _stored(w, token_id)
        if token is None or (token.uid != caller.uid and not context.is_operator(caller)):
            raise NotFound(f"there is no token {token_id!r} of yours", "mgpu token list shows them")
        if token.revoked is None:
            before, token = token, replace(token, revoked=now)
            w.save_token(token, before)
            w.audit(caller.entry("token revoke", detail=_words(token)))
    context.keyring.keep(token)
    return _shown(token, now)


def note_use(context: Context, token_id: str, at: float) -> None:
    """Stores when a token was used last."""
    with context.store.write() as w:
        token = _stored(w, token_id)
        if token is not None:
            w.save_token(replace(token, last_used=at), token)


def _stored(writer: Writer, token_id: str) -> Token | None:
    return next((token for token in writer.tokens() if token.token_id == token_id), None)


def _require_login(caller: Caller, what: str) -> None:
    if caller.origin.startswith("tcp"):
        raise NotAllowed(f"a token may not {what}", "do it on the head node, or through ssh://")


def _whose(context: Context, caller: Caller, user: object) -> tuple[int, str]:
    """Raises NotAllowed, or RequestError for who is not known here."""
    if user in (None, "", caller.user):
        uid, user = caller.uid, caller.user
    else:
        require_operator(context, caller, "make tokens for others")
        uid = -1
    try:
        account = pwd.getpwnam(str(user))
    except (KeyError, ValueError) as error:
        raise RequestError(f"there is no user {str(user)!r} on the head node", "a token is of a login there") from error
    uid, user = uid if uid >= 0 else account.pw_uid, account.pw_name
    if not context.serves(Caller(uid, user)):
        raise RequestError(f"this master does not serve {user}", "it is personal: its owner's tokens alone")
    if not is_account(uid, user, context.config.socket_group):
        raise RequestError(f"{user} is not of the group {context.config.socket_group}", "which this master is for")
    return uid, user


def _expiry(given: object, now: float) -> float | None:
    text = "" if given is None else str(given)
    if text.isdecimal():
        raise RequestError(f"--expires {text}: of what?", f"{text}d are days, {text}h hours")
    try:
        life_s = seconds_or_never(text) if text else LIFE_S
    except ValueError as error:
        raise RequestError(f"--expires: {error}", "like 90d, 12h, or never") from error
    if math.isinf(life_s):
        return None
    if not 0 < life_s <= LONGEST_S:
        raise RequestError(f"--expires {given}: no time that a token can hold", "like 90d, 12h, or never")
    return now + life_s


def _words(token: Token) -> str:
    label = f" ({token.name})" if token.name else ""
    return f"{token.token_id} of {token.user}{label}"


def _shown(token: Token, now: float) -> Json:
    return {
        "token_id": token.token_id,
        "user": token.user,
        "name": token.name,
        "state": token.why_not(now) or "valid",
        "created": moment(token.created),
        "expires": moment(token.expires),
        "last_used": moment(token.last_used),
        "revoked": moment(token.revoked),
    }
