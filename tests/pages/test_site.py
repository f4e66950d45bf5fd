"""The documentation as a site: it builds without a warning, and what is built needs nothing from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# what a browser fetches by itself, by tag
FETCHED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "object": "data",
    "embed": "src", "image": "href", "use": "href",
}  # fmt: skip
LINKS_FETCHED = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload", "manifest"}
IN_STYLES = re.compile(r"(?:@import\s+|url\(\s*)[\"']?(?:https?:)?//")


class Fetched(HTMLParser):
    """What the page has a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in FETCHED:
            self.places.append(given.get(FETCHED[tag]) or "")
        elif tag == "link" and not LINKS_FETCHED.isdisjoint((given.get("rel") or "").split()):
            self.places.append(given.get("href") or "")
        if IN_STYLES.search(given.get("style") or ""):
            self.places.append("https: in a style")


@pytest.mark.timeout(600)
def test_it_builds_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not here: pip install '.[docs]'")
    argv = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(argv, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout) == (0, ""), built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "tutorial.html", "commands.html", "changelog.html"} <= {page.name for page in pages}
    outside = {}
    for page in pages:
        fetched = Fetched()
        fetched.feed(page.read_text(encoding="utf-8"))
        assert fetched.places, page
        outside[page.name] = [place for place in fetched.places if "//" in place]
    assert {name: places for name, places in outside.items() if places} == {}
    jobs = (tmp_path / "site/jobs.html").read_text(encoding="utf-8")
    assert "<code>'A100|H100'</code>" in jobs
    assert "<th></th>" not in jobs and "<td><code>-G 4</code></td>" in jobs
    for style in (tmp_path / "site").rglob("*.css"):
        assert not IN_STYLES.search(style.read_text(encoding="utf-8")), style


def test_what_fetches_from_outside_is_noticed() -> None:
    fetched = Fetched()
    fetched.feed(
        '<link rel="stylesheet" href="https://fonts/x"><a href="https://x"></a><script src="//x/y.js"></script>'
    )
    assert fetched.places == ["https://fonts/x", "//x/y.js"]
    assert IN_STYLES.search("a{background:url('https://x/y.png')}")
