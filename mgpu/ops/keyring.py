"""The tokens that hold, in memory: to look one up costs a stranger's request no thread and no database.

Only this process writes the table (ops.tokens), so what is here is what is stored; but for `last_used`, which is
written once a minute at most.
"""

from __future__ import annotations

import grp
import os
import pwd
import threading
from collections.abc import Iterable
from dataclasses import replace

from mgpu.core.token import Token, digest_of, opens, parse_token

NOTED_S = 60.0  # between two writes of when a token was used last
ACCOUNT_S = 30.0  # for so long the system is believed that an account exists
_NOBODYS = digest_of("")  # compared where there is no such token, so that both take the same time


def is_account(uid: int, user: str, group: str) -> bool:
    """Whether the head knows that login, and it could reach the socket: it is of that group, "" = of any. Raises
    OSError."""
    try:
        account = pwd.getpwuid(uid)
        of_group = not group or grp.getgrnam(group).gr_gid in os.getgrouplist(account.pw_name, account.pw_gid)
    except KeyError:
        return False
    return account.pw_name == user and (of_group or uid in (0, os.getuid()))


class Keyring:
    """All may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._noted: dict[str, float] = {}
        self._accounts: dict[tuple[int, str], tuple[float, bool]] = {}

    def fill(self, tokens: Iterable[Token]) -> None:
        with self._lock:
            self._tokens = {token.token_id: token for token in tokens}

    def keep(self, token: Token) -> None:
        """New or changed."""
        with self._lock:
            self._tokens[token.token_id] = token

    def tokens(self) -> list[Token]:
        """All that there were, in the order in which they were made."""
        with self._lock:
            return list(self._tokens.values())

    def identify(self, text: str, now: float) -> Token | None:
        """Whose it is, if it holds now."""
        found = parse_token(text)
        if found is None:
            return None
        token_id, secret = found
        with self._lock:
            token = self._tokens.get(token_id)
        right = opens(secret, token.digest if token else _NOBODYS)
        return token if token and right and not token.why_not(now) else None

    def holds(self, token_id: str, now: float) -> bool:
        with self._lock:
            token = self._tokens.get(token_id)
        return token is not None and not token.why_not(now)

    def has_account(self, token: Token, now: float) -> bool | None:
        """Whether its user still exists on the head, as far as that is known; None = the system is to be asked."""
        with self._lock:
            at, stands = self._accounts.get((token.uid, token.user), (0.0, False))
        return stands if 0 <= now - at < ACCOUNT_S else None

    def ask_for_account(self, token: Token, group: str, now: float) -> bool:
        """Asks the system, which may take a while where accounts come over the network. While it cannot tell, nobody
        is let in, and it is asked again. `group` "" = it may be anybody."""
        try:
            stands = is_account(token.uid, token.user, group)
        except OSError:
            return False
        with self._lock:
            self._accounts[token.uid, token.user] = (now, stands)
        return stands

    def note_use(self, token_id: str, now: float) -> bool:
        """Whether it is time to store that it was used."""
        with self._lock:
            token = self._tokens.get(token_id)
            if token is None or now - self._noted.get(token_id, 0.0) < NOTED_S:
                return False
            self._noted[token_id] = now
            self._tokens[token_id] = replace(token, last_used=now)
        return True
