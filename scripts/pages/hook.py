"""What mkdocs does beyond docs/: README.md and its like become pages, decisions get a list, and links that lead out of
docs/ lead to those pages, or, to code, are plain names: the site needs nothing beside it. Tables lose what other
readers of Markdown need."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
BROUGHT_IN = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-reports.md",
}
CODE = re.compile(r"`[^`]+`")
NO_HEADS = re.compile(r"<thead>\s*<tr>\s*(?:<th[^>]*></th>\s*)+</tr>\s*</thead>")
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    for name, page in BROUGHT_IN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=with_links(text, "")))
    files.append(File.generated(config, "decisions/index.md", content=decisions()))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    path = page.file.src_uri
    made = path in BROUGHT_IN.values() or path == "decisions/index.md"
    return with_bars(markdown if made else with_links(markdown, posixpath.dirname(f"docs/{path}")))


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:
    """A table without heads has to have a row for them in Markdown."""
    return NO_HEADS.sub("", html)


def with_bars(markdown: str) -> str:
    """In tables a bar within code has a backslash before it, which would be shown here."""
    lines = markdown.split("\n")
    return "\n".join(CODE.sub(_plain_bar, line) if line.startswith("|") else line for line in lines)


def _plain_bar(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def decisions() -> str:
    """A list, the newest last."""
    lines = ["# Decisions", "", "What was decided, when and why, a page each.", ""]
    for path in sorted((ROOT / "docs/decisions").glob("20*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- {path.name[:10]} [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def with_links(text: str, folder: str) -> str:
    """Of a file in that folder of the repository, as the site has them."""
    return LINK.sub(lambda link: _mended(link, folder), text)


def _mended(link: re.Match[str], folder: str) -> str:
    target, hash_mark, anchor = link["target"].partition("#")
    if not target or "://" in target:
        return link[0]
    place = posixpath.normpath(posixpath.join(folder, target))
    if place in BROUGHT_IN:
        place = f"docs/{BROUGHT_IN[place]}"
    if not place.startswith("docs/"):
        return link["text"]
    to = posixpath.relpath(place, folder or ".") if folder else place.removeprefix("docs/")
    return f"{link['picture']}[{link['text']}]({to}{hash_mark}{anchor})"
