"""The manual pages, made of the declarations of the commands: one for mgpu and one for each command."""

from __future__ import annotations

import textwrap
import time

import mgpu
from mgpu import clock
from mgpu.cli import variables
from mgpu.cli.main import CLI
from mgpu.cli.syntax import GLOBAL_OPTIONS, Argument, Command, Group, Option
from mgpu.lean.typing import Iterable, Iterator

HEADER = r""".\" Made of the declarations of the commands by: mgpu completion install
.TH {title} 1 "{date}" "mgpu {version}" "mgpu manual"
.SH NAME
{name} \- {summary}
"""
EXIT_CODES = {
    0: "All went well.",
    1: "What was asked for was not found, or a check failed.",
    2: "The request is mistaken.",
    69: "No master answers.",
    70: "srun, attach, wait: its node failed.",
    75: "srun: it has not started in time, or is no longer followed.",
    77: "Not allowed.",
    124: "srun, attach, wait: the time limit.",
    130: "srun, attach, wait: cancelled by ^C.",
    143: "srun, attach, wait: cancelled by somebody else.",
}
OF_THE_JOB = "srun, attach and wait otherwise end as the job did: with its exit code, 128+n if signal n killed it."
FILES = {
    "./cluster_config.yaml, ~/.config/mgpu/cluster_config.yaml, /etc/mgpu/cluster_config.yaml": (
        "The configuration: the first of these that is there."
    ),
    "~/.config/mgpu/config.yaml": "The user's own: defaults of options, `master:`.",
    "~/.local/state/mgpu": "The state of a personal master: its database, socket, log and the output of jobs.",
}
DESCRIPTION = """
A master asks the nodes over SSH what is free, keeps queue and allocations, starts jobs and streams their output.
Nothing is installed on a node. The first command starts a master of your own, which ends when nothing has been queued
or running for a while; where `master:` or --master names another, that one is asked.
"""
SIGNS = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def pages() -> dict[str, str]:
    """By file name."""
    made = {"mgpu.1": _overview()}
    for name, (_, summary) in CLI.table.items():
        found = CLI.get(name)
        assert found is not None
        made[f"mgpu-{name}.1"] = _page(name, found, summary)
    return made


def _page(name: str, found: Command | Group, summary: str) -> str:
    lines = [_header(f"mgpu-{name}", summary), ".SH SYNOPSIS"]
    commands = list(_commands(f"mgpu {name}", found))
    lines += [line for path, each in commands for line in (*_synopsis(path, each), ".br")][:-1]
    if isinstance(found, Group):
        lines += [".SH DESCRIPTION", *_text(found.help), ".SH COMMANDS"]
        for path, each in commands:
            lines += [f'.SS "{_escaped(path)}"', *_body(each, ".PP\n.B Options", ".PP\n.B Examples")]
    else:
        lines += [".SH DESCRIPTION", *_body(found, ".SH OPTIONS", ".SH EXAMPLES")]
    others = [alias for alias, meant in CLI.aliases.items() if meant == name]
    if others:
        lines += [".SH OTHER NAMES", *_text(f"mgpu {', mgpu '.join(others)}")]
    lines += [".SH SEE ALSO", r".BR mgpu (1),", "which tells the global options, variables, files and exit codes"]
    return _joined(lines)


def _commands(path: str, found: Command | Group) -> Iterator[tuple[str, Command]]:
    if isinstance(found, Command):
        yield path, found
        return
    for name in found.table:
        below = found.get(name)
        assert below is not None
        yield from _commands(f"{path} {name}", below)


def _overview() -> str:
    lines = [_header("mgpu", CLI.help.rstrip(".")), ".SH SYNOPSIS", r".B mgpu", r"[\fIOPTION\fR]... \fICOMMAND\fR ..."]
    lines += [".SH DESCRIPTION", *_text(DESCRIPTION)]
    lines += [".SH COMMANDS", *_text("Each has a page of its own, as in: man mgpu-srun")]
    for name, (_, summary) in CLI.table.items():
        others = [alias for alias, meant in CLI.aliases.items() if meant == name]
        lines += [".TP", f".BR mgpu\\-{_escaped(name)} (1)", *_text(summary)]
        lines += _text(f"Also: {', '.join(others)}.") if others else []
    lines += [".SH GLOBAL OPTIONS", *_text("Before or after the name of the command."), *_options(GLOBAL_OPTIONS)]
    lines += [".TP", r".B \-V, \-\-version", "The version, and exit.", ".TP", r".B \-h, \-\-help", "Help, and exit."]
    lines += _examples(CLI.examples, ".SH EXAMPLES")
    lines += [".SH EXIT STATUS", *_rows((str(code), text) for code, text in EXIT_CODES.items()), ".PP"]
    lines += [*_text(OF_THE_JOB), ".SH ENVIRONMENT", *_rows(variables.READ.items())]
    lines += [".PP", *_text(variables.OF_OPTIONS), ".SH FILES", *_rows(FILES.items())]
    return _joined(lines)


def _header(name: str, summary: str) -> str:
    return HEADER.format(
        title=_escaped(name.upper()),
        date=time.strftime("%Y-%m-%d", time.gmtime(clock.now())),
        version=mgpu.__version__,
        name=_escaped(name),
        summary=_escaped(summary.rstrip(".")),
    ).rstrip("\n")


def _synopsis(path: str, found: Command) -> Iterator[str]:
    yield f".B {_escaped(path)}"
    words = [r"[\fIOPTION\fR]..."] if found.options else []
    words += [_argument(each) for each in found.arguments]
    words += [r"[\-\-] \fICOMMAND\fR [\fIARG\fR]..."] if found.words else []
    if words:
        yield " ".join(words)


def _argument(argument: Argument) -> str:
    shown = _escaped(argument.metavar or argument.key.upper())
    return f"[{shown}]" if argument.nargs == "?" and not argument.metavar.startswith("[") else shown


def _body(found: Command, options: str, examples: str) -> Iterator[str]:
    yield from _text(textwrap.dedent("    " + found.help))
    if found.options:
        yield options
        yield from _options(found.options)
    yield from _examples(found.examples, examples)


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        flags = ", ".join(rf"\fB{_escaped(flag)}\fR" for flag in option.flags)
        attached = option.metavar.startswith("[")
        value = rf" \fI{_escaped(option.metavar)}\fR" if option.metavar else ""
        yield ".TP"
        yield f"{flags}{value.lstrip(' ') if attached else value}"
        yield from _text(option.help)


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield ".TP"
        yield rf"\fB{_escaped(name)}\fR"
        yield from _text(text)


def _text(text: str) -> Iterator[str]:
    """Paragraphs, filled by the reader of the page."""
    paragraphs = [" ".join(each.split()) for each in text.strip().split("\n\n")]
    for place, paragraph in enumerate(paragraphs):
        if place:
            yield ".PP"
        yield from map(_escaped, textwrap.wrap(paragraph, 100, break_long_words=False, break_on_hyphens=False))


def _examples(text: str, heading: str) -> Iterator[str]:
    """The examples as they were written; what is told behind them in paragraphs."""
    for block in text.strip("\n").split("\n\n"):
        first, _, rest = block.partition("\n")
        if first.rstrip(":") in ("Example", "Examples"):
            yield from (
                heading,
                *([] if heading.startswith(".SH") else [".PP"]),
                ".nf",
                *map(_escaped, textwrap.dedent(rest).splitlines()),
                ".fi",
            )
        elif block:
            yield from (".PP", *_text(block))


def _escaped(text: str) -> str:
    escaped = "".join(SIGNS.get(letter, letter) for letter in text)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
