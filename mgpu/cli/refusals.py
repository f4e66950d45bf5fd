"""What was refused of several nodes, in a line for all of which the same is said."""

from __future__ import annotations

import re

from mgpu.cli.session import Session
from mgpu.client.http import MasterError


def print_refusals(session: Session, refused: dict[str, MasterError]) -> int:
    """By node; the exit status of the last one, 0 = none."""
    from mgpu.core.hostlist import fold

    alike: dict[tuple[str, ...], list[str]] = {}
    for name, error in refused.items():
        alike.setdefault((error.code, *said_of("", name, error)), []).append(name)
    for names in alike.values():
        error = refused[names[0]]
        if len(names) > 1:
            error = MasterError(error.code, *said_of(fold(names), names[0], error), error.exit_code)
        session.print_error(error)
    return next(reversed(refused.values())).exit_code if refused else 0


def said_of(names: str, name: str, error: MasterError) -> tuple[str, str]:
    """The message and the hint, with `names` in the place of that node's."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return word.sub(lambda _: names, error.message), word.sub(lambda _: names, error.hint)
