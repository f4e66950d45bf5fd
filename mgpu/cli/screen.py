"""A terminal that is drawn over in place: no line scrolls, nothing flickers, and it is left as it was."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from contextlib import contextmanager, suppress
from types import FrameType

from mgpu.cli.text import terminal_columns
from mgpu.lean.typing import Any, Callable, Iterator
from mgpu.wording.letters import cut, width_of

# the other screen, where there is one; lines that are too long are not continued; no cursor
ENTER, LEAVE = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[H\x1b[J", "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def can_be_drawn_on() -> bool:
    return os.isatty(1) and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def fitted(line: str, columns: int) -> str:
    """No wider than that. The only control sequences in it are our own colours."""
    if not columns or width_of(_COLOUR.sub("", line)) <= columns:
        return line
    kept, left = "", columns
    for piece in _COLOUR.split(line):
        if _COLOUR.fullmatch(piece):
            kept += piece
        elif left > 0:
            part = cut(piece, left) if width_of(piece) > left else piece
            kept, left = kept + part, left - width_of(part)
    return kept


def framed(lines: list[str], rows: int) -> list[str]:
    """As many as there is room for. What is left out below is counted."""
    return lines if len(lines) <= rows else [*lines[: rows - 1], f"... {len(lines) - rows + 1} more"][:rows]


class Screen:
    """Of our stdout, while entered. A ^Z meanwhile gives it back until we go on."""

    def __init__(self, redraw: Callable[[], None]) -> None:
        self._redraw = redraw
        self._drawn = ""
        self._before: list[Any] | None = None

    @contextmanager
    def taken(self) -> Iterator[Screen]:
        before = signal.getsignal(signal.SIGTSTP)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._stop)
        try:
            self._enter()
            yield self
        finally:
            self._leave()
            signal.signal(signal.SIGTSTP, before)

    def draw(self, lines: list[str]) -> None:
        """Nothing is sent when it looks as it did. What stood there is wiped before a line and not behind it: behind
        one that is as wide as the terminal, the cursor is on its last letter still."""
        size = os.get_terminal_size(1)
        columns, rows = terminal_columns() or size.columns, max(size.lines, 1)
        *shown, last = [fitted(line, columns) for line in framed(lines, rows)] or [""]
        picture = HOME + "".join(f"{END_OF_LINE}{line}\r\n" for line in shown) + END_OF_SCREEN + last + HOME
        if picture != self._drawn:
            self._write(picture)
            self._drawn = picture

    def _enter(self) -> None:
        with suppress(termios.error):  # stdin may be none
            self._before = termios.tcgetattr(0)
            silent = [*self._before]
            silent[3] &= ~termios.ECHO  # what is typed would stand in the picture
            termios.tcsetattr(0, termios.TCSADRAIN, silent)
        self._drawn = ""
        self._write(ENTER)

    def _leave(self) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            self._write(LEAVE)
        if self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            self._before = None

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # here we stand until somebody lets us go on
        signal.signal(number, self._stop)
        self._enter()
        self._redraw()

    @staticmethod
    def _write(text: str) -> None:
        """Past the buffers of stdout, in which a ^Z would find a write that is under way."""
        left = text.encode(sys.stdout.encoding, "replace")
        while left:
            left = left[os.write(1, left) :]
