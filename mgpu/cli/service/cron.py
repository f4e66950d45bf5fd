"""Lines of ours in the user's crontab, between two marks of ours, at its top: no SHELL= or PATH= of the user's comes
before them. Everything else in it stays byte for byte as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess

from mgpu.cli.service.master_line import MasterLine
from mgpu.client.http import MasterError
from mgpu.client.start import log_path
from mgpu.lean.typing import NamedTuple

LONGEST = 990  # bytes of a line; some take no more than a thousand
PATIENCE_S = 60
ENSURE_MINUTES = 5
# of those that have no crontab yet: cron, cronie, busybox
NONE_YET = ("no crontab for", "can't open", "No such file or directory")
# What cron itself takes for something else, whichever cron it is: the shell makes them.
_SPECIAL = {"%": r'"$(printf "\045")"', "\\": r'"$(printf "\134")"'}


class Entry(NamedTuple):
    """`tick`: a pass each minute; else a master is begun where none runs, now and then and at each boot."""

    line: MasterLine
    tick: bool


def begin_mark(state_dir: str) -> str:
    return f"# mgpu begin: {state_dir} (of `mgpu service install cron`; `mgpu service uninstall cron` removes it)"


def end_mark(state_dir: str) -> str:
    return f"# mgpu end: {state_dir}"


def render(entry: Entry) -> str:
    """The lines, with their marks. Raises MasterError."""
    line = entry.line
    words = line.words("tick") if entry.tick else line.words("daemon", "--ensure")
    python = f"PYTHONPATH={quoted(line.pythonpath)} " if line.pythonpath else ""
    log = f">>{quoted(log_path(line.state_dir))} 2>&1" if entry.tick else ">/dev/null 2>&1"  # it has a log of its own
    command = f"cd / && {python}{' '.join(map(quoted, words))} {log}"
    whens = ["* * * * *"] if entry.tick else ["@reboot", f"*/{ENSURE_MINUTES} * * * *"]
    lines = [f"{when} {command}" for when in whens]
    if max(len(os.fsencode(each)) for each in lines) > LONGEST:
        what = f"a line of the crontab would be longer than {LONGEST} bytes"
        raise MasterError("bad_request", what, "use shorter paths: --state-dir, --config")
    return "".join(f"{each}\n" for each in (begin_mark(line.state_dir), *lines, end_mark(line.state_dir)))


def quoted(word: str) -> str:
    """A word for the shell, in which cron finds nothing that it would read: no % and no backslash before one."""
    pieces = re.split(r"([%\\])", word)
    return "".join(_SPECIAL.get(piece) or shlex.quote(piece) for piece in pieces if piece) or "''"


def without(crontab: bytes, state_dir: str) -> bytes:
    """Less our lines for that directory. Raises MasterError where their end is missing."""
    begin, end = os.fsencode(begin_mark(state_dir)), os.fsencode(end_mark(state_dir))
    kept, ours = [], False
    for line in crontab.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text == begin:
            ours = True
        if not ours:
            kept.append(line)
        if text == end:
            ours = False
    if ours:
        what = f"in your crontab the line {end_mark(state_dir)!r} is missing"
        raise MasterError("error", what, "remove the lines of mgpu by hand: crontab -e")
    return b"".join(kept)


def with_entry(crontab: bytes, entry: Entry) -> bytes:
    """Ours replaced, or put at its top. Raises MasterError."""
    return os.fsencode(render(entry)) + without(crontab, entry.line.state_dir)


def lines_of(crontab: bytes, state_dir: str) -> list[str]:
    """Ours, without their marks; [] = there are none."""
    text = os.fsdecode(crontab)
    begin, end = f"{begin_mark(state_dir)}\n", f"{end_mark(state_dir)}\n"
    _, found, rest = text.partition(begin)
    return rest.partition(end)[0].splitlines() if found else []


def read() -> bytes:
    """The user's crontab, empty if there is none. Raises MasterError."""
    done = _crontab("-l")
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip()
    if any(words in said for words in NONE_YET):
        return b""
    raise _failed(said, done.returncode)


def write(crontab: bytes) -> None:
    """Raises MasterError. What is empty is removed."""
    done = _crontab("-", given=crontab) if crontab else _crontab("-r")
    if done.returncode:
        raise _failed(done.stderr.decode(errors="replace").strip(), done.returncode)


def _crontab(word: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["crontab", word],
            input=given,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except FileNotFoundError as error:
        what = "there is no crontab program here"
        raise MasterError("error", what, "install cron, or: mgpu service install systemd --user") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MasterError("error", f"crontab cannot be run: {error}", "try: crontab -l") from error


def _failed(said: str, status: int) -> MasterError:
    lines = said.splitlines() or [f"exit status {status}"]
    return MasterError("error", f"crontab refuses: {lines[0]}", "ask whoever runs this machine (cron.allow)")
