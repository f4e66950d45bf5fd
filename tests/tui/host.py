"""An application with one widget of the monitor, over a real socket to a stand-in master."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.widget import Widget

from mgpu.client.http import Endpoint
from mgpu.client.locate import Location
from mgpu.tui import themes
from mgpu.tui.source import Source
from tests.clocks import HandClock

PATIENCE_S = 20.0
NOW = 1_767_225_660.0  # 2026-01-01 00:01:00 UTC, a minute after the jobs of tests.client.peer were submitted


class Recording(HeadlessDriver):
    """Remembers what a terminal would be sent."""

    written = ""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written += data


class Host(App[None]):
    """Of what `make` makes from the source and the clock."""

    CSS_PATH = Path(themes.__file__).with_name("monitor.tcss")

    def __init__(self, socket_path: str, make: Callable[[Source, HandClock], Widget]) -> None:
        super().__init__()
        self.clock = HandClock(NOW)
        self.source = Source(Location("", "", Endpoint(socket_path, None, (os.getuid(),)), False))
        self._make = make
        for each in themes.THEMES:
            self.register_theme(each)
        self.theme = themes.DEFAULT

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.DEFAULTS

    def _build_driver(self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None) -> Driver:
        self._driver = self.recording = Recording(self, mouse=mouse, size=size)
        return self._driver

    def compose(self) -> ComposeResult:
        yield self._make(self.source, self.clock)


def screen_text(app: App[Any]) -> list[str]:
    """What stands on the screen, line by line."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


async def until(pilot: Pilot[Any], told: Callable[[], bool], what: str = "it") -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not told():
        assert asyncio.get_running_loop().time() < deadline, f"waited for {what}:\n" + "\n".join(screen_text(pilot.app))
        await pilot.pause(0.02)


async def until_shown(pilot: Pilot[Any], text: str) -> None:
    await until(pilot, lambda: any(text in line for line in screen_text(pilot.app)), repr(text))
