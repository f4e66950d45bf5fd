"""Pieces of shell text, for any POSIX shell."""

from __future__ import annotations

from collections.abc import Mapping

from mgpu.core.model import Command, CommandForm


def quote(text: str) -> str:
    """A word for any POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def exports(values: Mapping[str, str]) -> list[str]:
    return [f"export {name}={quote(value)}" for name, value in values.items()]


def defaults(values: Mapping[str, str]) -> list[str]:
    """Where nobody has set them; of plain letters and signs."""
    return [f'export {name}="${{{name}-{value}}}"' for name, value in values.items()]


def become(command: Command) -> str:
    """The end of a script: from here on it is the command."""
    words = " ".join(quote(word) for word in command.words)
    if command.form is CommandForm.ARGV:
        return f"exec {words}"
    if command.form is CommandForm.SHELL:
        # in this shell, so that functions which `setup` brought (conda) are there
        return command.words[0]
    # the script is read by its interpreter, not executed: the run directory may be on a noexec mount
    return f'exec {interpreter_of(command.script)} "${{0%/*}}/job" {words}'.rstrip()


def unless_there(command: Command, node: str) -> list[str]:
    """A line for a program that PATH does not have there, before the shell says it in words of its own."""
    if command.form is not CommandForm.ARGV or "/" in command.words[0]:
        return []
    name = command.words[0]
    there = f"there is no {name} in PATH on {node}"
    said = f"mgpu: {there}: install it there, or have --setup, or the node's `setup`, put it into PATH"
    return [f"command -v {quote(name)} >/dev/null || printf '%s\\n' {quote(said)} >&2"]


def interpreter_of(script: str) -> str:
    """Of the `#!` line as the kernel reads it: one program, at most one argument."""
    first = script.split("\n", 1)[0]
    if not first.startswith("#!"):
        return "/bin/sh"
    program, _, argument = first[2:].strip().partition(" ")
    argument = argument.strip()
    return f"{quote(program)} {quote(argument)}" if argument else quote(program or "/bin/sh")
