"""What a job in the foreground is given to read: what comes through our stdin, a file, or keys of our terminal."""

from __future__ import annotations

import os
import stat

from mgpu.cli.session import bad_request
from mgpu.client.command import comes_through
from mgpu.lean.typing import Any, Mapping, NamedTuple, Sequence

NONE = "none"
ALL = "all"
# These end at once, and well, where nobody types anything.
TYPED_TO = {"sh", "bash", "dash", "zsh", "fish", "ksh", "tcsh", "csh", "python", "python3", "ipython", "julia", "node"}
TYPED_TO_STILL = {"-i", "-l", "--login"}  # with these too


class Given(NamedTuple):
    """`input` as the master has it, "" = nothing; `descriptor` to read from; `again`: some of it may have been given by
    the same command before."""

    input: str = ""
    descriptor: int = 0
    again: bool = False

    @property
    def typed(self) -> bool:
        return self.input not in ("", "pipe")


NOTHING = Given()


def given_by(pty: bool, source: str | None) -> Given:
    """`pty`: --pty; `source`: --input. Without either it is a pipe or a file that stdin is, never the terminal that
    somebody may want for other things. Raises MasterError (bad_request)."""
    if pty:
        if source is not None:
            raise bad_request("--pty takes its keys from the terminal, --input gives something else", "leave out one")
        return Given(window())
    if source == NONE:
        return NOTHING
    if source not in (None, ALL, ""):
        return Given("pipe", opened(str(source)))
    return Given("pipe") if comes_through(0) else NOTHING


def window() -> str:
    """Our terminal's size. Raises MasterError (bad_request)."""
    if not terminal_here():
        raise bad_request("--pty needs a terminal, and stdin or stdout is none", "leave it out: pipes are passed on")
    size = os.get_terminal_size(0)
    return f"{size.lines or 24}x{size.columns or 80}"


def terminal_here() -> bool:
    return os.isatty(0) and os.isatty(1)


def misses_a_terminal(argv: Sequence[str]) -> bool:
    """What somebody at a terminal means to type to, and could not."""
    program, *others = argv
    return os.path.basename(program) in TYPED_TO and set(others) <= TYPED_TO_STILL and terminal_here()


def opened(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise bad_request(f"--input {path}: {error.strerror}", "name a file that is here, or: none") from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise bad_request(f"--input {path} is a folder", "name a file")
    return descriptor


def joined(job: Mapping[str, Any], source: str | None) -> Given:
    """For one who joins: the keys of a terminal that the job has; to a pipe others may be giving something just now, so
    that is to be asked for. Raises MasterError (bad_request)."""
    wanted = str(job.get("input") or "")
    if source is not None and source != NONE:
        if wanted != "pipe":
            raise bad_request("--input: the job was begun without a stdin", "leave it out")
        return Given("pipe", 0 if source == ALL else opened(source))
    typed = wanted not in ("", "pipe") and terminal_here()
    return Given(wanted) if typed else NOTHING
