"""What many ask for again and again is packed piece by piece, and is one stream for whoever unpacks it."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from mgpu.ops import packing
from mgpu.ops.packing import Packer, joined_sum


def made(groups):
    return [(key, texts, texts.copy) for key, texts in groups]


TEXTS = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=5)


@given(st.binary(max_size=70_000), st.binary(max_size=70_000))
def test_the_sum_of_two_texts(first, second):
    assert joined_sum(zlib.adler32(first), zlib.adler32(second), len(second)) == zlib.adler32(first + second)


def test_the_sum_of_long_texts():
    first, second = b"\xff" * 300_000, b"\xfe" * 5_000_011
    assert joined_sum(zlib.adler32(first), zlib.adler32(second), len(second)) == zlib.adler32(first + second)


@given(st.lists(st.dictionaries(st.integers(0, 9), TEXTS, max_size=6), min_size=1, max_size=6))
def test_it_unpacks_to_all_texts_in_their_order_whatever_was_before(rounds):
    packer = Packer(b"<", b", ", b">")
    for groups in rounds:
        texts = [text for of_one in groups.values() for text in of_one]
        assert zlib.decompress(packer.pack(made(groups.items()))) == b"<" + b", ".join(texts) + b">"


def test_only_what_changed_is_packed_anew(monkeypatch):
    packed = []
    pack = packing._pack
    monkeypatch.setattr(packing, "_pack", lambda text: packed.append(text) or pack(text))
    packer = Packer(b"[", b",", b"]")
    packer.pack(made([(1, [b"a", b"b"]), (2, [b"c"])]))
    packed.clear()
    assert zlib.decompress(packer.pack(made([(1, [b"a", b"b"]), (2, [b"d"]), (3, [b"e"])]))) == b"[a,b,d,e]"
    assert packed == [b"d", b"e"]
    packed.clear()
    assert zlib.decompress(packer.pack(made([(3, [b"e"]), (1, [b"a", b"b"])]))) == b"[e,a,b]"
    assert packed == []
