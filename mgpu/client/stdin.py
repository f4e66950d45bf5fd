"""What we give a job to read, as far as it was not taken yet: across cut links and other masters, each byte once.

Bytes are counted from the first that the job's pipe took in this attempt. What all of its ranks have is forgotten; what
the master has may be lost with it, so it is kept, and sent again to the next one as far as that has not got it.
"""

from __future__ import annotations

import os
import struct

from mgpu.client.websocket import BINARY, TEXT
from mgpu.lean.json import dumps
from mgpu.lean.typing import Any, Callable, Iterator
from mgpu.window import Window

HEAD = struct.Struct(">BI")  # 0, attempt
KEPT_B = 4 << 20
PIECE_B = 1 << 18


class Stdin:
    """Read from `descriptor` once the job can take it; `typed` makes of what is read what is to be sent. `again`: what
    the job has taken already is the beginning of this."""

    def __init__(self, descriptor: int, typed: Callable[[bytes], bytes] | None = None, again: bool = False) -> None:
        self._descriptor = descriptor
        self._typed = typed
        self._again = again
        self._attempt = 0
        self._kept = Window()
        self._dropped = False  # some of this attempt
        self._sent: int | None = None  # up to there, over this connection; None: it may not be sent yet
        self._ended = self._end_sent = False
        self._size: tuple[int, int] | None = None
        self._size_sent = False
        self.lost = False  # another attempt began, and what it should read from the start is gone

    def descriptors(self) -> list[int]:
        """What to wait for, to call `read`."""
        wanted = self._sent is not None and not self._ended and len(self._kept) < KEPT_B
        return [self._descriptor] if wanted else []

    def read(self) -> None:
        try:
            data = os.read(self._descriptor, PIECE_B)
        except BlockingIOError:
            return
        except OSError:  # a terminal that is gone, a folder
            data = b""
        if not data:
            self._ended = True
            self._end_sent = self._typed is not None  # the window was closed: that is no end of what the job reads
        self._kept.add(self._typed(data) if self._typed and data else data)

    def resize(self, rows: int, columns: int) -> None:
        self._size, self._size_sent = (rows, columns), False

    def cut(self) -> None:
        """The connection is gone."""
        self._sent, self._end_sent, self._size_sent = None, False, False

    def told(self, event: dict[str, Any]) -> None:
        """An event `stdin` of the master."""
        attempt, fed, here = (int(event[key]) for key in ("attempt", "fed", "here"))
        if not attempt or self.lost:
            return
        if event["over"]:
            self._give_no_more(here)
            self._end_sent = True
            return
        if attempt != self._attempt:
            if self._dropped:
                self.lost = True
                self._give_no_more(here)
            elif not self._attempt:
                self._kept = Window(0 if self._again else here)
            self._attempt, self._sent, self._end_sent = attempt, None, False
        if self._sent is None:
            if here > self._kept.end and not self._again:  # others have given something meanwhile: ours is behind that
                self._kept = Window(here)
            self._sent = max(here, self._kept.base)
        base = self._kept.base
        self._kept.forget(min(fed, self._sent))
        self._dropped = self._dropped or self._kept.base > base

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """What is to be sent now, as (opcode, payload)."""
        if self._sent is None:
            return
        if self._size and not self._size_sent:
            self._size_sent = True
            yield TEXT, dumps({"stdin": "size", "rows": self._size[0], "columns": self._size[1]}).encode()
        while piece := self._kept.read(self._sent, PIECE_B):
            self._sent += len(piece)
            yield BINARY, HEAD.pack(0, self._attempt) + piece
        if self._ended and not self._end_sent:
            self._end_sent = True
            yield TEXT, dumps({"stdin": "end", "attempt": self._attempt}).encode()

    def _give_no_more(self, here: int) -> None:
        self._ended = True
        self._kept = Window(here)
        self._sent = here
