"""The zone of the wall here, as it is told to the master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from mgpu.client.zone import own_zone
from mgpu.ops.zone import zone_named


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("Asia/Tokyo", "Asia/Tokyo,+0900"),
        (":Asia/Tokyo", "Asia/Tokyo,+0900"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo,+0900"),
        ("JST-9", "JST-9,+0900"),
    ],
)
def test_what_is_told_is_understood(wall: pytest.MonkeyPatch, variable: str, told: str) -> None:
    wall.setenv("TZ", variable)
    time.tzset()
    assert own_zone() == told
    zone = zone_named(told)
    assert zone is not None
    assert datetime(2026, 1, 1, tzinfo=zone).utcoffset() == timedelta(hours=9)


def test_without_a_variable(wall: pytest.MonkeyPatch) -> None:
    wall.delenv("TZ", raising=False)
    time.tzset()
    assert zone_named(own_zone()) is not None
