"""What a rank of a job wrote, as far as it is there now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mgpu.client.http import quote, with_query
from mgpu.client.master import Master
from mgpu.lean_typing import Any
from mgpu.numeral import numeral

PIECE_B = 1 << 20


def pieces(
    master: Master, job_id: int | str, place: Mapping[str, Any], beginning: Mapping[str, Any], fresh: bool
) -> Iterator[bytes]:
    """`place`: stream (stdout, stderr), rank, attempt; `beginning`: as the master's query has it; `fresh`: after what
    its nodes have by now was fetched. An empty piece may come, as a moment to look at clocks and signals. Raises
    MasterError."""
    path = f"/v1/jobs/{quote(str(job_id))}/output"
    where: Mapping[str, Any] = beginning
    while True:
        asked = with_query(path, **place, **where, limit=PIECE_B, fresh=1 if fresh else None)
        answer = master.raw("GET", asked)
        fresh = False  # that was for all of its ranks and streams
        size, offset = (numeral(answer.headers.get(f"x-mgpu-{name}", "")) or 0 for name in ("size", "offset"))
        yield answer.body
        where = {"offset": offset + len(answer.body)}
        if not answer.body or where["offset"] >= size:
            return
