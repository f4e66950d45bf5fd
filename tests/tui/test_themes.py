"""Which theme it begins with, and that the one without colours sends none."""

from __future__ import annotations

import asyncio
from io import StringIO

import pytest
from rich.console import Console

from mgpu.cli import top
from mgpu.tui import themes
from tests.tui.screen import monitor, opened, press, settled, strips_of
from tests.tui.stand_in import StandIn


@pytest.mark.parametrize(
    ("name", "environ", "theme"),
    [
        ("", {"TERM": "xterm-256color"}, "mgpu-dark"),
        ("", {"TERM": "xterm-256color", "NO_COLOR": "1"}, "mgpu-plain"),
        ("", {"TERM": "xterm-256color", "NO_COLOR": ""}, "mgpu-dark"),
        ("", {"TERM": "dumb"}, "mgpu-plain"),
        ("", {"TERM": "vt100"}, "mgpu-plain"),
        ("", {}, "mgpu-plain"),
        ("light", {"TERM": "dumb", "NO_COLOR": "1"}, "mgpu-light"),
        ("colour-blind", {"TERM": "xterm"}, "mgpu-colour-blind"),
    ],
)
def test_the_theme_to_begin_with(name: str, environ: dict[str, str], theme: str) -> None:
    assert themes.fitting(name, environ) == theme


def test_the_command_knows_all_of_them() -> None:
    assert tuple(themes.NAMES) == top.THEMES


@pytest.mark.parametrize("name", ["dumb", "unknown", ""])
def test_a_terminal_without_a_name_has_its_own_size(
    master: StandIn, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TERM", name)

    async def run() -> None:
        async with opened(master, (100, 30), theme="") as pilot:
            assert pilot.app.theme == themes.PLAIN
            assert pilot.app.size == (100, 30)
            assert not pilot.app.console.is_dumb_terminal

    asyncio.run(run())


def sent(pilot: object) -> str:
    """What goes to the terminal, with its sequences."""
    console = Console(file=StringIO(), force_terminal=True, color_system="truecolor")
    return "\n".join(strip.render(console) for strip in strips_of(pilot))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [[], ["c"], ["question_mark"], ["slash", "x"], ["tab", "d"], ["ctrl+p"]], ids="-".join)
def test_plain_has_no_colours_and_the_cursor_can_be_seen(master: StandIn, keys: list[str]) -> None:
    async def run() -> None:
        async with opened(master, theme="plain") as pilot:
            await press(pilot, *keys)
            await settled(pilot)
            text = sent(pilot)
            assert "38;2" not in text and "48;2" not in text and "38;5" not in text
            assert {letter for letter in text if not letter.isascii()} <= set("↓↑←→")  # keys, and the order
            if not keys:
                assert ">        1 train-1 " in "\n".join(strip.text for strip in strips_of(pilot))
                assert monitor(pilot).queue.rows.has_focus
            assert ";7m" in text.replace("7;39;49m", ";7m") or "[7;" in text or "1;7;" in text, "nothing is reversed"

    asyncio.run(run())


def test_a_theme_that_is_chosen_changes_bars_and_colours(master: StandIn) -> None:
    async def run() -> None:
        async with opened(master, (160, 48)) as pilot:
            assert "██" in "".join(strip.text for strip in strips_of(pilot))
            pilot.app.theme = themes.PLAIN
            await settled(pilot)
            await settled(pilot)
            text = "".join(strip.text for strip in strips_of(pilot))
            assert "##" in text and "█" not in text
            assert "38;2" not in sent(pilot)

    asyncio.run(run())
