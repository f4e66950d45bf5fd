"""The page that lists the routes."""

from __future__ import annotations

import re
from pathlib import Path

from mgpu.api import watching
from mgpu.core.request import OPTIONS

ROOT = Path(__file__).parents[2]


def test_each_route_is_listed() -> None:
    page = (ROOT / "docs/api.md").read_text()
    listed = re.findall(r"`(GET|POST|PUT) (/[^ `?]+)", page)
    told = {(method, re.sub(r"/(?:[A-Z]+|SHA256)(?=/|$)", "/*", path)) for method, path in listed}
    there = {("GET", watching.HEALTH), ("GET", watching.METRICS)}
    for source in (ROOT / "mgpu/api").glob("*.py"):
        for method, path in re.findall(r'web\.(get|post|put)\(\s*"([^"]+)"', source.read_text()):
            there.add((method.upper(), re.sub(r"\{\w+\}", "*", path)))
    assert len(there) > 40
    assert there - told == set()
    assert told - there == set(), "listed, and there is none"


def test_each_option_of_a_submission_is_listed() -> None:
    page = (ROOT / "docs/api.md").read_text()
    assert [option for option in OPTIONS if f'"{option}":' not in page] == []
