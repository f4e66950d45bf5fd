"""`master.state_dir` of a configuration, without a YAML parser: loading one costs more than the rest of a command.

Only the plain ways to write it are understood, line by line. Whatever could give a line another meaning (a quote or
bracket left open before it, a text block, an anchor, a value that goes on in the next line) is left to the parser.
"""

from __future__ import annotations

import re

_VALUE = r"(?P<value>(?:~/|\.{0,2}/|[A-Za-z0-9])[\w./@+-]*|\"[\w./~@+ -]+\"|'[\w./~@+ -]+')"
_IN_BLOCK = re.compile(rf"(?P<indent> +)state_dir: +{_VALUE}", re.ASCII)
_OTHERS = r"[\w:./~@+ ,-]*"
_IN_BRACES = re.compile(rf"master: +\{{ *(?:{_OTHERS}, *)?state_dir: +{_VALUE} *(?:,{_OTHERS})?\}}", re.ASCII)
_PLAIN_TOP = re.compile(r"[A-Za-z_][\w-]*:(?: .*)?|- .*|---", re.ASCII)
_NULLS = ("null", "Null", "NULL")


def state_dir_in(text: str) -> str | None:
    """As it is written there, "" = it stands in comments alone; None = only the parser can tell."""
    lines = [_without_comment(line) for line in text.split("\n")]
    found = [number for number, line in enumerate(lines) if "state_dir" in line]
    if not found:
        return "" if all(_plain(line) for line in lines) else None
    if sum(line.count("state_dir") for line in lines) != 1 or sum(line.startswith("master:") for line in lines) != 1:
        return None
    number = found[0]
    if not all(_plain(line) for line in lines[: number + 1]):
        return None
    match = _IN_BRACES.fullmatch(lines[number])
    if match is None:
        match = _IN_BLOCK.fullmatch(lines[number])
        if match is None or not _below_master(lines, number, len(match["indent"])):
            return None
    value = match["value"].strip("\"'")
    return None if value in _NULLS else value


def _without_comment(line: str) -> str:
    """A # in quotes is cut too: what is left has an open quote then, and is not plain."""
    return re.split(r"(?:^|(?<= ))#", line, maxsplit=1)[0].rstrip(" ")


def _plain(line: str) -> bool:
    """Nothing in it reaches into the next line, and at the margin there is a key."""
    if line[:1] not in ("", " ") and not _PLAIN_TOP.fullmatch(line):
        return False
    if any(ord(letter) < 32 or letter in "&*!?|>%`\\\x85\u2028\u2029\ufeff" for letter in line):
        return False
    brackets = line.count("{") == line.count("}") and line.count("[") == line.count("]")
    return brackets and line.count('"') % 2 == 0 and line.count("'") % 2 == 0


def _below_master(lines: list[str], number: int, indent: int) -> bool:
    """Whether the key on that line, so far in, is one of `master:`, and its value ends there."""
    following = next((line for line in lines[number + 1 :] if line), "")
    if len(following) - len(following.lstrip(" ")) > indent:
        return False
    for line in reversed(lines[:number]):
        depth = len(line) - len(line.lstrip(" "))
        if line and depth != indent:
            return line == "master:"
        if line and not re.match(r" +[A-Za-z_]\w*: ", line):
            return False
    return False
