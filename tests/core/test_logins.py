"""Under which login of the nodes somebody's jobs run."""

from __future__ import annotations

import pytest

from mgpu.core.errors import NotAllowed
from mgpu.core.logins import Logins

RESERVED = frozenset({"root", "gpuq", "train"})


@pytest.mark.parametrize(
    ("table", "user", "login"),
    [
        ({}, "ann", "ann"),
        ({"ann": "ann"}, "ann", "ann"),
        ({"bob": "robert"}, "bob", "robert"),
        ({"bob": "robert"}, "ann", "ann"),
        ({"*": "same"}, "ann", "ann"),
        ({"*": "none", "ann": "same"}, "ann", "ann"),
        ({"root": "root"}, "root", "root"),  # the table says so literally
        ({"gpuq": "gpuq"}, "gpuq", "gpuq"),
        ({"eve": "train"}, "eve", "train"),
    ],
)
def test_a_login(table: dict[str, str], user: str, login: str) -> None:
    assert Logins(table, RESERVED).login_of(user) == login


@pytest.mark.parametrize(
    ("table", "user", "why"),
    [
        ({"eve": "none"}, "eve", "eve may run no jobs here: the configuration's `users` refuses eve"),
        ({"*": "none"}, "eve", "`users` refuses everybody whom it does not name"),
        ({}, "root", "no jobs run as root here: it is the administrators' login"),
        ({"root": "same"}, "root", "no jobs run as root here"),  # that is no literal word
        ({}, "gpuq", "no jobs run as gpuq here: it is mgpu's own login"),
        ({"*": "same"}, "train", "no jobs run as train here"),
    ],
)
def test_who_is_refused(table: dict[str, str], user: str, why: str) -> None:
    with pytest.raises(NotAllowed, match=why) as refusal:
        Logins(table, RESERVED).login_of(user)
    assert refusal.value.exit_code == 77
    assert refusal.value.hint
