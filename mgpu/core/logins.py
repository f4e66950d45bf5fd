"""Under which login of the nodes whose jobs run, where they do not all run under mgpu's own (`run_as: submitter`): the
`users` table. Another thing than the accounts of fair share (`accounts`). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mgpu.core.errors import NotAllowed

EVERYBODY = "*"  # who is not named
SAME, NONE = "same", "none"  # instead of a login: the same name there; refused
LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\$+-]*", re.ASCII)  # one that may stand in a command line


@dataclass(frozen=True, slots=True)
class Logins:
    """`table`: login on the head -> login on the nodes, SAME or NONE. `reserved`: logins that are given to somebody by
    the table's own word alone: root, and those that mgpu itself has."""

    table: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()

    def login_of(self, user: str) -> str:
        """Raises NotAllowed for whom the table refuses."""
        said = self.table.get(user) or self.table.get(EVERYBODY, SAME)
        if said == NONE:
            whom = user if user in self.table else "everybody whom it does not name"
            hint = "an administrator of mgpu can put a login there"
            raise NotAllowed(f"{user} may run no jobs here: the configuration's `users` refuses {whom}", hint)
        login = user if said == SAME else said
        if not LOGIN.fullmatch(login) or (said == SAME and login.isdigit()):
            hint = "an administrator of mgpu may write a login into the configuration, under `users`"
            raise NotAllowed(f"{login!r} is no login that jobs can run as on the nodes", hint)
        if said == SAME and self.is_reserved(login):
            hint = f"an administrator of mgpu may write so into the configuration, users: {{{user}: LOGIN}}"
            raise NotAllowed(f"no jobs run as {login} here: it is {_whose(login)}", hint)
        return login

    def names(self, login: str) -> bool:
        """The table gives it to somebody by its own word."""
        return login in self.table.values()

    def is_reserved(self, login: str) -> bool:
        return login in self.reserved and not self.names(login)


def _whose(login: str) -> str:
    return "the administrators' login" if login == "root" else "mgpu's own login"


_NOT_LET = "sudoers does not let mgpu become {login} there (docs/accounts.md has the line)"
_SUDO = {  # what sudo, or the shell in its place, says -> what that means
    "a password is required": _NOT_LET,
    "not allowed": _NOT_LET,
    "not in the sudoers": _NOT_LET,
    "must have a tty": "sudo wants a terminal there (sudoers needs `Defaults:NAME !requiretty` for mgpu's login)",
    "unknown user": "there is no account {login} there",
    "not found": "sudo is not installed there",
    "Unknown command": "sudo is not installed there",
}


def why_shut(user: str, login: str, sudo: bool, refused: bool, said: str) -> str:
    """Why nothing of this user can start on a node, with what to do. `refused`: the login was, by its sshd. Without the
    node's name: of many nodes the same is said once."""
    if sudo:
        means = next((means for words, means in _SUDO.items() if words in said), "mgpu cannot become {login} there")
        return f"{means.format(login=login)}: {said}"
    if not refused:
        return f"mgpu cannot log in as {login}: {said}"
    whom = user if user == login else f"{user} (as {login} there)"
    return f"{whom} is not enrolled: {user} runs `mgpu enroll` once"
