"""A terminal that keeps its picture: a shell in tmux, where keys are typed and the screen is read."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from shlex import join

from tests.end_to_end.cluster import PATIENCE_S, until

# What a program may have changed of a terminal, as far as tmux tells.
MODES = (
    "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag} #{keypad_flag} #{insert_flag} #{wrap_flag}"
)
AS_A_SHELL_HAS_THEM = "0 1 0 0 0 0 1"


class Tmux:
    """A server of its own, with one shell in it."""

    def __init__(self, folder: Path, environ: Mapping[str, str], size: tuple[int, int] = (100, 30)) -> None:
        self._socket = str(folder / "tmux")
        self._environ = {**environ, "PS1": "ready> ", "ENV": "", "TERM": "xterm-256color"}
        width, height = size
        self.call(
            "-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", folder, "sh", "-i"
        )  # fmt: skip
        self.await_text("ready>")

    def call(self, *words: object) -> str:
        argv = ["tmux", "-S", self._socket, "-u", *map(str, words)]
        return subprocess.run(argv, env=self._environ, check=True, capture_output=True, text=True, timeout=30).stdout

    def type(self, *keys: str) -> None:
        """Names of keys, as tmux has them."""
        self.call("send-keys", *keys)

    def run(self, *words: str) -> None:
        """A command of the shell."""
        self.call("send-keys", "-l", join(words))
        self.type("Enter")

    def line(self, text: str) -> None:
        self.call("send-keys", "-l", text)
        self.type("Enter")

    @property
    def text(self) -> str:
        return self.call("capture-pane", "-p")

    def modes(self) -> str:
        return self.call("display-message", "-p", MODES).strip()

    def await_text(self, text: str, patience_s: float = PATIENCE_S) -> str:
        try:
            until(f"{text!r} on the screen", lambda: text in self.text, patience_s)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.text}") from None
        return self.text

    def await_gone(self, text: str, patience_s: float = PATIENCE_S) -> None:
        until(f"{text!r} no more on the screen", lambda: text not in self.text, patience_s)

    def resize(self, width: int, height: int) -> None:
        self.call("resize-window", "-x", width, "-y", height)

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True, timeout=30)
