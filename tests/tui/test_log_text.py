"""A job's output becomes the lines that a terminal would show, whatever the pieces it comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.tui.log_text import IN_REACH, LONGEST_LINE, Line, LogText
from mgpu.tui.sgr import PLAIN, TRUE_COLOUR, Look, changed

STDOUT, STDERR = (1, 0), (2, 0)


def read(*pieces: bytes, most: int = 10_000) -> LogText:
    log = LogText(most)
    for piece in pieces:
        log.feed(STDOUT, piece)
    return log


def texts(*pieces: bytes) -> list[str]:
    return [line.text for line in read(*pieces).lines]


def looks(line: Line) -> list[tuple[str, Look]]:
    """Its pieces, each with its look."""
    found, at = [], 0
    for length, look in (*line.runs, (len(line.text), PLAIN)):
        if text := line.text[at : at + length]:
            found.append((text, look))
        at += length
    return found


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\n", ["", ""]),
        # carriage returns: the line is written over from its start
        (b" 10%\r 20%\r 30%", [" 30%"]),
        (b" 10%\r 20%\r 30%\r", [" 30%"]),
        (b"100 left\r9 left\n", ["9 leftft"]),
        (b"a long word\rshort\x1b[K\ndone", ["short", "done"]),
        (b"first\n10%\r20%\r", ["first", "20%"]),
        ("\r██  2/4\r████4/4\nok".encode(), ["████4/4", "ok"]),
        # backspace and tabs
        (b"abc\b\bX", ["aXc"]),
        (b"\b\b\ba", ["a"]),
        (b"/\b-\b\\\b|", ["|"]),
        (b"a\tb\tc\n", ["a       b       c"]),
        ("日本\tb".encode(), ["日本    b"]),
        (b"0123456789\r\tX", ["01234567X9"]),
        # parts of a line are erased
        (b"abcdef\x1b[3D\x1b[K", ["abc"]),
        (b"abcdef\x1b[3D\x1b[1K", ["    ef"]),
        (b"abcdef\x1b[2Kx", ["      x"]),
        (b"abcdef\x1b[2GX", ["aXcdef"]),
        # several progress bars, as tqdm and rich keep them up to date
        (b"a 1\n\x1b[A" * 2 + b"\nb 1\n\x1b[A\x1b[Aa 9\nb 9\n", ["a 9", "b 9"]),
        (b"one\ntwo\nthree\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2KONE\nTWO\nTHREE\n", ["ONE", "TWO", "THREE"]),
        (b"one\ntwo\n\x1b[2A\x1b[Jnew", ["new", ""]),
        (b"a\x1b[99A\x1b[99Bb\n", ["ab"]),
        (b"a\nb\nc\x1b[2FX\x1b[EY\n", ["X", "Y", "c"]),
        # bytes that are no text, letters that are not whole yet
        (b"caf\xc3\xa9 \xff\xfe ok", ["café \\xff\\xfe ok"]),
        (b"\0\a\x0e\x0fbell", ["bell"]),
        (b"a\x01\x02\x7fb", ["a\\x01\\x02b"]),
        ("\u202etxt.exe \u2066x\u2069".encode(), ["\\u202etxt.exe \\u2066x\\u2069"]),
        ("a\u00a0b\u3000c\u200b\u200d\ufe0f".encode(), ["a b  c"]),
        ("\u009b31m\u009d0;t\u009c".encode(), ["\\x9b31m\\x9d0;t\\x9c"]),
        ("a\u2028b".encode(), ["a\\u2028b"]),
        # whatever acts on a terminal
        (b"\x1b]0;title\x07a\x1b]2;other\x1b\\b", ["ab"]),
        (b"\x1b]52;c;cm0gLXJmIC8=\x07a", ["a"]),
        (b"\x1b]8;;https://example.org\x1b\\click\x1b]8;;\x1b\\", ["click"]),
        (b"\x1bP+q544e\x1b\\a\x1b_Gf=100;AAAA\x1b\\b\x1b^x\x1b\\c\x1bXy\x1b\\d", ["abcd"]),
        (b"\x1b[c\x1b[6n\x1b[>q\x1b[?1049h\x1b[?1000h\x1bc\x1b(0\x1b7\x1b8a", ["a"]),
        (b"\x1b[5;5Ha\x1b[2Jb\x1b[3L\x1b[10S", ["ab"]),
        (b"\x1b[31;1 qa\x1b[!pb", ["ab"]),
        (b"\x1b]0;never closed\nnext", ["", "next"]),
        (b"\x1b]0;left\x18off", ["off"]),
        (b"\x1b[" + b"1" * 500 + b"m", ["\\e[" + "1" * 500 + "m"]),
        (b"\x1b\x1b\x1b[mx", ["\\e\\ex"]),
        (b"a\x1b", ["a"]),
        (b"a\x1b[", ["a"]),
        (b"a\x1b[1\nb", ["a\\e[1", "b"]),
        (b"x\x0cy\x0bz", ["x\\x0cy\\x0bz"]),
    ],
)  # fmt: skip
def test_what_a_terminal_would_show(written: bytes, shown: list[str]) -> None:
    assert texts(written) == shown
    assert texts(*(written[at : at + 1] for at in range(len(written)))) == shown


def test_a_progress_bar_is_seen_at_once_and_as_one_line() -> None:
    log = read(b"begin\n")
    for number in range(10_000):
        log.feed(STDERR, b"\r%5d of 10000" % number)
        assert [line.text for line in log.lines] == ["begin", f"{number:5} of 10000"]
    assert log.dropped == 0


def test_streams_do_not_write_into_each_others_lines() -> None:
    log = LogText()
    for source, data in (
        (STDERR, b"\r10%"),
        (STDOUT, b"epoch "),
        (STDERR, b"\r20%"),
        (STDOUT, b"1\n"),
        (STDERR, b"\n"),
    ):
        log.feed(source, data)
    assert [(line.source, line.text) for line in log.lines] == [(STDERR, "20%"), (STDOUT, "epoch 1")]


def test_the_last_lines_are_kept() -> None:
    log = read(b"".join(b"%d\n" % number for number in range(25)), b"25", most=10)
    assert [line.text for line in log.lines] == [str(number) for number in range(16, 26)]
    assert log.dropped == 16
    log.say("a word\x1b of ours")
    assert (log.lines[-1].source, log.lines[-1].text, log.dropped) == (None, "a word\\e of ours", 17)


def test_what_was_missed_and_another_attempt_begin_lines_of_their_own() -> None:
    log = read(b"half a li")
    log.missed(STDOUT)
    log.feed(STDOUT, b"another")
    log.begin_anew()
    log.feed(STDOUT, b"\x1b[Athird")
    assert [line.text for line in log.lines] == ["half a li", "another", "third"]


def test_a_very_long_line_goes_on_in_others() -> None:
    log = read(*[b"x" * 999] * 1000)
    assert {len(line.text) for line in log.lines} == {LONGEST_LINE}
    assert sum(len(line.text) for line in log.lines) == 999_000


def test_what_is_out_of_reach_is_not_written_over() -> None:
    lines = b"".join(b"%d\n" % number for number in range(IN_REACH + 50))
    assert texts(lines, b"\x1b[9999Ax")[50] == "x0"
    assert texts(lines, b"\x1b[9999Ax")[:50] == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("parameters", "look"),
    [
        ("", PLAIN),
        ("0", PLAIN),
        ("1;31", Look(1, bold=True)),
        ("92;103", Look(10, 11)),
        ("38;5;200;4", Look(200, underline=True)),
        ("38:5:200", Look(200)),
        ("48;2;1;2;3;7", Look(ground=TRUE_COLOUR | 0x010203, reverse=True)),
        ("38:2::1:2:3", Look(TRUE_COLOUR | 0x010203)),
        ("38:2:1:2:3", Look(TRUE_COLOUR | 0x010203)),
        ("58;2;1;4;9;3", Look(italic=True)),
        ("38;5;999", PLAIN),
        ("38;2;1;2;999", PLAIN),
        ("38", PLAIN),
        ("38;5", Look(0)),
        ("1;22;2;22;3;23;9;29", PLAIN),
        ("4:3", Look(underline=True)),
        ("4;4:0", PLAIN),
        ("5;6;8;1000;99999999999", PLAIN),
        ("31;39;41;49", PLAIN),
        ("31;0;1", Look(bold=True)),
        (";;1", Look(bold=True)),
        (">4;2", PLAIN),
        ("?25", PLAIN),
    ],
)
def test_colours_and_weights(parameters: str, look: Look) -> None:
    assert changed(PLAIN, parameters) == look


def test_colours_stay_until_they_are_ended() -> None:
    red = Look(1)
    one, two = read(b"a\x1b[31mb\nc\x1b[0md\n").lines
    assert looks(one) == [("a", PLAIN), ("b", red)]
    assert looks(two) == [("c", red), ("d", PLAIN)]


def test_a_line_that_is_written_over_has_the_newer_colours() -> None:
    red, green = Look(1), Look(2)
    (line,) = read(b"\x1b[31mabcdef\r\x1b[32mXY\x1b[m\x1b[2CZ").lines
    assert looks(line) == [("XY", green), ("cd", red), ("Z", PLAIN), ("f", red)]
    (line,) = read(b"\x1b[31mabcdef\r\x1b[2C\x1b[K\x1b[m!").lines
    assert looks(line) == [("ab", red), ("!", PLAIN)]


# all that has a meaning to a terminal more often than chance would have it, in bits that may be torn apart
SCRAPS = st.sampled_from(
    [
        *(
            b"\n",
            b"\r",
            b"\r\n",
            b"\b",
            b"\t",
            b"\x1b",
            b"\x1b[",
            b"\x1b[A",
            b"\x1b[2B",
            b"\x1b[K",
            b"\x1b[2K",
            b"\x1b[1K",
        ),
        *(
            b"\x1b[J",
            b"\x1b[3G",
            b"\x1b[31m",
            b"\x1b[0m",
            b"\x1b[38;5;9m",
            b"\x1b]0;t\x07",
            b"\x1b]8;;x",
            b"\x1b\\",
            b"\x1bP",
        ),
        *(
            text.encode()
            for text in ("\u009b", "日本", "e\u0301", "\u202e", "👩\u200d💻", "❤\ufe0f", "word ", "x" * 400)
        ),
    ]
)


@given(st.lists(SCRAPS | st.binary(max_size=6), max_size=30), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_any_bytes_in_any_pieces(scraps: list[bytes], sizes: list[int]) -> None:
    written = b"".join(scraps)
    pieces, at, number = [], 0, 0
    while at < len(written):
        size = sizes[number % len(sizes)]
        pieces.append(written[at : at + size])
        at, number = at + size, number + 1
    whole, torn = read(written), read(*pieces)
    assert [(line.text, looks(line)) for line in torn.lines] == [(line.text, looks(line)) for line in whole.lines]
    for line in whole.lines:
        assert line.text.isprintable()
        assert len(line.text) <= LONGEST_LINE
        assert sum(length for length, _ in line.runs) <= len(line.text)
