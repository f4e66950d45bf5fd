"""A long text that changes a little all the time, packed again and again: pieces that stayed as they were are not.

The result is one zlib stream (RFC 1950). A piece is packed by itself and ends at a byte's boundary (a full flush, RFC
1951), with no reference to what was before it, so packed pieces may follow each other in any order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

_LEVEL = 1  # 16 ms for ten thousand jobs, of whose text a twentieth is left
_HEAD = b"\x78\x01"
_END = b"\x03\x00"  # an empty last block
_BASE = 65521  # of Adler-32


class _Piece(NamedTuple):
    packed: bytes
    sum: int
    size: int


class Packer:
    """Of one text. It belongs to one thread at a time."""

    def __init__(self, before: bytes, between: bytes, after: bytes) -> None:
        """What stands before all texts, between each two of them, and behind them."""
        self._joint = between
        self._before, self._between, self._after = map(_pack, (before, between, after))
        self._kept: dict[Hashable, tuple[Sequence[object], _Piece]] = {}

    def pack(self, groups: Iterable[tuple[Hashable, Sequence[object], Callable[[], Iterable[bytes]]]]) -> bytes:
        """The texts of all groups, in this order; none is empty. Of each its key, what its texts are made of, and how
        to have them: a group is packed anew if it is made of others than the last time that its key was there."""
        kept: dict[Hashable, tuple[Sequence[object], _Piece]] = {}
        for key, made_of, texts in groups:
            known = self._kept.get(key)
            if known is None or known[0] != made_of:  # the same objects: that costs next to nothing
                known = (made_of, _pack(self._joint.join(texts())))
            kept[key] = known
        self._kept = kept
        pieces = [self._before]
        for _, piece in kept.values():
            pieces += [self._between, piece] if len(pieces) > 1 else [piece]
        return _stream([*pieces, self._after])


def _pack(text: bytes) -> _Piece:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return _Piece(packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH), zlib.adler32(text), len(text))


def _stream(pieces: Sequence[_Piece]) -> bytes:
    total = zlib.adler32(b"")
    for piece in pieces:
        total = joined_sum(total, piece.sum, piece.size)
    return b"".join([_HEAD, *(piece.packed for piece in pieces), _END, total.to_bytes(4, "big")])


def joined_sum(first: int, second: int, size: int) -> int:
    """Adler-32 of two texts one behind the other, from theirs and the size of the second. Both halves are sums (RFC
    1950, 8.2): of the bytes, and of the first half after each byte, so that each byte of the second text adds what the
    first one came to."""
    low = ((first & 0xFFFF) + (second & 0xFFFF) - 1) % _BASE
    high = ((first >> 16) + (second >> 16) + size * ((first & 0xFFFF) - 1)) % _BASE
    return high << 16 | low
