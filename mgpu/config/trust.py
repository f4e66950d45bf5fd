"""Whether a file may tell mgpu what to run: only if nobody but you and root could have written it."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path


def trusted(path: Path) -> str:
    """ "" if you or root own the file (or folder) and the folder that it lies in and others can write neither; else
    why not, and what to do. For a link, the same must hold where it points to.

    Raises OSError where there is nothing to look at.
    """
    real = path.resolve(strict=True)
    for place in dict.fromkeys((real, path.absolute().parent, real.parent)):
        fault = _fault(place)
        if fault:
            return fault
    return ""


def _fault(place: Path) -> str:
    state = place.stat()
    if state.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to uid {state.st_uid}, neither to you nor to root: copy it to a place of your own"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write {place}: chmod go-w {shlex.quote(str(place))}"
    return ""
