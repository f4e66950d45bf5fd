"""The words of a line that bash is asked to complete, and words written so that bash reads them as they are.

bash gives the line as it was typed. It is read here and not there, where to take quotes off a word means to have the
shell run what stands in it.
"""

from __future__ import annotations

from mgpu.lean.typing import NamedTuple

BLANK = " \t\n"
OPERATORS = "|&;()<>"
# bash reads all others in a word as themselves, wherever they stand
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/:=@%+^")
SPECIAL_IN_DOUBLE = frozenset('"\\$`')


class Typed(NamedTuple):
    """`words`: those before the cursor's own; `current`: that, without its quotes; `raw`: as it was typed; `quote`:
    the one that is still open in it, and `unquoted` how much of `current` stands before that."""

    words: tuple[str, ...]
    current: str
    raw: str
    quote: str = ""
    unquoted: int = 0


class _Reader:
    def __init__(self) -> None:
        self.words: list[str] = []
        self.word = ""
        self.start = -1  # of the word in the line; -1 = none has begun
        self.quote = ""
        self.unquoted = 0
        self.into_file = False  # the word is where output goes, and no word of the command

    def end_word(self) -> None:
        if self.start >= 0 and not self.into_file:
            self.words.append(self.word)
        if self.start >= 0:
            self.into_file = False
        self.word, self.start = "", -1

    def operator(self, letter: str) -> None:
        self.end_word()
        if letter in "<>":
            self.into_file = True
        else:
            self.words = []


def read(line: str) -> Typed:
    """Of a line up to the cursor."""
    reader = _Reader()
    place = 0
    while place < len(line):
        letter = line[place]
        if not reader.quote and letter in BLANK:
            reader.end_word()
        elif not reader.quote and letter in OPERATORS:
            reader.operator(letter)
        else:
            if reader.start < 0:
                reader.start = place
            place += _take(reader, line, place)
        place += 1
    words = reader.words
    while words and _is_assignment(words[0]):
        words = words[1:]
    raw = line[reader.start :] if reader.start >= 0 else ""
    return Typed(tuple(words), reader.word, raw, reader.quote, reader.unquoted)


def _take(reader: _Reader, line: str, place: int) -> int:
    """One letter of a word; how many more it took."""
    letter, following = line[place], line[place + 1 : place + 2]
    if reader.quote:
        if letter == reader.quote:
            reader.quote = ""
        elif letter == "\\" and reader.quote == '"' and following and following in SPECIAL_IN_DOUBLE:
            reader.word += following
            return 1
        else:
            reader.word += letter
    elif letter in "'\"":
        reader.quote, reader.unquoted = letter, len(reader.word)
    elif letter == "\\":
        reader.word += following
        return 1
    else:
        reader.word += letter
    return 0


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def written(candidate: str, typed: Typed, replaced: str) -> str:
    """What bash is to put in the place of `replaced`, the end of the word as it was typed, so that the word becomes
    `candidate`. In an open quote, that is what stands behind the quote; bash closes it."""
    if typed.quote:
        rest = candidate[typed.unquoted :]
        return rest.replace("'", "'\\''") if typed.quote == "'" else quoted(rest, SPECIAL_IN_DOUBLE)
    kept = typed.raw[: len(typed.raw) - len(replaced)] if typed.raw.endswith(replaced) else ""
    rest = candidate[len(read(kept).current) :]
    return "".join(letter if letter in SAFE or not letter.isascii() else f"\\{letter}" for letter in rest)


def quoted(text: str, special: frozenset[str]) -> str:
    return "".join(f"\\{letter}" if letter in special else letter for letter in text)
