"""The monitor's side of a browser's tab: like a terminal, it is gone when nobody holds its other end."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

DRIVER = f"{__name__}:TabDriver"


class TabDriver(WebDriver):
    """Ends the application when no more keys can come: the server may be killed without a word."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(ExitApp())
