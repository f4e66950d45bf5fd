"""What `status` tells of trouble: once each."""

from __future__ import annotations

from mgpu.master.troubles import MOST, Troubles


def test_the_same_trouble_is_told_once_with_its_count() -> None:
    troubles = Troubles()
    logged = [troubles.add("disk full", 1e9 + second) for second in range(9)]
    assert logged == [True, True, False, True, False, False, False, True, False]
    troubles.add("other", 1e9)
    assert troubles.lines() == (
        "disk full (9 times, last at 2001-09-09T01:46:48Z)",
        "other (at 2001-09-09T01:46:40Z)",
    )


def test_only_the_latest_are_kept() -> None:
    troubles = Troubles()
    for number in range(MOST + 5):
        troubles.add(f"trouble {number}", 1e9 + number)
        troubles.add("the first", 1e9 + number)
    lines = troubles.lines()
    assert len(lines) == MOST
    assert lines[-1].startswith(f"the first ({MOST + 5} times")
    assert lines[0].startswith("trouble 6 ")
