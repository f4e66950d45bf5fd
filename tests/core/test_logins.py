"""Under which login of the nodes somebody's jobs run."""

from __future__ import annotations

import pytest

from mgpu.core.errors import NotAllowed
from mgpu.core.logins import Logins, why_shut

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


@pytest.mark.parametrize("user", ["1234", "ann'; id", "-ann", "#0", "", "an n", "ann\n"])
def test_what_is_no_login_stands_in_no_command(user: str) -> None:
    with pytest.raises(NotAllowed, match="is no login that jobs can run as"):
        Logins({}, RESERVED).login_of(user)


@pytest.mark.parametrize(
    ("sudo", "refused", "said", "why"),
    [
        (False, True, "1 key offered, none accepted", "ann is not enrolled: ann runs `mgpu enroll` once"),
        (False, False, "connection timed out", "mgpu cannot log in as ann: connection timed out"),
        (True, False, "it said: sudo: a password is required", "sudoers does not let mgpu become ann there"),
        (True, False, "sudo: sorry, you must have a tty to run sudo", "sudo wants a terminal there"),
        (True, False, "it said: sudo: unknown user ann", "there is no account ann there"),
        (True, False, "it said: sudo: unknown user: ann", "there is no account ann there"),
        (True, False, "sh: 1: exec: sudo: not found", "sudo is not installed there"),
        (True, False, "sudo: Command not found.", "sudo is not installed there"),
        (True, False, "fish: Unknown command: sudo", "sudo is not installed there"),
        (True, False, "connection lost", "mgpu cannot become ann there: connection lost"),
    ],
)
def test_why_an_account_cannot_be_entered(sudo: bool, refused: bool, said: str, why: str) -> None:
    assert why_shut("ann", "ann", sudo, refused, said).startswith(why)


def test_who_is_called_otherwise_there() -> None:
    assert why_shut("ann", "a1", False, True, "") == "ann (as a1 there) is not enrolled: ann runs `mgpu enroll` once"
