"""The terminal, which is given back as it was found, whatever ends the monitor: a key, a signal, an error, or that the
terminal itself is gone."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import threading
from collections.abc import Sequence
from types import FrameType
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
GONE = 128 + signal.SIGHUP
LOOK_S = 1.0
LAST_RESORT_S = 3.0  # for an end in order; a terminal that takes nothing any more keeps us no longer
# Textual's own way out, for where that cannot be gone: wrapping, paste, focus, mouse, keyboard, screen, cursor.
WAY_OUT = b"".join(
    [
        *(b"\x1b[?7h", b"\x1b[?2004l", b"\x1b[?2048l", b"\x1b[?1004l"),
        *(b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?1015l", b"\x1b[?1006l", b"\x1b[?1016l"),
        *(b"\x1b[<u", b"\x1b[?1049l", b"\x1b[?25h"),
    ]
)


class Unbroken:
    """A file to write to, also when nobody takes it any more."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.gone = False

    def write(self, text: str) -> None:
        if not self.gone:
            try:
                self._file.write(text)
            except (OSError, ValueError):
                self.gone = True

    def flush(self) -> None:
        if not self.gone:
            try:
                self._file.flush()
            except (OSError, ValueError):
                self.gone = True

    def fileno(self) -> int:
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's own, which leaves the terminal as it is when a signal comes, and runs on without one."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: Any = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._own_loop = self._loop
        self._file: Any = Unbroken(sys.__stderr__)  # type: ignore[arg-type]
        self._found: list[Any] = termios.tcgetattr(self.fileno)
        self._own_loop.call_later(LOOK_S, self._look)
        self._handlers: dict[int, Any] = {}
        self._active = False
        self._was_away = False  # somebody else had the terminal meanwhile: nothing of ours stands there

    # --- in and out ---

    def _get_terminal_size(self) -> tuple[int, int]:
        """Of a terminal that tells none, what Rich takes it for: with two sizes Textual would lay all out for ever."""
        width, height = shutil.get_terminal_size((80, 25))
        return width, height

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._active = True
        for number in ENDING:
            before = signal.signal(number, self._asked_to_end)
            self._handlers.setdefault(number, before)
        if self._was_away:
            self._app.call_later(self._app.refresh, layout=True)
        self._was_away = True

    def stop_application_mode(self) -> None:
        super().stop_application_mode()
        self._active = False

    def close(self) -> None:
        super().close()
        self._writer_thread = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def write(self, data: str) -> None:
        if self._writer_thread is not None and not self._file.gone:
            super().write(data)

    # --- signals ---

    def _asked_to_end(self, number: int, _frame: FrameType | None) -> None:
        self._end(128 + number)

    def _end(self, code: int) -> None:
        """From any thread, and in a handler of a signal too."""
        threading.Thread(target=self._insist, args=(code,), name="mgpu-top-end", daemon=True).start()
        self._own_loop.call_soon_threadsafe(self._leave, code)

    def _leave(self, code: int) -> None:
        self._app.call_later(self._app.exit, None, code)

    def _insist(self, code: int) -> None:
        """Where the application cannot end: most often as it waits for the terminal to take something."""
        threading.Event().wait(LAST_RESORT_S)
        if self._active:
            give_back(self.fileno, self._found)
        os._exit(code)

    def _sigcont_application(self, *_: object) -> None:
        """Also after a stop that we were not told of: then the shell has had the terminal meanwhile."""
        if self._active:
            self._must_signal_resume = True
            self.suspend_application_mode()
        super()._sigcont_application()

    # --- what is typed ---

    def _look(self) -> None:
        """Of a terminal that was hung up Textual reads nothing for ever, as fast as it can."""
        if self._active and hung_up(self.fileno):
            self._end(GONE)
        else:
            self._own_loop.call_later(LOOK_S, self._look)

    def _run_input_thread(self) -> None:
        """A terminal that is gone is no error to tell of, and neither are bytes that are no UTF-8, as terminals of
        another encoding and pasted files have them: those are no keys. All others go Textual's way."""
        reading = self.run_input_thread

        def read() -> None:
            while True:
                try:
                    return reading()
                except UnicodeDecodeError:
                    continue
                except OSError:  # EIO: nobody has the other end any more
                    return self._end(GONE)

        self.run_input_thread = read  # type: ignore[method-assign]
        try:
            super()._run_input_thread()
        finally:
            del self.run_input_thread


def give_back(fd: int, attributes: Sequence[Any]) -> None:
    """Without waiting for anything."""
    try:
        termios.tcflush(fd, termios.TCOFLUSH)
        termios.tcsetattr(fd, termios.TCSANOW, list(attributes))
        if select.select([], [fd], [], 0)[1]:
            os.write(fd, WAY_OUT)
    except (OSError, termios.error):
        return


def hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
