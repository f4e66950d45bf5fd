"""The command palette: what keys do, by name, wherever the focus is; and the themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from mgpu.tui.keys import KEYS
from mgpu.tui.settling import Settling
from mgpu.tui.themes import NAMES


class Palette(Settling, CommandPalette):
    """Where these are chosen."""


class Actions(Provider):
    """One entry for each key that has a name, and one for each theme."""

    def _entries(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        run = self.app.main.run_entry  # type: ignore[attr-defined]  # of Monitor, which cannot be imported from here
        for key in KEYS:
            if key.entry:
                yield f"{key.entry} ({key.shown})", key.help, partial(run, key)
        for name, theme in NAMES.items():
            yield f"Theme: {name}", "how the monitor looks", partial(setattr, self.app, "theme", theme)

    async def discover(self) -> Hits:
        for name, text, run in self._entries():
            yield DiscoveryHit(name, run, help=text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, text, run in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=text)
