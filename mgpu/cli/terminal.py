"""Our terminal while a job has one of its own: each key goes there, and what comes from there is shown as it is."""

from __future__ import annotations

import os
import termios

from mgpu.cli.leave import STOPPED_FOLLOWING, Leave
from mgpu.cli.text import say
from mgpu.client.stdin import Stdin
from mgpu.lean.context import suppress
from mgpu.lean.typing import Callable

ESCAPE_HELP = "at the beginning of a line: ~. leaves, the job goes on; ~~ is a ~; ~? tells this"


class Keys:
    """What is typed, but for our own words: `~.` and the like at the beginning of a line, as ssh has them."""

    def __init__(self) -> None:
        self.explain: Callable[[], None] = lambda: None  # what `~?` does
        self._at_start = True
        self._escaped = False

    def __call__(self, typed: bytes) -> bytes:
        """What goes to the job. Raises Leave."""
        passed = bytearray()
        for key in typed:
            if self._escaped:
                self._escaped = False
                if key == ord("."):
                    raise Leave(STOPPED_FOLLOWING, "left the terminal")
                if key == ord("?"):
                    self.explain()
                    continue
                passed.append(ord("~"))
                if key == ord("~"):
                    self._at_start = False
                    continue
            elif self._at_start and key == ord("~"):
                self._escaped = True
                continue
            passed.append(key)
            self._at_start = key in b"\r\n"
        return bytes(passed)


class Terminal:
    """`enter` gives its keys away; `leave` makes it what it was, however often it is called. `stdin` is where they go.
    `size` (ROWSxCOLUMNS) is that of the job's, "" = whatever that is, all is to be drawn anew."""

    def __init__(self, descriptor: int, size: str) -> None:
        keys = Keys()
        keys.explain = self._explain
        self.stdin = Stdin(descriptor, keys)
        self._descriptor = descriptor
        self._size = size
        self._before: list[int | list[bytes | int]] | None = None

    def enter(self) -> None:
        if self._before is None:
            self._before = termios.tcgetattr(self._descriptor)
            self._set(raw(self._before))
            self.resized()

    def leave(self) -> None:
        if self._before is not None:
            self._set(self._before)
            self._before = None

    def again(self) -> None:
        """After somebody stopped us: the shell has set the terminal to its own ways."""
        if self._before is not None:
            self._set(raw(self._before))
            self.resized()

    def resized(self) -> None:
        with suppress(OSError):
            size = os.get_terminal_size(self._descriptor)
            if size.lines and size.columns and (told := f"{size.lines}x{size.columns}") != self._size:
                self._size = told
                self.stdin.resize(size.lines, size.columns)

    def tell(self, text: str) -> None:
        """Words of our own."""
        if self._before is None:
            say(text)
            return
        if os.isatty(2):
            os.write(2, b"\r")
        self._set(self._before)
        try:
            say(text)
        finally:
            self._set(raw(self._before))

    def _explain(self) -> None:
        self.tell(ESCAPE_HELP)

    def _set(self, attributes: list[int | list[bytes | int]]) -> None:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, attributes)


def raw(attributes: list[int | list[bytes | int]]) -> list[int | list[bytes | int]]:
    """As cfmakeraw(3) does it."""
    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = attributes
    assert isinstance(iflag, int) and isinstance(oflag, int) and isinstance(cflag, int) and isinstance(lflag, int)
    iflag &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR
        | termios.ICRNL | termios.IXON
    )  # fmt: skip
    oflag &= ~termios.OPOST
    lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    assert isinstance(cc, list)
    now = list(cc)
    now[termios.VMIN], now[termios.VTIME] = 1, 0
    return [iflag, oflag, cflag, lflag, ispeed, ospeed, now]
