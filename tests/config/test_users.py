"""`run_as` and the `users` table, as they are read."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from mgpu.config.load import load
from mgpu.config.model import Config
from mgpu.core.errors import ConfigError, NotAllowed

HEAD = "master: {run_as: submitter}\nnodes: [{node_id: a, ssh: {user: train}}, {node_id: b}]\n"


def loaded(folder: Path, text: str) -> Config:
    path = folder / "c.yaml"
    path.write_text(text)
    path.chmod(0o644)
    return load(path)


def test_whose_login_is_what(tmp_path: Path) -> None:
    config = loaded(tmp_path, HEAD + 'users: {bob: robert, eve: none, "*": same}\n')
    assert (config.run_as, config.via) == ("submitter", "login")
    assert [config.logins.login_of(user) for user in ("bob", "ann")] == ["robert", "ann"]
    assert config.warnings == ()


@pytest.mark.parametrize("user", ["root", "train", pwd.getpwuid(os.getuid()).pw_name])
def test_logins_that_nobody_gets_by_accident(tmp_path: Path, user: str) -> None:
    with pytest.raises(NotAllowed, match=f"no jobs run as {user} here"):
        loaded(tmp_path, HEAD).logins.login_of(user)
    assert loaded(tmp_path, f"{HEAD}users: {{{user}: {user}}}\n").logins.login_of(user) == user


@pytest.mark.parametrize(
    ("users", "fault"),
    [
        ('{"*": robert}', "users: '*' must be same or none: not all others can share the login robert"),
        ("{bob: 'a b'}", "users.bob: 'a b' is no login name"),
        ("{'b;b': bob}", "users.b;b"),
        ("[bob]", "users: must be a mapping"),
    ],
)
def test_what_is_no_table(tmp_path: Path, users: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"{HEAD}users: {users}\n")
    assert fault in caught.value.faults[0]


def test_a_table_that_nothing_goes_by_is_told(tmp_path: Path) -> None:
    [warning] = loaded(tmp_path, "nodes: [{node_id: a}]\nusers: {bob: robert}\n").warnings
    assert warning.endswith("users: of no use without master: {run_as: submitter}")
