"""Leaves the path of this mgpu where a client on another machine finds it: a command that comes by ssh mostly has a
PATH without it. See client/head.py for the places that are looked at."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress

from mgpu import private_file
from mgpu.client.head import LAUNCHER


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


def search_path() -> str:
    """What Python has to be told so that it finds this mgpu, "" = it is installed."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = os.path.basename(folder) in ("site-packages", "dist-packages")
    # a single file unpacks itself to a place of that name which Python does not look into
    return "" if installed and folder.startswith(sys.prefix + os.sep) else folder


def packed() -> bool:
    """Whether this is a client in a single file, from which no master can be started."""
    return "zipimporter" in type(__spec__.loader).__name__ if __spec__ is not None else False
