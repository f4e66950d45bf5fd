"""Where the user's own files lie."""

from __future__ import annotations

import os

from mgpu.lean.typing import Mapping


def config_home(environ: Mapping[str, str]) -> str:
    """The folder of the user's own files."""
    home = environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "mgpu")
