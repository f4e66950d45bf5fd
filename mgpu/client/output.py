"""What a rank of a job wrote, as far as it is there now."""

from __future__ import annotations

import time

from mgpu import clock
from mgpu.client.http import Response, quote, with_query
from mgpu.client.master import Master
from mgpu.lean.typing import Any, Iterator, Mapping
from mgpu.numeral import numeral

PIECE_B = 1 << 20
PATIENCE_S = 30.0  # without a byte, of what a node still owes
PAUSE_S = 0.1


class Pieces:
    """`place`: stream (stdout, stderr), rank, attempt; `beginning`: as the master's query has it; `fresh`: after what
    its nodes have by now was fetched, and if it has ended, all of it. An empty piece may come, as a moment to look at
    clocks and signals. `owed`, when they have come: nodes of an ended job have more, but do not give it."""

    def __init__(
        self, master: Master, job_id: int | str, place: Mapping[str, Any], beginning: Mapping[str, Any], fresh: bool
    ) -> None:
        self._master = master
        self._path = f"/v1/jobs/{quote(str(job_id))}/output"
        self._place = place
        self._beginning = beginning
        self._fresh = fresh
        self.owed = False

    def __iter__(self) -> Iterator[bytes]:
        """Raises MasterError."""
        answer = self._ask(self._beginning, self._fresh)
        size, moved = _number(answer, "size"), clock.monotonic()
        while _owed(answer) == "coming" and clock.monotonic() - moved < PATIENCE_S:
            yield b""
            time.sleep(PAUSE_S)
            answer = self._ask(self._beginning, fresh=True)
            if _number(answer, "size") != size:
                size, moved = _number(answer, "size"), clock.monotonic()
        self.owed = bool(_owed(answer))
        while True:
            yield answer.body
            offset = _number(answer, "offset") + len(answer.body)
            if not answer.body or offset >= _number(answer, "size"):
                return
            answer = self._ask({"offset": offset}, fresh=False)

    def _ask(self, where: Mapping[str, Any], fresh: bool) -> Response:
        asked = with_query(self._path, **self._place, **where, limit=PIECE_B, fresh=1 if fresh else None)
        return self._master.raw("GET", asked)


def _owed(answer: Response) -> str:
    return answer.headers.get("x-mgpu-owed", "")


def _number(answer: Response, name: str) -> int:
    """Bytes."""
    return numeral(answer.headers.get(f"x-mgpu-{name}", "")) or 0
