"""What `.mgpuignore` names: the patterns of a .gitignore, in one file at the top of the tree."""

from __future__ import annotations

import re

from mgpu.lean.typing import Any, NamedTuple


class _Rule(NamedTuple):
    pattern: Any  # re.Pattern
    folders_only: bool
    keeps: bool


class Ignore:
    """Of the file's text. A line is a pattern; `#` begins a comment, `!` takes back what a line before it named, a `/`
    at the end means folders alone, one elsewhere binds it to the top. `*`, `?` and `[a-z]` stop at a `/`, `**` does
    not. What lies in a folder that is named cannot be taken back."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def names(self, path: str, is_folder: bool) -> bool:
        """`path` from the top, without a `/` at its ends. The last rule that fits counts."""
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return not rule.keeps
        return False


def _rule(line: str) -> _Rule | None:
    line = line.rstrip("\r\n")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    pattern = line[1:] if keeps else line
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/") if folders_only else pattern
    if not pattern:
        return None
    bound = "/" in pattern
    text = _regex(pattern.removeprefix("/"))
    return _Rule(re.compile(text if bound else f"(?:.*/)?{text}", re.DOTALL), folders_only, keeps)


def _regex(pattern: str) -> str:
    text, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        begins_word = at == 0 or pattern[at - 1] == "/"
        if begins_word and pattern.startswith("**/", at):
            text, at = f"{text}(?:.*/)?", at + 3
        elif begins_word and pattern[at:] == "**":
            text, at = f"{text}.+", at + 2
        elif letter == "*":
            text, at = f"{text}[^/]*", at + 1
        elif letter == "?":
            text, at = f"{text}[^/]", at + 1
        elif letter == "[" and (end := pattern.find("]", at + 2 + (pattern[at + 1 : at + 2] in "!^"))) > 0:
            text, at = text + _letters(pattern[at + 1 : end]), end + 1
        elif letter == "\\" and at + 1 < len(pattern):
            text, at = text + re.escape(pattern[at + 1]), at + 2
        else:
            text, at = text + re.escape(letter), at + 1
    return text


def _letters(inside: str) -> str:
    """A set of letters, as in [a-z] and [!0-9]; never a `/`."""
    other_than = inside.startswith(("!", "^"))
    inside = inside[1:] if other_than else inside
    # a range that runs backwards has no letter, here as there
    backwards = any(
        inside[at] == "-" and 0 < at < len(inside) - 1 and inside[at - 1] > inside[at + 1] for at in range(len(inside))
    )
    if backwards:
        return "[^/]" if other_than else "(?!)"
    escaped = "".join(f"\\{letter}" if letter in "\\[]^&~|" else letter for letter in inside)
    return f"(?!/)[{'^' if other_than else ''}{escaped}]"
