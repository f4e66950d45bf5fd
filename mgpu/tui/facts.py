"""Facts about one thing, laid out for any width: a word, and beside it what there is to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import chop_cells

from mgpu.tui.cells import Cell, line_of, shown, width_of
from mgpu.tui.sparkline import sparkline

WORDS_WIDTH = 12
NARROW = 36  # below it the words stand above what they are about
INDENT = 2
LONGEST = 4_000  # letters of one fact


class Fact(NamedTuple):
    """`word` "" = more of the one before. `values`: drawn as a line of bars before the text, 0 to 100 or None."""

    word: str
    text: str
    tone: str = ""
    values: Sequence[float | None] = ()


def laid_out(facts: Iterable[Fact], width: int, plain: bool = False) -> list[list[Cell]]:
    """Lines of exactly that width. `plain`: with letters alone that every terminal has."""
    return [line_of(cells, width) for fact in facts for cells in _lines(fact, width, plain)]


def _lines(fact: Fact, width: int, plain: bool) -> list[list[Cell]]:
    narrow = width < NARROW
    indent = INDENT if narrow else WORDS_WIDTH + 1
    room = max(width - indent, 1)
    texts = folded(fact.text, room) if fact.text else []
    tones = [fact.tone] * len(texts)
    if fact.values:
        texts.insert(0, sparkline(fact.values, room, plain))
        tones.insert(0, "ours")
    lines = [[Cell(" " * indent), Cell(text, tone)] for text, tone in zip(texts, tones, strict=True)]
    word = shown(fact.word)
    if not word:
        return lines
    if narrow or width_of(word) > WORDS_WIDTH:
        return [[Cell(piece, "dim")] for piece in folded(word, width)] + lines
    head = Cell(word + " " * (indent - width_of(word)), "dim")
    return [[head, *lines[0][1:]], *lines[1:]] if lines else [[head]]


def folded(text: str, width: int) -> list[str]:
    """In lines of at most that many columns, broken between words where that can be."""
    lines, line, used = list[str](), "", 0
    for piece in _pieces(shown(text[:LONGEST]), width):
        needed = width_of(piece)
        if line and used + 1 + needed <= width:
            line, used = f"{line} {piece}", used + 1 + needed
        else:
            lines += [line] if line else []
            line, used = piece, needed
    return [*lines, line] if line or not lines else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Its words, each in as many pieces as it takes."""
    for word in text.split(" "):
        yield from chop_cells(word, max(width, 2)) if width_of(word) > width else (word,)
