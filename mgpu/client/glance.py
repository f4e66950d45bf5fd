"""`master.state_dir` of a configuration, without a YAML parser: loading one costs more than the rest of a command.

Only the plain ways to write it are understood, line by line. Whatever could give a line another meaning (a quote or
bracket left open before it, a text block, an anchor, a value that goes on in the next line) is left to the parser.
"""

from __future__ import annotations

_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_IN_PATH = _WORD + "./@+-"
_IN_QUOTES = _IN_PATH + "~ "
_OTHERS = _IN_QUOTES + ":,"
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
    value = _in_braces(lines[number]) or _in_block(lines, number)
    return None if value in _NULLS else value


def _in_braces(line: str) -> str | None:
    """The value in `master: {..., state_dir: VALUE, ...}`; None = it is not written so."""
    key, _, rest = line.partition(" ")
    rest = rest.strip(" ")
    if key != "master:" or rest[:1] != "{" or rest[-1:] != "}":
        return None
    before, found, rest = rest[1:-1].partition("state_dir: ")
    value, _, after = rest.partition(",")
    before = before.rstrip(" ")
    if not found or before[-1:] not in ("", ",") or not _only(before + after, _OTHERS):
        return None
    return _value(value.strip(" "))


def _in_block(lines: list[str], number: int) -> str | None:
    """The value of a line of its own below `master:`; None = it is not written so."""
    line = lines[number].lstrip(" ")
    indent = len(lines[number]) - len(line)
    key, _, rest = line.partition(" ")
    if key != "state_dir:" or not indent or not _below_master(lines, number, indent):
        return None
    return _value(rest.lstrip(" "))


def _value(text: str) -> str | None:
    """None = it is no plain path."""
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        return inner if text[0] == text[-1] and inner and _only(inner, _IN_QUOTES) else None
    if text.startswith("~/"):
        return text if _only(text[2:], _IN_PATH) else None
    begins = text.startswith(("/", "./", "../")) or text[:1].isalnum()
    return text if begins and _only(text, _IN_PATH) else None


def _only(text: str, letters: str) -> bool:
    return not text.strip(letters)


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def _without_comment(line: str) -> str:
    """A # in quotes is cut too: what is left has an open quote then, and is not plain."""
    return "" if line.startswith("#") else line.partition(" #")[0].rstrip(" ")


def _plain(line: str) -> bool:
    """Nothing in it reaches into the next line, and at the margin there is a key."""
    if line[:1] not in ("", " ", "-"):
        name, colon, rest = line.partition(":")
        if not colon or rest[:1] not in ("", " ") or not _is_name(name.replace("-", "_")):
            return False
    elif line[:1] == "-" and line != "---" and not line.startswith("- "):
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
        name, _, rest = line.strip(" ").partition(":")
        if line and (not depth or not _is_name(name) or rest[:1] != " "):
            return False
    return False
