"""The page that lists the routes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_route_is_listed() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    told = {re.sub(r"/(?:[A-Z]+|SHA256)(?=/|$)", "/*", found) for found in re.findall(r"`(?:[A-Z]+ )?(/[^ `?]+)", page)}
    routes = re.findall(r'web\.(?:get|post|put)\(\s*"([^"]+)"', (ROOT / "mgpu/api/app.py").read_text())
    assert len(routes) > 30
    assert [route for route in routes if re.sub(r"\{\w+\}", "*", route) not in told] == []
