"""Colours. What they say is always said in words too; so the plain theme has none, and loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

PLAIN = "mgpu-plain"
DEFAULT = "mgpu-dark"
NAMELESS = ("", "dumb", "unknown")  # values of TERM that name no terminal
DUMB = (*NAMELESS, "vt52", "vt100", "vt102", "vt220")  # and those that name one without colours
LEAST_TERM = "vt100"
# Letters that old terminals lack, also those of the library (scroll bars). Arrows are names of keys, and stay.
PLAIN_LETTERS = str.maketrans(
    {"…": "~", "“": '"', "”": '"', "·": "-", "▌": "|", "▐": "|", "▔": "-", "▁": "_", "🔎": "? "}
    | dict.fromkeys("▂▃▄▅▆▇█", "|")
)


def tones(ok: str, wait: str, ours: str, others: str, bad: str, dim: str, mark: str) -> dict[str, str]:
    """The variables that monitor.tcss uses for what pieces of a line mean."""
    return {
        "tone-ok": ok, "tone-wait": wait, "tone-ours": ours, "tone-others": others, "tone-bad": bad, "tone-dim": dim,
        "tone-mark": mark,
    }  # fmt: skip


THEMES = (
    Theme(
        DEFAULT,
        primary="#5aa9e6", secondary="#3d6f99", accent="#e0b252", foreground="#d6dbe0", background="#12161b",
        surface="#181d24", panel="#222a33", success="#7bc47f", warning="#e0b252", error="#ef6f6c", dark=True,
        variables=tones("#7bc47f", "#e0b252", "#5aa9e6", "#d08be0", "#ef6f6c", "#7d8894", "#e0b252"),
    ),
    Theme(
        "mgpu-light",
        primary="#1d5fa8", secondary="#5b7ea6", accent="#8a5a00", foreground="#1e2328", background="#fbfbf9",
        surface="#f2f2ee", panel="#e4e4de", success="#1f7a34", warning="#8a5a00", error="#b3261e", dark=False,
        variables=tones("#1f7a34", "#8a5a00", "#1d5fa8", "#8b2aa3", "#b3261e", "#6a7078", "#8a5a00"),
    ),
    # Okabe and Ito's colours, which those who see no red or no green tell apart: blue for what is well, orange for what
    # is not.
    Theme(
        "mgpu-colour-blind",
        primary="#56b4e9", secondary="#0072b2", accent="#f0e442", foreground="#e6e6e6", background="#101418",
        surface="#161b20", panel="#20272e", success="#56b4e9", warning="#f0e442", error="#e69f00", dark=True,
        variables=tones("#56b4e9", "#f0e442", "#0f9fd6", "#cc79a7", "#e69f00", "#8c949c", "#f0e442"),
    ),
    # Its colours never reach the terminal: `Colourless` takes them out.
    Theme(
        PLAIN,
        primary="#ffffff", secondary="#ffffff", accent="#ffffff", foreground="#ffffff", background="#000000",
        surface="#000000", panel="#000000", success="#ffffff", warning="#ffffff", error="#ffffff", dark=True,
        variables={
            **tones(*["#ffffff"] * 7),
            "block-cursor-text-style": "bold reverse", "input-cursor-text-style": "reverse",
            "button-focus-text-style": "bold reverse",
        },
    ),
)  # fmt: skip
NAMES = {theme.name.removeprefix("mgpu-"): theme.name for theme in THEMES}
DEFAULTS = dict(THEMES[0].variables)


def fitting(name: str, environ: Mapping[str, str]) -> str:
    """The theme to begin with: the one that was named, else one that the terminal can show and its user wants."""
    if name:
        return NAMES[name]
    colourless = bool(environ.get("NO_COLOR")) or environ.get("TERM", "") in DUMB
    return PLAIN if colourless else DEFAULT


class Colourless(LineFilter):
    """Leaves bold and reverse, the terminal's own two colours, and the letters that all of them have."""

    OWN = Style.from_color(RichColor.parse("default"), RichColor.parse("default"))

    def apply(self, segments: Sequence[Segment], background: Color) -> list[Segment]:
        return [
            Segment(
                text if text.isascii() else text.translate(PLAIN_LETTERS),
                None if style is None else style + self.OWN,
                control,
            )
            for text, style, control in segments
        ]
