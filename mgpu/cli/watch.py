"""A look at what the master has, once or again and again: the options of commands that have --watch."""

from __future__ import annotations

import gc

from mgpu.cli.session import Session
from mgpu.cli.syntax import Option
from mgpu.client.option import FROM_1
from mgpu.lean.typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WATCH = Option("--watch", "", "Look again and again, until ^C.")
EVERY = Option("-i --iterate", "SECONDS", "--watch, so often (2).", whole=FROM_1)
USUAL_S = 2


def look(
    session: Session,
    path: str,
    lines: Callable[[Any], list[str]],
    given: dict[str, Any],
    chosen: Callable[[Any], Any] = lambda answer: answer,
) -> int:
    """`lines`: how the answer is shown, `chosen`: what of it; it may raise MasterError, as the master may."""
    every_s = given["iterate"] or (USUAL_S if given["watch"] else 0)
    if every_s:
        from mgpu.cli.watching import Watching

        return Watching(session, path, lines, chosen, every_s).run()
    gc.disable()  # of a long list nothing becomes free before the command ends: to look for it costs a tenth of it
    answer = chosen(session.call("GET", path))
    if session.json:
        session.print_json(answer)
    else:
        session.print_lines(lines(answer))
    return 0
