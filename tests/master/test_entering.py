"""Which link serves which account of a node, as the configuration has it. Nothing is logged in to."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts
from mgpu.master.entering import Entering
from mgpu.master.inbox import Inbox
from mgpu.master.links import Links

FAR, HERE = NodeName("far"), NodeName("here")
NODES = (
    NodeConfig(FAR, "ssh", SshSettings("far", user="train"), NodeFacts(FAR)),
    NodeConfig(HERE, "local", SshSettings("localhost"), NodeFacts(HERE)),
)


def links(folder: Path, **changes: Any) -> Links:
    return Entering(replace(Config(None, NODES), **changes), "ab" * 16, folder).links(Inbox())


def part(node: NodeName, account: str) -> Any:
    return SimpleNamespace(node=node, account=account)


def test_our_own_login_is_known_by_our_uid_and_by_what_older_masters_called_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    made = links(tmp_path)
    own = made[HERE]
    assert own.account == pwd.getpwuid(os.geteuid()).pw_name
    assert made.of(part(HERE, "somebody-else")) is own
    assert made.of(part(HERE, own.account)) is own
    assert made.of(part(HERE, "ann")) is not own


@pytest.mark.parametrize("changes", [{}, {"run_as": "submitter"}, {"run_as": "submitter", "via": "sudo"}])
def test_each_account_hears_and_tells_of_its_own_parts(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = links(tmp_path, **changes)
    assert made.of(part(FAR, "train")) is made[FAR]
    assert made[FAR].whose == ("train", "")
    ann = made.of(part(FAR, "ann"))
    assert ann is not None
    assert (ann.name, ann.account, ann.whose) == (FAR, "ann", ("ann",))


def test_no_key_is_made_before_it_is_needed(tmp_path: Path) -> None:
    links(tmp_path, run_as="submitter").of(part(FAR, "ann"))
    assert not list(tmp_path.glob("*ed25519*"))
