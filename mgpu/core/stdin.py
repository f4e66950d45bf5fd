"""What a job reads: nothing, what its followers give it, or what is typed on a terminal of so many rows and columns."""

from __future__ import annotations

import re
from dataclasses import replace

from mgpu.core.errors import RequestError
from mgpu.core.model import JobKind, Request
from mgpu.core.payload import shown

PIPE = "pipe"
_SIZE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})", re.ASCII)


def parse_input(word: str, kind: JobKind) -> str:
    """As JobSpec.input has it. Raises RequestError."""
    if word not in ("", PIPE) and window_of(word) is None:
        raise RequestError(f"'input' must be {PIPE}, or ROWSxCOLUMNS of a terminal, not '{shown(word)}'")
    if word and kind is not JobKind.SRUN:
        raise RequestError("only srun gives a job its stdin: a batch job is to read its files")
    return word


def window_of(word: str) -> tuple[int, int] | None:
    """Rows and columns; None = no terminal."""
    found = _SIZE.fullmatch(word)
    return (int(found[1]), int(found[2])) if found else None


def on_one_node(request: Request, tasks: int | None = None) -> Request:
    """A terminal is on one node, and of one task there. Raises RequestError where more are asked for."""
    if tasks is not None and tasks > 1:
        raise RequestError(f"--pty is a terminal for one task, and {tasks} are asked for: ask for one")
    count = max(request.nodes or 1, len(request.nodelist), len(request.pins))
    if count > 1:
        raise RequestError(f"--pty is a terminal on one node, and {count} are asked for: ask for one")
    return replace(request, nodes=1)
