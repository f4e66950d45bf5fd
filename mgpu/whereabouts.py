"""Where this mgpu lies, and what another Python has to be told so that it finds it."""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # what the package lies in


def search_path() -> str:
    """ "" = it is installed, and Python looks there by itself: to be named, it would come before Python's own."""
    installed = os.path.basename(FOLDER) in ("site-packages", "dist-packages")
    # a single file unpacks itself to a place of that name which Python does not look into
    return "" if installed and FOLDER.startswith(sys.prefix + os.sep) else FOLDER


def packed() -> bool:
    """Whether this is a client in a single file, from which no master can be started."""
    return not os.path.isdir(FOLDER)
