"""Signals as bytes on a pipe, so that one `select` waits for output and for ^C alike."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from mgpu.lean_typing import Any

LEAVING: dict[int, str] = {signal.SIGHUP: "hung up", signal.SIGQUIT: "left"}  # the job goes on
ENDING = (signal.SIGINT, signal.SIGTERM, *LEAVING)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)  # to the job
CAUGHT = (*ENDING, *PASSED_ON)
NOTED = (*CAUGHT, signal.SIGWINCH, signal.SIGCONT)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The wake-up pipe holds the number; nothing else is to be done at this moment."""


class Signals:
    """While entered, these arrive through `take()`. One that was ignored (nohup) stays so."""

    def __init__(self, numbers: Sequence[int] = NOTED) -> None:
        self._numbers = numbers

    def __enter__(self) -> Signals:
        self.fd, self._write_end = os.pipe()
        for end in (self.fd, self._write_end):
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._before: dict[int, Any] = {}
        for number in self._numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _noted)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._write_end)

    def take(self) -> list[int]:
        """The signals since the last call."""
        try:
            return [number for number in os.read(self.fd, 256) if number in self._numbers]
        except BlockingIOError:
            return []


class Raised(Exception):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def raising() -> Iterator[None]:
    """While entered, these signals raise Raised: for what is waited for in one piece."""

    def arrive(number: int, _frame: FrameType | None) -> None:
        raise Raised(number)

    before = {number: signal.getsignal(number) for number in CAUGHT}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, arrive)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
