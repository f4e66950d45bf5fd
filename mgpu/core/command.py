"""The command of a submission, and the name of a job that is given none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.model import Command, CommandForm

_NAME_LENGTH = 64


def parse_command(source: Mapping[str, Any]) -> Command:
    """Raises RequestError."""
    read.only_keys(source, ("form", "words", "script", "script_name"), "the key of a command")
    form = read.line(source, "form", 64)
    if form not in (known.value for known in CommandForm):
        raise RequestError(f"'form' must be argv, shell, script or lines, not '{read.shown(form)}'")
    words = read.words(source, "words")
    script = read.text(source, "script", read.MAX_SCRIPT)
    name = read.line(source, "script_name")
    if form == CommandForm.SCRIPT:
        if not script.strip():
            raise RequestError(f"the script {read.shown(name)} is empty".replace("  ", " "))
        return Command(CommandForm.SCRIPT, words, script, name or "script")
    if form == CommandForm.LINES:
        return Command(CommandForm.LINES, (), script, name or "lines")
    if not words or not words[0].strip():
        raise RequestError(
            "the command is empty: give a program after the options, as in `mgpu srun -- python train.py`"
        )
    if form == CommandForm.ARGV and words[0].startswith("-"):
        # bash would take it for an option of `exec`
        raise RequestError(
            f"the command begins with '{read.shown(words[0])}', which is no program: "
            "mgpu's own options come before `--`, a program's behind its name"
        )
    if form == CommandForm.SHELL and len(words) != 1:
        raise RequestError("a shell command is one line: give it as one word")
    return Command(CommandForm(form), words)


def name_of(options: Mapping[str, Any], command: Command) -> str:
    if given := read.line(options, "job_name", 255).strip():
        return given
    first = command.words[0] if command.form in (CommandForm.ARGV, CommandForm.SHELL) else command.script_name
    if command.form is CommandForm.SHELL:
        first = first.split()[0]
    return read.shown(first.rstrip("/").rsplit("/", 1)[-1], _NAME_LENGTH) or "job"
