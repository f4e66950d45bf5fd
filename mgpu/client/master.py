"""A front end's handle on the master: asks, and starts a personal one when none is there."""

from __future__ import annotations

import time

from mgpu import clock
from mgpu.client import http, start
from mgpu.client.locate import Location
from mgpu.lean.context import contextmanager
from mgpu.lean.json import loads
from mgpu.lean.typing import TYPE_CHECKING, Any, Callable, Iterator

if TYPE_CHECKING:
    from typing import TypeVar

    from mgpu.client.websocket import WebSocket

    T = TypeVar("T")

TRIES = 4  # of a request: the master may end, and its successor too, while we wait for the answer
RETURNS_S = 5.0
NAMED = "start it, or leave --master and MGPU_MASTER out to use your own"
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # between tries within a patience that was given


class Master:
    """`start_if_missing` False (status, stop): only ask the one that runs. `patience_s`: for how long one that others
    start is asked again when it does not answer; None = it is not. `kept`: connections that are asked again, on this
    machine."""

    def __init__(
        self,
        location: Location,
        start_if_missing: bool = True,
        patience_s: float | None = None,
        kept: http.Kept | None = None,
    ) -> None:
        self.location = location
        self._start_if_missing = start_if_missing
        self._patience_s = patience_s
        self._kept = kept
        if location.endpoint.dialer is not None:
            location.endpoint.dialer.start_there = start_if_missing
            location.endpoint.dialer.timeout_s = patience_s

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON. Raises MasterError.

        Without a whole answer it is sent again. That is harmless: every wish carries a request_id.
        """
        response = self.raw(method, path, body)
        try:
            return loads(response.body)
        except (ValueError, RecursionError) as error:
            raise http.MasterError("error", f"the master's answer to {path} is not JSON", "see its log") from error

    def raw(self, method: str, path: str, body: Any = None) -> http.Response:
        """The answer as it is, for output. Raises MasterError for an error answer."""
        response = self._answer(method, path, body)
        http.raise_for_error(response)
        return response

    def _answer(self, method: str, path: str, body: Any) -> http.Response:
        return self.insist(lambda: http.request(self.location.endpoint, method, path, body, kept=self._kept))

    def insist(self, attempt: Callable[[], T]) -> T:
        """What may be done more than once, until it is answered. Raises NoMaster."""
        if not self.location.personal:
            return self._patiently(attempt)
        for _ in range(TRIES - 1):
            try:
                return attempt()
            except http.NoMaster:
                self.start()
        return attempt()

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Of a master that others start: what was cut short is asked again, what is refused as long as we were told."""
        tries, began = 0, clock.monotonic()
        while True:
            try:
                return attempt()
            except http.NoMaster as error:
                tries += 1
                pause_s = 0.0 if error.cut else PAUSES_S[min(tries, len(PAUSES_S)) - 1]
                left_s = (self._patience_s or 0.0) - (clock.monotonic() - began)
                again = (error.cut and tries < TRIES) or left_s > pause_s
                if error.lasting or not self._start_if_missing or not again:
                    if not error.cut and self.location.endpoint.dialer is None:
                        error.hint = error.hint or NAMED
                    raise
                time.sleep(pause_s)

    def reach(self) -> None:
        """Once, for what later rides out that the master is away: that it never was there is told. Raises NoMaster."""
        if self.location.endpoint.dialer is not None:
            self.log_in()
        else:
            self._patiently(self.start)

    def log_in(self) -> None:
        """Where that has to be done first: so a ^C at the question for a password is only that, and no wish that may
        have been heard. Raises NoMaster."""
        dialer = self.location.endpoint.dialer
        if dialer is not None:
            self._patiently(lambda: dialer.keep(dialer.connect()))

    @contextmanager
    def woken_by(self, wake_fd: int) -> Iterator[None]:
        """While entered, a new way to the master is waited for only until that is readable: a signal came."""
        dialer = self.location.endpoint.dialer
        if dialer is not None:
            dialer.wake_fd = wake_fd
        try:
            yield
        finally:
            if dialer is not None:
                dialer.wake_fd = -1

    def stream(self, path: str) -> WebSocket:
        """An open stream. Raises MasterError."""
        from mgpu.client.websocket import WebSocket

        return WebSocket(self.location.endpoint, path)

    def revive(self) -> None:
        """One that went away is started again, where that is ours to do. Raises NoMaster."""
        if self._start_if_missing:
            self.start()

    def start(self) -> None:
        """Makes sure that a master answers. Raises NoMaster."""
        if not self._start_if_missing:
            if self._returns():
                return
            what = f"no master runs at {self.location.endpoint.socket_path}"
            hint = http.how_to_start_for_all(self.location.endpoint.uids)
            raise http.NoMaster(what, hint or start.how_to(self.location.state_dir))
        start.ensure(self.location)

    def _returns(self) -> bool:
        """One that lives is there again in a moment: while it takes up another configuration it has no socket."""
        from mgpu.client.lock import is_held

        deadline = clock.monotonic() + RETURNS_S
        while self.location.state_dir and is_held(self.location.state_dir) and clock.monotonic() < deadline:
            if start.answers(self.location):
                return True
            time.sleep(start.POLL_S)
        return False
