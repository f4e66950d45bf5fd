"""The lines of a log on the screen: folded to its width or not, at its end or where somebody reads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from rich.cells import get_character_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from mgpu.client.job_stream import STDERR
from mgpu.tui.lines import Lines
from mgpu.tui.log_text import Line, LogText
from mgpu.tui.sgr import PLAIN, TRUE_COLOUR, Look

STDERR_MARK = "e"  # before each line that came on stderr
OUR_MARK = "-"  # before what the job did not write
FOUND_MARK = ">"
LEAST_ROOM = 8


class LogLines(Lines):
    """`text` may grow in another thread; `news` takes what has come. It follows while its end is in view."""

    class Moved(Message):
        """It follows now, or does so no more, or another line was found."""

    def __init__(self) -> None:
        super().__init__()
        self.text = LogText()
        self.ranks = 1
        self.following = True
        self.folds = True
        self.needle = ""
        self._lines: list[Line] = []
        self._dropped = 0
        self._ends: list[int] = []  # of each line, the row behind its last
        self._found: Line | None = None

    def put(self, text: LogText) -> None:
        """Another log."""
        self.text, self.following, self._found = text, True, None
        self._lines, self._dropped = [], 0
        self.news()

    def news(self) -> None:
        top = self._place(self.top)
        self._lines, self._dropped = self.text.taken()
        self._count()
        self.put_top(self.bottom if self.following else self._row(*top))
        self.repaint()

    def follow(self) -> None:
        self.following = True
        self.put_top(self.bottom)
        self.post_message(self.Moved())

    def scrolled(self) -> None:
        self.following = self.top >= self.bottom
        self.post_message(self.Moved())

    def fold(self) -> None:
        """To the width, or no more."""
        self.folds = not self.folds
        self._again()

    def know_ranks(self, ranks: int) -> None:
        if ranks != self.ranks:
            self.ranks = ranks
            self._again()

    def _again(self) -> None:
        top = self._place(self.top)
        self._count()
        self.put_top(self.bottom if self.following else self._row(*top))
        self.refresh()

    @property
    def known(self) -> int:
        """Lines that came, also those that are no longer here."""
        return self._dropped + len(self._lines)

    @property
    def first_shown(self) -> int:
        return min(self._place(self.top)[0] + 1, self.known)

    # --- searching ---

    def search(self, needle: str) -> bool:
        """From the line at the bottom of the screen back: what is sought most often came last."""
        self.needle = needle.casefold()
        self.refresh()
        return self.find_next(back=True, start=self._place(self.top + self.page - 1)[0] - self._dropped + 1)

    def find_next(self, back: bool, start: int | None = None) -> bool:
        """Whether there is another line with it; that comes into view."""
        if not self.needle:
            return False
        if start is None:
            start = self._index_of_found(back)
        places = range(min(start, len(self._lines)) - 1, -1, -1) if back else range(start + 1, len(self._lines))
        for place in places:
            if self.needle in self._lines[place].text.casefold():
                self._found = self._lines[place]
                self.following = False
                self.put_top(self._row(place + self._dropped, 0) - self.page // 2)
                self.refresh()
                self.post_message(self.Moved())
                return True
        return False

    def _index_of_found(self, back: bool) -> int:
        for place, line in enumerate(self._lines):
            if line is self._found:
                return place
        return len(self._lines) if back else -1

    # --- which row is what ---

    def line_count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def width_needed(self) -> int:
        if self.folds:
            return self.wide
        longest = max((len(line.text) for line in self._lines), default=0)
        return max(self.wide, longest + self._margin)

    def resized(self) -> None:
        self._again()

    def _count(self) -> None:
        room = self._room
        if self.folds:
            self._ends = list(accumulate(height_of(line, room) for line in self._lines))
        else:
            self._ends = list(range(1, len(self._lines) + 1))
        self.recount()

    def _place(self, row: int) -> tuple[int, int]:
        """Which line that is, counted from the first that ever came, and which of its rows."""
        index = bisect_right(self._ends, row)
        return index + self._dropped, row - (self._ends[index - 1] if index else 0)

    def _row(self, line: int, part: int) -> int:
        index = line - self._dropped
        if index < 0 or not self._ends:
            return 0
        first = self._ends[min(index, len(self._ends)) - 1] if index else 0
        return first + part

    # --- how a row looks ---

    @property
    def _margin(self) -> int:
        return 2 + (len(str(self.ranks - 1)) if self.ranks > 1 else 0)

    @property
    def _room(self) -> int:
        return max(self.wide - self._margin, LEAST_ROOM)

    def strip_of(self, line: int) -> Strip:
        index = bisect_right(self._ends, line)
        first = self._ends[index - 1] if index else 0
        return self._rows(self._lines[index], self._room if self.folds else 0)[line - first]

    def _rows(self, line: Line, room: int) -> list[Strip]:
        """Kept with the line until it looks otherwise. `room` 0: it is not folded."""
        plain = self.tone("")
        text, runs = line.text, line.runs  # it may become another while it is drawn
        key = (room, self._margin, self.needle, line is self._found, plain, text, runs)
        if line.drawn is not None and line.drawn[0] == key:
            kept: list[Strip] = line.drawn[1]
            return kept
        rows = []
        for number, pieces in enumerate(folded(Line(line.source, text, runs), room)):
            segments = [Segment(text, plain + style_of(look) if look is not PLAIN else plain) for text, look in pieces]
            if line.source is None:
                segments = [Segment(text, self.tone("dim")) for text, _ in pieces]
            rows.append(Strip([*self._mark(line, number > 0), *self._with_found(segments)]))
        line.drawn = (key, rows)
        return rows

    def _mark(self, line: Line, goes_on: bool) -> list[Segment]:
        """What tells whose line it is, without colours too."""
        width = self._margin
        if goes_on:
            text = " " * width
        elif line.source is None:
            text = OUR_MARK.ljust(width)
        else:
            kind, rank = line.source
            text = (
                (str(rank) if self.ranks > 1 else "").rjust(width - 2) + (STDERR_MARK if kind == STDERR else " ") + " "
            )
        if line is self._found and not goes_on:
            text = text[:-1] + FOUND_MARK
        return [Segment(text, self.tone("dim" if line is not self._found else "strong"))]

    def _with_found(self, segments: list[Segment]) -> Iterator[Segment]:
        """What is searched for stands out."""
        needle = self.needle
        for segment in segments:
            text, style = segment.text, segment.style
            at = text.casefold().find(needle) if needle else -1
            if at < 0 or len(text.casefold()) != len(text):
                yield segment
                continue
            start = 0
            while at >= 0:
                yield Segment(text[start:at], style)
                start = at + len(needle)
                yield Segment(text[at:start], (style or Style()) + Style(reverse=True, bold=True))
                at = text.casefold().find(needle, start)
            yield Segment(text[start:], style)


def height_of(line: Line, room: int) -> int:
    """How many rows it takes. Asked of ten thousand lines at each picture."""
    text = line.text
    length = len(text)
    if 2 * length <= room:
        return 1
    if text.isascii():
        return -(-length // room)
    if line.height is None or line.height[:2] != (room, text):
        rows = sum(1 for _ in folded(Line(line.source, text, line.runs), room))
        line.height = (room, text, rows)
    return int(line.height[2])


def folded(line: Line, room: int) -> Iterator[list[tuple[str, Look]]]:
    """Its rows of at most `room` columns, each in pieces of one look."""
    row, used = list[tuple[str, Look]](), 0
    for text, look in _pieces(line):
        for part, width in _fitting(text, room - used, room) if room else ((text, 0),):
            if room and row and used + width > room:
                yield row
                row, used = [], 0
            row.append((part, look))
            used += width
    yield row


def _pieces(line: Line) -> Iterator[tuple[str, Look]]:
    at = 0
    for length, look in line.runs:
        yield line.text[at : at + length], look
        at += length
    if at < len(line.text) or not line.text:
        yield line.text[at:], PLAIN


def _fitting(text: str, left: int, room: int) -> Iterator[tuple[str, int]]:
    """In parts that fit, with their widths: the first into what is `left` of a row, if anything does, the others into
    rows of them."""
    if text.isascii():
        if len(text) > left > 0:
            yield text[:left], left
            text = text[left:]
        for at in range(0, len(text), room):
            part = text[at : at + room]
            yield part, len(part)
        return
    ends = list(accumulate(map(_WIDTHS.__getitem__, text)))
    begin, used, limit = 0, 0, left if left > 1 else room
    while begin < len(text):
        end = max(bisect_right(ends, used + limit, begin), begin + 1)
        yield text[begin:end], ends[end - 1] - used
        begin, used, limit = end, ends[end - 1], room


class _Widths(dict[str, int]):
    """Of letters, as they come: ten thousand long lines are folded at once when a log is opened."""

    def __missing__(self, letter: str) -> int:
        width = self[letter] = get_character_cell_size(letter)
        return width


_WIDTHS = _Widths()


@lru_cache(4096)
def style_of(look: Look) -> Style:
    weights = {
        "bold": look.bold, "dim": look.dim, "italic": look.italic, "underline": look.underline, "reverse": look.reverse,
        "strike": look.strike,
    }  # fmt: skip
    wanted = {name: True for name, on in weights.items() if on}
    return Style(color=_colour(look.colour), bgcolor=_colour(look.ground), **wanted)  # type: ignore[arg-type]


def _colour(number: int | None) -> Color | None:
    if number is None:
        return None
    if number < TRUE_COLOUR:
        return Color.from_ansi(number)
    return Color.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255)
