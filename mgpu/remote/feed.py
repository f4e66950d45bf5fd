"""The stdin of a job that is given one. What its pipe has taken is counted there: that outlives a cut link."""

from __future__ import annotations

from mgpu.remote import wire
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.shell import Talk

FIRST_ANSWER_S = 30.0  # the one before this may still be busy
FOR_EVER_S = 1e8


class Feed:
    """`fed` is how many bytes the job's pipe has taken in all. Each call waits until that is known, which may take as
    long as the job does not read. Raises RemoteError; trouble GONE: nobody reads any more. After another trouble only
    the next Feed knows how much has arrived."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.fed = 0
        self._await(FIRST_ANSWER_S)

    def give(self, data: bytes) -> None:
        word, text = wire.encode_text(data)
        self._order(f"in {len(data)} {word}", text)

    def end(self) -> None:
        """There is no more: the job comes to the end of its stdin."""
        self._order("eof")

    def resize(self, rows: int, columns: int) -> None:
        self._order(f"size {rows} {columns}")

    def _order(self, line: str, text: bytes = b"") -> None:
        self._talk.say(line, text)
        self._await(FOR_EVER_S)

    def _await(self, timeout_s: float) -> None:
        name, *words = self._talk.hear(timeout_s)
        if name in ("fed", "over") and words[0].isascii() and words[0].isdigit():
            self.fed = int(words[0])
        if name == "over" or words == ["failed", "over"]:
            raise RemoteError("nobody reads the job's stdin any more", Trouble.GONE)
        if name != "fed":
            raise RemoteError(f"the job takes no input now: {' '.join(words)[:200]}")
