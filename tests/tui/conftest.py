from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.stand_in import StandIn


@pytest.fixture(autouse=True)
def one_zone_and_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def master() -> Iterator[StandIn]:
    """Its socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="mgpu-tui-") as folder, StandIn(Path(folder) / "m.sock") as made:
        made.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": []}
        made.answers["POST", "/v1/hold"] = {"held": [], "errors": []}
        made.answers["POST", "/v1/release"] = {"released": [], "errors": []}
        made.answers["POST", "/v1/requeue"] = {"requeued": [], "errors": []}
        yield made
