"""The application: its colours, its keys that hold on every screen, and the screen that it opens with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.screen import Screen

import mgpu.clock
from mgpu.clock import Clock
from mgpu.tui import themes
from mgpu.tui.in_turn import KeysInTurn
from mgpu.tui.main_screen import Main
from mgpu.tui.palette import Actions, Palette
from mgpu.tui.source import Source
from mgpu.tui.threads import use_impatient_threads


class Monitor(App[None]):
    """`mgpu top` itself. Widgets find what they need in `source` and `clock`."""

    TITLE = "mgpu top"
    CSS_PATH = "monitor.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]
    COMMANDS = {lambda: Actions}  # noqa: RUF012

    def __init__(
        self,
        source: Source,
        theme: str = "",
        master: str = "",
        clock: Clock = mgpu.clock,
        driver: type[Driver] | None = None,
    ) -> None:
        """`theme`: one of themes.NAMES, "" = whatever suits the terminal; `master`: its name, as it is shown; `driver`:
        None = whatever Textual takes."""
        chosen = themes.fitting(theme, os.environ)
        if os.environ.get("TERM", "") in themes.NAMELESS:  # of which the library thinks that they are 80x25 for ever
            os.environ["TERM"] = themes.LEAST_TERM
        super().__init__(driver)
        self.source = source
        self.clock = clock
        self._master = master
        self._colourless = themes.Colourless()
        self._keys: KeysInTurn | None = None
        for each in themes.THEMES:
            self.register_theme(each)
        self.theme = chosen

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def get_default_screen(self) -> Screen[Any]:
        self.main = Main(self.source, self.clock, self._master)
        return self.main

    def on_mount(self) -> None:
        use_impatient_threads()
        self._keys = KeysInTurn(self, super().on_event)
        self.run_worker(self._keys.run(), name="keys")

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key) and self._keys is not None and not event.is_forwarded:
            self._keys.put(event)
        else:
            await super().on_event(event)

    def _fatal_error(self) -> None:
        """Where it went wrong, without the values that were at work there: secrets may be among them."""
        from rich.segment import Segments
        from rich.traceback import Traceback

        trace = Traceback(width=None, show_locals=False)
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.DEFAULTS

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._colourless] if self.theme == themes.PLAIN else filters

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Ours are in the palette; Textual's own are about its widgets."""
        return ()
