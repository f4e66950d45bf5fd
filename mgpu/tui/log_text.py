"""What a job wrote, as the lines that a terminal would show, from bytes in pieces of any size.

Understood are line ends, carriage returns (progress bars show their last state), backspace, tabs, colours, and the few
movements with which programs keep several progress bars up to date. Nothing else is ever passed on: sequences that
print nothing are dropped, whatever could still act on a terminal or deceive its reader is shown as an escape.

Not a terminal emulator (pyte, say): that has a screen of so many columns, and not ten thousand lines of any length.
Rich's AnsiDecoder knows no carriage return across pieces, and keeps hyperlinks.
"""

from __future__ import annotations

import codecs
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from mgpu.tui.sgr import PLAIN, Look, changed
from mgpu.wording.letters import clean, width_of

MOST_LINES = 10_000
LONGEST_LINE = 1_000  # letters; the rest goes on in a line of its own
IN_REACH = 100  # lines back that can still be written over, about a terminal's height
TAB = 8
MOMENT_S = 0.001

Runs = tuple[tuple[int, Look], ...]  # so many letters look so; beyond the last of them they are plain
Source = tuple[int, int]  # stream and rank

SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<csi>[0-?]{0,64})(?P<between>[ -/]{0,8})(?P<final>[@-~])|(?P<string>[\]PX^_])|[ -/]{0,8}[0-Z\\`-~])"
)
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[ -/]{0,8})\Z")
STRING_END = re.compile("[\x07\x18\x1a\n\x1b]")  # a line end too: one that nobody closes does not swallow the rest
PIECE = re.compile("[^\x1b\n\r\b\t]+|[\n\r\b\t]|\x1b")
SILENT = "\0\a\x0e\x0f\x7f\u00ad\u200b\u200c\u200d\u2060\ufeff"  # they print nothing
SPACES = "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f"
SHOWN = {**dict.fromkeys(map(ord, SILENT)), **dict.fromkeys(map(ord, SPACES), " "), 0x3000: "  "}


class Line:
    """`source`: whose it is, None = a word of ours. `drawn` and `height` are what a reader knows of how it looks."""

    __slots__ = ("drawn", "height", "runs", "source", "text")

    def __init__(self, source: Source | None, text: str = "", runs: Runs = ()) -> None:
        self.source = source
        self.text = text
        self.runs = runs
        self.drawn: Any = None
        self.height: Any = None


class LogText:
    """The last lines of all streams of a job, in the order in which they were begun. One thread may feed it while
    another takes what there is."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self.lines: list[Line] = []
        self.dropped = 0  # before the first of `lines`
        self._lock = threading.Lock()
        self._awaited = False  # somebody waits for the lock, which who feeds would have again before that one wakes
        self._most = most
        self._streams: dict[Source, Assembler] = {}

    def taken(self) -> tuple[list[Line], int]:
        """The lines, and how many were dropped before them. A line may still change."""
        self._awaited = True
        with self._lock:
            self._awaited = False
            return self.lines.copy(), self.dropped

    def feed(self, source: Source, data: bytes) -> None:
        if self._awaited:
            time.sleep(MOMENT_S)
        with self._lock:
            stream = self._streams.get(source)
            if stream is None:
                stream = self._streams[source] = Assembler(source, self.lines.append)
            stream.feed(data)
            self._trim()

    def say(self, text: str) -> None:
        """A word of ours between what was written."""
        with self._lock:
            self.lines.append(Line(None, visible(text)))
            self._trim()

    def begin_anew(self) -> None:
        """Another attempt writes: nothing of it goes on in a line that is there."""
        with self._lock:
            self._streams.clear()

    def missed(self, source: Source) -> None:
        """Something is left out here; what comes begins with a line of its own."""
        with self._lock:
            self._streams.pop(source, None)

    def _trim(self) -> None:
        over = len(self.lines) - self._most
        if over > 0:
            del self.lines[:over]
            self.dropped += over


class Assembler:
    """Of one stream. A line is `begun` when its first letter comes, and may change as long as it is in reach."""

    def __init__(self, source: Source, begun: Callable[[Line], None]) -> None:
        self._source = source
        self._begun = begun
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._carried = ""  # a sequence whose end has not come
        self._in_string = False
        self._look = PLAIN
        self._rows: list[Line] = []  # those in reach
        self._row = 0  # of the cursor; one behind them: the next line is not begun
        self._column = 0  # in letters

    def feed(self, data: bytes) -> None:
        text = self._carried + self._decode(data)
        self._carried = ""
        if not text.isascii():  # how a sign is drawn, on whose width no two terminals agree
            text = text.replace("\ufe0e", "").replace("\ufe0f", "")
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
        if self._in_string or "\x1b" in text:
            self._feed_sequences(text)
        else:
            self._feed_plain(text)

    # --- without sequences: by whole lines, as quick as may be ---

    def _feed_plain(self, text: str) -> None:
        first, *others = text.split("\n")
        self._write_line(first)
        if not others:
            return
        *whole, last = others
        self._line_end()
        plain = self._row == len(self._rows) and self._look is PLAIN and "\b" not in text
        texts = [each for each in map(settled, whole) if each is not None] if plain else []
        if texts and len(texts) == len(whole) and max(map(len, texts)) <= LONGEST_LINE:
            lines = [Line(self._source, each) for each in texts]
            for line in lines:
                self._begun(line)
            self._rows = [*self._rows, *lines][-IN_REACH:]
            self._row = len(self._rows)
        else:
            for each in whole:
                self._write_line(each)
                self._line_end()
        self._write_line(last)

    def _write_line(self, text: str) -> None:
        """No line end is in it."""
        if text.isprintable():
            if text:
                self._write(text)
            return
        for piece in PIECE.findall(text):
            self._put(piece)

    # --- with sequences ---

    def _feed_sequences(self, text: str) -> None:
        at, end = 0, len(text)
        while at < end:
            if self._in_string:
                at = self._skip_string(text, at)
                continue
            escape = text.find("\x1b", at)
            if escape != at:
                stop = end if escape < 0 else escape
                for piece in PIECE.findall(text, at, stop):
                    self._put(piece)
                at = stop
                continue
            found = SEQUENCE.match(text, at)
            if found:
                self._obey(found)
                at = found.end()
            elif UNFINISHED.match(text, at):
                self._carried = text[at:]
                return
            else:
                self._write(visible("\x1b"))
                at += 1

    def _skip_string(self, text: str, at: int) -> int:
        """Past what is in a string for the terminal (its title, the clipboard, a link, a picture)."""
        found = STRING_END.search(text, at)
        if not found:
            return len(text)
        self._in_string = False
        return found.start() if found[0] in "\n\x1b" else found.end()  # the \ of ESC \ goes as a sequence of its own

    def _obey(self, found: re.Match[str]) -> None:
        if found["string"]:
            self._in_string = True
            return
        final, words = found["final"], found["csi"]
        if not final or found["between"]:
            return
        if final == "m":
            look = changed(self._look, words)
            self._look = PLAIN if look == PLAIN else look
            return
        if words and not (words.isascii() and words.isdigit() and len(words) < 6):
            return
        self._move(final, int(words) if words else None)

    def _move(self, final: str, number: int | None) -> None:
        step = max(number or 1, 1)
        if final in "AF":
            self._row = max(self._row - step, 0)
        elif final in "BE":
            self._row = min(self._row + step, max(len(self._rows) - 1, self._row))
        elif final == "C":
            self._column = min(self._column + step, LONGEST_LINE - 1)
        elif final == "D":
            self._column = max(self._column - step, 0)
        elif final == "G":
            self._column = min(step, LONGEST_LINE) - 1
        elif final == "K":
            self._erase(number or 0)
        elif final == "J" and not number:
            self._erase(0)
            for line in self._rows[self._row + 1 :]:
                change(line, "", ())
        if final in "EF":
            self._column = 0

    def _erase(self, which: int) -> None:
        """The rest of the line (0), what stands before (1), all of it (2)."""
        if self._row >= len(self._rows):
            return
        line, at = self._rows[self._row], self._column
        if which == 2:
            change(line, "", ())
        elif which == 0 and at < len(line.text):
            change(line, line.text[:at], shortened(line.runs, at))
        elif which == 1:
            blank = min(at + 1, len(line.text))
            change(line, " " * blank + line.text[blank:], spliced(line.runs, 0, blank, PLAIN))

    # --- the cursor ---

    def _put(self, piece: str) -> None:
        if piece == "\n":
            self._line_end()
        elif piece == "\r":
            self._column = 0
        elif piece == "\b":
            self._column = max(self._column - 1, 0)
        elif piece == "\t":
            self._tab()
        elif piece.isprintable():
            self._write(piece)
        else:
            self._write(visible(piece))

    def _tab(self) -> None:
        text = self._rows[self._row].text if self._row < len(self._rows) else ""
        left = TAB - width_of(text[: self._column]) % TAB
        if self._column + left <= len(text):
            self._column += left
        else:
            self._write(" " * left)

    def _line_end(self) -> None:
        if self._row >= len(self._rows):
            self._begin()
        self._row += 1
        self._column = 0

    def _begin(self) -> Line:
        line = Line(self._source)
        self._rows.append(line)
        self._begun(line)
        if len(self._rows) > IN_REACH:
            del self._rows[0]
            self._row -= 1
        return line

    def _write(self, text: str) -> None:
        """Printable letters at the cursor, over what stands there."""
        while text:
            room = LONGEST_LINE - self._column
            if room <= 0:
                self._line_end()
                continue
            self._write_at(text[:room])
            text = text[room:]

    def _write_at(self, text: str) -> None:
        line = self._rows[self._row] if self._row < len(self._rows) else self._begin()
        at, old = self._column, line.text
        self._column = end = at + len(text)
        if at == len(old):
            new = old + text
        elif at > len(old):
            new = old.ljust(at) + text
        else:
            new = old[:at] + text + old[end:]
        runs = line.runs
        if runs or self._look is not PLAIN:
            runs = spliced(runs, at, len(text), self._look)
        change(line, new, runs)


def visible(text: str) -> str:
    """Its letters without those that print nothing; what might act on a terminal is shown as an escape."""
    return clean(text.translate(SHOWN))


def settled(text: str) -> str | None:
    """A whole line without sequences and backspaces, as it is in the end. None: that takes a closer look."""
    if text.isprintable():
        return text
    if "\t" in text:
        expanded = text.expandtabs(TAB)
        return expanded if expanded.isascii() and expanded.isprintable() else None
    shown = ""
    for piece in map(visible, text.split("\r")):
        shown = piece + shown[len(piece) :]
    return shown


def change(line: Line, text: str, runs: Runs) -> None:
    line.text = text
    line.runs = runs


def shortened(runs: Runs, letters: int) -> Runs:
    kept: list[tuple[int, Look]] = []
    for length, look in runs:
        if letters <= 0:
            break
        kept.append((min(length, letters), look))
        letters -= length
    return tuple(kept)


def spliced(runs: Runs, at: int, letters: int, look: Look) -> Runs:
    """With those letters looking so; the others look as before."""
    gap = at - sum(length for length, _ in runs)
    if gap == 0 and runs and runs[-1][1] != look:  # most often something is added
        return (*runs, (letters, look))
    before = shortened(runs, at) if gap < 0 else runs
    gap = max(gap, 0)
    after: list[tuple[int, Look]] = []
    over = at + letters
    for length, old in runs:
        if over >= length:
            over -= length
            continue
        after.append((length - over, old))
        over = 0
    pieces = [*before, (gap, PLAIN), (letters, look), *after]
    merged: list[tuple[int, Look]] = []
    for length, each in pieces:
        if merged and merged[-1][1] == each:
            merged[-1] = (merged[-1][0] + length, each)
        elif length:
            merged.append((length, each))
    return tuple(merged)
