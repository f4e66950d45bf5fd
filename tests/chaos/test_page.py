"""docs/reliability.md names tests and promises: all of them are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()


def test_every_test_that_the_page_names_is_there() -> None:
    named = 0
    for line in PAGE.splitlines():
        file = ""
        for found, test in re.findall(r"`(?:([a-z_/]+\.py): )?(test_\w+)`", line):
            file = found or file
            assert f"def {test}(" in (TESTS / file).read_text(), f"{file} has no {test}"
            named += 1
    assert named > 40


def test_every_promise_of_the_checker_that_the_page_names_is_checked() -> None:
    checks = "".join((TESTS / "chaos" / name).read_text() for name in ("checker.py", "campaign.py"))
    promises = re.findall(r"chaos ((?:\"[^\"]+\"(?:, )?)+)", PAGE)
    assert promises
    for promise in re.findall(r'"([^"]+)"', " ".join(promises)):
        assert f'"{promise}"' in checks, promise
