"""Which account a job is of: the one that was asked for, or the first that lists its user."""

from __future__ import annotations

from collections.abc import Mapping

from mgpu.core import payload as read
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.plan import AccountFacts


def account_of(asked: str, accounts: Mapping[str, AccountFacts], user: str) -> tuple[str, list[str]]:
    """The account ("" = none) and notices. Raises RequestError, or NotAllowed for one that does not list the user."""
    own = [name for name, facts in accounts.items() if user in facts.users]
    if not asked:
        return (own[0] if own else ""), []
    if not accounts:
        return "", [f"there are no accounts here: -A {read.shown(asked)} is passed over"]
    if asked not in accounts:
        more = read.did_you_mean(asked, list(accounts)) or f": there are {', '.join(accounts)}"
        raise RequestError(f"unknown account '{read.shown(asked)}'{more}")
    if asked not in own:
        instead = f": leave -A out for {own[0]}" if own else ""
        raise NotAllowed(f"account {asked} does not list {user}{instead}")
    return asked, []
