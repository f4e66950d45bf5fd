"""Where this mgpu lies, and what another Python has to be told so that it finds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # what the package lies in


def search_path() -> str:
    """ "" = it is installed, and Python looks there by itself: to be named, it would come before Python's own."""
    installed = os.path.basename(FOLDER) in ("site-packages", "dist-packages")
    # a single file unpacks itself to a place of that name which Python does not look into
    return "" if installed and FOLDER.startswith(sys.prefix + os.sep) else FOLDER


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """That environment, in which another Python finds this mgpu, and from any folder what is found from here."""
    known = map(os.path.abspath, filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)))
    found = dict.fromkeys(filter(None, (search_path(), *known)))
    return {**environ, **({"PYTHONPATH": os.pathsep.join(found)} if found else {})}


def packed() -> bool:
    """Whether this is a client in a single file, from which no master can be started."""
    return not os.path.isdir(FOLDER)
