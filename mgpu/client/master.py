"""A front end's handle on the master: asks, and starts a personal one when none is there."""

from __future__ import annotations

import json

from mgpu.client import http, start
from mgpu.client.locate import Location
from mgpu.client.websocket import WebSocket
from mgpu.lean_typing import Any

TRIES = 4  # of a request: the master may end, and its successor too, while we wait for the answer


class Master:
    """`start_if_missing` False (status, stop): only ask the one that runs."""

    def __init__(self, location: Location, start_if_missing: bool = True) -> None:
        self.location = location
        self._start_if_missing = start_if_missing

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON. Raises MasterError.

        Without a whole answer it is sent again. That is harmless: every wish carries a request_id.
        """
        response = self.raw(method, path, body)
        try:
            return json.loads(response.body)
        except ValueError as error:
            raise http.MasterError("error", f"the master's answer to {path} is not JSON", "see its log") from error

    def raw(self, method: str, path: str, body: Any = None) -> http.Response:
        """The answer as it is, for output. Raises MasterError for an error answer."""
        response = self._answer(method, path, body)
        http.raise_for_error(response)
        return response

    def _answer(self, method: str, path: str, body: Any) -> http.Response:
        for _ in range(TRIES - 1):
            try:
                return http.request(self.location.endpoint, method, path, body)
            except http.NoMaster:
                self.start()
        return http.request(self.location.endpoint, method, path, body)

    def stream(self, path: str) -> WebSocket:
        """An open stream. Raises MasterError."""
        return WebSocket(self.location.endpoint, path)

    def start(self) -> None:
        """Makes sure that a master answers. Raises NoMaster."""
        if not self._start_if_missing:
            raise http.NoMaster(
                f"no master runs at {self.location.endpoint.socket_path}", "mgpu queue, or any job, starts one"
            )
        start.ensure(self.location)
