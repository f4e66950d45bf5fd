"""Under which login of the nodes whose jobs run, where they do not all run under mgpu's own (`run_as: submitter`): the
`users` table. Another thing than the accounts of fair share (`accounts`). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgpu.core.errors import NotAllowed

EVERYBODY = "*"  # who is not named
SAME, NONE = "same", "none"  # instead of a login: the same name there; refused


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
