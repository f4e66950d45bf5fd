"""Every command with every option, of the declarations that the command line itself reads."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from mgpu.cli.main import CLI
from mgpu.cli.syntax import GLOBAL_OPTIONS, Argument, Command, Group, Option
from scripts.pages.table import code, table

HEAD = """\
# Commands

All commands and their options, as `mgpu COMMAND --help` and `man mgpu-COMMAND` ([completion](completion.md)) tell them.
Options end at the first other word of `srun` and `submit`; elsewhere they may stand anywhere. Every option of a job may
also come from a variable or from your own file ([variables and files](variables.md)).
"""
GLOBALS = "Before or after the name of the command."


def page() -> str:
    parts = [HEAD, "## Global options\n", GLOBALS + "\n", _options([*GLOBAL_OPTIONS, *_NOT_OURS])]
    for name, (_, summary) in CLI.table.items():
        found = CLI.get(name)
        assert found is not None
        parts += _section(f"mgpu {name}", found, summary, "##")
        others = [f"`mgpu {alias}`" for alias, meant in CLI.aliases.items() if meant == name]
        parts += [f"Also: {', '.join(others)}.\n"] if others else []
    return "\n".join(parts)


_NOT_OURS = [Option("-V --version", "", "The version, and exit."), Option("-h --help", "", "Help, and exit.")]


def _section(path: str, found: Command | Group, summary: str, level: str) -> Iterator[str]:
    yield f"{level} {path}\n"
    if isinstance(found, Group):
        yield f"{summary}\n"
        for name, (_, below) in found.table.items():
            command = found.get(name)
            assert command is not None
            yield from _section(f"{path} {name}", command, below, level + "#")
        return
    yield f"    {path}{_words(found)}\n"
    yield _prose(textwrap.dedent("    " + found.help))
    if found.options:
        yield _options(found.options)
    if not found.has_json:
        yield "It has no `--json`.\n"
    yield from _examples(found.examples)


def _words(found: Command) -> str:
    words = ["[OPTION]..."] if found.options else []
    words += [_argument(each) for each in found.arguments]
    return "".join(f" {word}" for word in (*words, *(["[--] COMMAND [ARG]..."] if found.words else [])))


def _argument(argument: Argument) -> str:
    shown = argument.metavar or argument.key.upper()
    return f"[{shown}]" if argument.nargs == "?" and not shown.startswith("[") else shown


def _options(options: Iterable[Option]) -> str:
    def shown(option: Option) -> str:
        attached = option.metavar.startswith("[")
        value = option.metavar if attached or not option.metavar else f" {option.metavar}"
        return (
            ", ".join(code(flag) for flag in option.flags[:-1])
            + (", " if option.flags[:-1] else "")
            + code(f"{option.flags[-1]}{value}")
        )

    return table(("option", "meaning"), ((shown(option), safe(option.help)) for option in options))


def _prose(text: str) -> str:
    return "\n\n".join(safe(" ".join(paragraph.split())) for paragraph in text.strip().split("\n\n")) + "\n"


def safe(text: str) -> str:
    """What is no code and would mean something to Markdown."""
    pieces = text.split("`")
    for place in range(0, len(pieces), 2):
        for sign in "*_<>[]":
            pieces[place] = pieces[place].replace(sign, f"\\{sign}")
    return "`".join(pieces)


def _examples(text: str) -> Iterator[str]:
    for block in text.strip("\n").split("\n\n"):
        first, _, rest = block.partition("\n")
        if first.rstrip(":") in ("Example", "Examples"):
            yield textwrap.indent(textwrap.dedent(rest), "    ") + "\n"
        elif block:
            yield _prose(block)
