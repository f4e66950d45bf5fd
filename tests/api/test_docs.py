"""The page that lists the routes."""

from __future__ import annotations

import re
from pathlib import Path

from mgpu.api import watching

ROOT = Path(__file__).parents[2]


def test_each_route_is_listed() -> None:
    page = (ROOT / "docs/api.md").read_text()
    told = {re.sub(r"/(?:[A-Z]+|SHA256)(?=/|$)", "/*", found) for found in re.findall(r"`(?:[A-Z]+ )?(/[^ `?]+)", page)}
    sources = [path.read_text() for path in (ROOT / "mgpu/api").glob("*.py")]
    routes = [route for text in sources for route in re.findall(r'web\.(?:get|post|put)\(\s*"([^"]+)"', text)]
    routes += [watching.HEALTH, watching.METRICS]
    assert len(routes) > 30
    there = {re.sub(r"\{\w+\}", "*", route) for route in routes}
    assert there - told == set()
    assert told - there == set(), "listed, and there is none"
