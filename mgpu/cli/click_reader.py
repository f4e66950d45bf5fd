"""Reads a command line with click: for help, and to say what is wrong with one."""

from __future__ import annotations

import sys
from typing import Any

import click

import mgpu
from mgpu.cli.session import bad_request
from mgpu.cli.syntax import GLOBAL_OPTIONS, Argument, Command, Group, Option, Reading, by_flag, split
from mgpu.client.http import MasterError
from mgpu.lean.typing import Sequence
from mgpu.numeral import numeral


class UsageError(MasterError):
    """The command line is wrong."""


def read(root: Group | Command, args: Sequence[str]) -> Reading | int:
    """What the line says; the exit status if help was all that it asked for. Raises UsageError, MasterError."""
    try:
        program = _Group(root) if isinstance(root, Group) else _Command(root)
        reading = program.main(list(args), prog_name=root.name, standalone_mode=False, obj={})
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        raise usage_error(error, _path(root, args)) from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except SystemExit as error:  # that is how click ends when nobody reads its help
        raise BrokenPipeError from error
    return reading if isinstance(reading, Reading) else 0


def _path(root: Group | Command, args: Sequence[str]) -> str:
    """The command that is meant, as it is typed: not all of click's errors tell it."""
    words = [root.name]
    found: Group | Command | None = root
    for arg in args:
        if isinstance(found, Group) and (below := found.get(arg)) is not None:
            words.append(arg)
            found = below
    return " ".join(words)


def usage_error(error: click.ClickException, meant: str = "mgpu") -> UsageError:
    """One line instead of click's three."""
    if isinstance(error, click.BadOptionUsage) and error.option_name == "--mpi":  # --mpi=pmix of Slurm's srun
        told = "--mpi is a launcher and takes no value"
        return UsageError("bad_request", told, "--mpi -- mpirun PROGRAM starts a rank for each GPU")
    context = getattr(error, "ctx", None)
    path = context.command_path if context else meant
    message, _, near = error.format_message().rstrip(".").replace("(Did", "Did").partition(". Did ")
    message += f" (did {near.rstrip(')')})" if near else ""
    command = "" if path == "mgpu" else path.removeprefix("mgpu ")
    text = f"{message[:1].lower()}{message[1:]}"
    return UsageError("bad_request", f"{command}: {text}" if command else text, f"{path} --help")


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value:
        context.find_root().obj[option.name] = value


def _version(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        print(f"mgpu {mgpu.__version__}")
        context.exit()


class _Whole(click.types.IntParamType):
    """A whole number. Not click's own: its help would have the bound of all numbers behind each."""

    def __init__(self, whole: range) -> None:
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = numeral(str(value))
        if number is None or number not in self._whole:
            self.fail(f"{value!r} is no whole number from {self._whole[0]} to {self._whole[-1]}", param, ctx)
        return number


def _option(option: Option, **more: Any) -> click.Option:
    names = [*option.flags, option.key]
    if not option.metavar:
        return click.Option(names, is_flag=True, default=False, help=option.help, **more)
    kind = click.STRING if option.whole is None else _Whole(option.whole)
    return click.Option(
        names, metavar=option.metavar, type=kind, multiple=option.repeated, help=option.help, default=None, **more
    )


def _argument(argument: Argument) -> click.Argument:
    nargs, required = (-1, False) if argument.nargs == "*" else (1, argument.nargs == 1)
    return click.Argument([argument.key], metavar=argument.metavar or None, nargs=nargs, required=required)


_GLOBALS: list[click.Parameter] = [
    *(_option(option, expose_value=False, callback=_keep) for option in GLOBAL_OPTIONS),
    click.Option(
        ["-V", "--version"],
        is_flag=True,
        expose_value=False,
        callback=_version,
        is_eager=True,
        help="The version, and exit.",
    ),
]


class _WithGlobals(click.Command):
    """Adds the global options, in a section of their own in the help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {flag for option in own for flag in option.opts}
        return [*own, *(option for option in _GLOBALS if taken.isdisjoint(option.opts))]

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["-h", "--help"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, wanted in (("Options", False), ("Global options", True)):
            records = [
                record
                for option in self.get_params(ctx)
                if isinstance(option, click.Option)
                and (option in _GLOBALS) is wanted
                and (record := option.get_help_record(ctx))
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, as they were written."""
        if self.epilog:
            formatter.write(f"\n{self.epilog.strip(chr(10))}\n")


class _Command(_WithGlobals):
    """Reads, and does nothing: the reading is what its invocation returns."""

    def __init__(self, command: Command) -> None:
        parameters: list[click.Parameter] = [*map(_argument, command.arguments), *map(_option, command.options)]
        parameters += [_option(option, hidden=True) for option in command.strangers()]
        super().__init__(command.name, params=parameters, help=command.help, epilog=command.examples)
        self.ours = command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not self.ours.words:
            return super().parse_args(ctx, args)
        before, words = split(args, by_flag([*self.ours.strangers(), *self.ours.options, *GLOBAL_OPTIONS]))
        unread = super().parse_args(ctx, before)
        ctx.params["words"] = words
        return unread

    def invoke(self, ctx: click.Context) -> Reading:
        strangers = {option.key for option in self.ours.strangers()}
        given = {key: value for key, value in ctx.params.items() if value not in (None, False) or key not in strangers}
        return Reading(self.ours, given, ctx.find_root().obj)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), *(["[--]", "COMMAND", "[ARG]..."] if self.ours.words else [])]


class _Group(_WithGlobals, click.Group):
    def __init__(self, group: Group) -> None:
        super().__init__(group.name, help=group.help, epilog=group.examples)
        self.ours = group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.ours.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.ours.get(cmd_name)
        return _Group(found) if isinstance(found, Group) else _Command(found) if found is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None:
            import difflib

            near = difflib.get_close_matches(args[0], [*self.ours.table, *self.ours.aliases], n=1)
            hint = f"did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them"
            raise bad_request(f"{ctx.command_path} has no command {args[0]!r}", hint)
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = {name: alias for alias, name in self.ours.aliases.items()}
        rows = [
            (f"{name} ({others[name]})" if name in others else name, summary)
            for name, (_, summary) in self.ours.table.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
