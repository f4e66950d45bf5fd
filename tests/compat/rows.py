"""The rows of docs/from-the-old-system.md, and which test each has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PAGE = Path(__file__).parents[2] / "docs/from-the-old-system.md"
TESTED: dict[str, list[str]] = {}
Test = TypeVar("Test", bound=Callable[..., None])


def rows() -> list[str]:
    """Their first cells, without backticks, in the page's order."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line)[1].strip().replace("`", "") for line in lines]
    return [cell for cell in cells if cell not in ("old", "promise", "---")]


def row(*olds: str) -> Callable[[Test], Test]:
    """That test is of these rows."""

    def mark(test: Test) -> Test:
        for old in olds:
            TESTED.setdefault(old, []).append(test.__name__)
        return test

    return mark
