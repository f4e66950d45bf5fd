"""The stdin of a job that is given one. What its pipe has taken is counted there: that outlives a cut link."""

from __future__ import annotations

from mgpu.numeral import numeral
from mgpu.remote import wire
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.shell import FOR_EVER_S, Talk

FIRST_ANSWER_S = 30.0  # the one before this may still be busy

# Behind what is not acknowledged yet more may follow: together less than the window of a channel (2 MiB with OpenSSH),
# so that sending does not wait for a job that does not read.
PIECE_B = 512 << 10
AHEAD = 3


class Feed:
    """`fed` is how many bytes the job's pipe is known to have taken in all, `awaited` how many answers are to come. Of
    those more than AHEAD are waited for, which may take as long as the job does not read. Raises RemoteError; trouble
    GONE: nobody reads any more. After another trouble only the next Feed knows how much has arrived."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.fed = 0
        self.awaited = 1
        self.settle(FIRST_ANSWER_S)

    def give(self, data: bytes) -> None:
        """At most PIECE_B."""
        word, text = wire.encode_text(data)
        self._order(f"in {len(data)} {word}", text)

    def end(self) -> None:
        """There is no more: the job comes to the end of its stdin."""
        self._order("eof")

    def resize(self, rows: int, columns: int) -> None:
        self._order(f"size {rows} {columns}")

    def _order(self, line: str, text: bytes = b"") -> None:
        self._talk.say(line, text)
        self.awaited += 1
        while self.awaited > AHEAD:
            self.settle()

    def settle(self, timeout_s: float = FOR_EVER_S) -> None:
        """Waits for the next answer."""
        name, *words = self._talk.hear(timeout_s)
        self.awaited -= 1
        fed = numeral(words[0]) if words and name in ("fed", "over") else None
        if fed is not None:
            self.fed = fed
        if name == "over" or words == ["failed", "over"]:
            raise RemoteError("nobody reads the job's stdin any more", Trouble.GONE)
        if name != "fed":
            raise RemoteError(f"the job takes no input now: {' '.join(words)[:200]}")
