from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mgpu import Client
from tests.api.conftest import Served
from tests.client.peer import Peer


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A master's API over a real store, without a master."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    made = Served(folder)
    yield made
    made.close()


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(str(served.path)) as made:
        yield made


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """One that answers as a test says."""
    folder = tmp_path / "peer"
    folder.mkdir(mode=0o700)
    with Peer(folder / "mgpu.sock") as made:
        made.answers["POST", "/v1/jobs"] = (201, {"job_id": 17, "notices": ["a notice"]}, {})
        made.answers["POST", "/v1/cancel"] = {"cancelled": [17], "errors": []}
        yield made
