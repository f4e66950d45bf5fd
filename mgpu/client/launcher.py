"""Leaves the path of this mgpu where a client on another machine finds it: a command that comes by ssh mostly has a
PATH without it. See client/head.py for the places that are looked at."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress

from mgpu import private_file
from mgpu.client.head import LAUNCHER
from mgpu.whereabouts import search_path


def leave_launcher() -> None:
    """In the home of whoever runs the master. A home that cannot be written is no reason not to be one."""
    path = os.path.expanduser(f"~/{LAUNCHER}")
    text = launcher()
    with suppress(OSError):
        with suppress(FileNotFoundError), open(path, encoding="utf-8", errors="surrogateescape") as file:
            if file.read() == text:
                return
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        private_file.write(path, text.encode("utf-8", "surrogateescape"), 0o700)


def launcher() -> str:
    """A script and no link: a link to Python's own program would lose its environment."""
    folder = search_path()
    path = f"PYTHONPATH={shlex.quote(folder)}${{PYTHONPATH:+:$PYTHONPATH}} " if folder else ""
    lines = [
        "#!/bin/sh",
        "# written by the master; for mgpu on other machines",
        f'{path}exec {shlex.quote(sys.executable)} -m mgpu "$@"',
    ]
    return "\n".join(lines) + "\n"
