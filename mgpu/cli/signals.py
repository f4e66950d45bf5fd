"""Signals as bytes on a pipe, so that one `select` waits for output and for ^C alike."""

from __future__ import annotations

import os

from mgpu.lean.context import contextmanager
from mgpu.lean.typing import TYPE_CHECKING, Any, Iterator, Sequence

if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal  # `signal` makes enumerations of all that

LEAVING: dict[int, str] = {signal.SIGHUP: "hung up", signal.SIGQUIT: "left"}  # the job goes on
ENDING = (signal.SIGINT, signal.SIGTERM, *LEAVING)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)  # to the job
CAUGHT = (*ENDING, *PASSED_ON)
NOTED = (*CAUGHT, signal.SIGWINCH, signal.SIGCONT)


class Raised(Exception):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """While entered, these arrive through `take()`. One that was ignored (nohup) stays so."""

    def __init__(self, numbers: Sequence[int] = NOTED) -> None:
        self._numbers = numbers
        self._raising: Sequence[int] = ()

    def __enter__(self) -> Signals:
        self.fd, self._write_end = os.pipe()
        for end in (self.fd, self._write_end):
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._before: dict[int, Any] = {}
        for number in self._numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._arrive)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._write_end)

    def _arrive(self, number: int, _frame: FrameType | None) -> None:
        """The wake-up pipe holds the number; of those that only wait there, nothing is to be done at this moment."""
        if number in self._raising:
            self._raising = ()  # whoever handles the first is not cut short by a second one
            raise Raised(number)

    @contextmanager
    def raising(self, numbers: Sequence[int] = ENDING) -> Iterator[None]:
        """While entered, the first of these is raised: for what is waited for in one piece. They are caught before and
        after, so none can fall in between."""
        self._raising = numbers
        try:
            yield
        finally:
            self._raising = ()

    def take(self) -> list[int]:
        """The signals since the last call."""
        try:
            return [number for number in os.read(self.fd, 256) if number in self._numbers]
        except BlockingIOError:
            return []
