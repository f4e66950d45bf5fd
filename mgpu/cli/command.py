"""click, shaped to the contract: global options before or after the command's name, options that end at the first
other word, commands imported only when they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

import mgpu
from mgpu.cli.session import Session, bad_request

Function = TypeVar("Function", bound=Callable[..., Any])


def _store(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        setattr(context.find_root().obj, str(option.name), value)


def _version(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        print(f"mgpu {mgpu.__version__}")
        context.exit()


GLOBAL_OPTIONS: list[click.Parameter] = [
    click.Option(
        ["--config"], metavar="FILE", expose_value=False, callback=_store, help="The cluster's configuration."
    ),
    click.Option(
        ["--state-dir"], metavar="DIR", expose_value=False, callback=_store, help="Where the master keeps all."
    ),
    click.Option(
        ["--master", "master_url"], metavar="SOCKET", expose_value=False, callback=_store, help="Use the master there."
    ),
    click.Option(["--json"], is_flag=True, expose_value=False, callback=_store, help="JSON instead of text."),
    click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=_store, help="Say what is used."),
    click.Option(
        ["--version"], is_flag=True, expose_value=False, callback=_version, is_eager=True, help="The version, and exit."
    ),
]


class _Globals(click.Command):
    """Adds the global options, in a section of their own in the help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, wanted in (("Options", False), ("Global options", True)):
            records = [
                record
                for option in self.get_params(ctx)
                if (option in GLOBAL_OPTIONS) is wanted and (record := option.get_help_record(ctx))
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, as they were written."""
        if self.epilog:
            formatter.write(f"\n{self.epilog.strip(chr(10))}\n")


class Command(_Globals):
    """`words` True: everything from the first word that is no option belongs to the job and is left as it is; the
    function finds it with `job_words()`. `has_json` False: --json is refused."""

    def __init__(self, *args: Any, words: bool = False, has_json: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.words = words
        self.has_json = has_json

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not self.words:
            return super().parse_args(ctx, args)
        options, words, dashed = split(args, self.get_params(ctx))
        ctx.meta["mgpu.words"] = (words, dashed)
        return super().parse_args(ctx, options)

    def invoke(self, ctx: click.Context) -> Any:
        if not self.has_json and ctx.find_root().obj.json:
            ctx.find_root().obj.json = False
            raise bad_request(f"{ctx.command.name} has no --json", "leave it out")
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), *(["[--]", "COMMAND", "[ARG]..."] if self.words else [])]


def with_options(options: Sequence[click.Option]) -> Callable[[Function], Function]:
    """Adds options to a command, in this order."""

    def decorate(function: Function) -> Function:
        # click collects parameters from the innermost decorator outwards, and turns them round.
        function.__dict__.setdefault("__click_params__", []).extend(reversed(options))
        return function

    return decorate


def job_words(context: click.Context) -> tuple[list[str], bool]:
    """The job's words, and whether `--` stood before them."""
    words, dashed = context.meta["mgpu.words"]
    return list(words), bool(dashed)


def split(args: Sequence[str], params: Sequence[click.Parameter]) -> tuple[list[str], list[str], bool]:
    """(options, words, whether `--` stood between). An option whose value is optional takes it only when attached."""
    valued = {name: option for option in params if isinstance(option, click.Option) and not option.is_flag
              and not option.count for name in option.opts}  # fmt: skip
    options: list[str] = []
    position = 0
    while position < len(args):
        arg = args[position]
        if arg == "--":
            return options, list(args[position + 1 :]), True
        if len(arg) < 2 or arg[0] != "-":
            break
        position += 1
        name, bare = _last_option(arg, valued)
        option = valued.get(name)
        if option is None or not bare:
            options.append(arg)
        elif isinstance(option, OptionalValue):
            options.append(arg + ("=" if arg.startswith("--") else "") + option.bare)
        else:
            options += [arg, *args[position : position + 1]]
            position += 1
    return options, list(args[position:]), False


def _last_option(arg: str, valued: dict[str, click.Option]) -> tuple[str, bool]:
    """The option that a value would belong to, and whether `arg` holds none for it: -QG2 -> (-G, False)."""
    if arg.startswith("--"):
        name, equals, _ = arg.partition("=")
        return name, not equals
    for place, letter in enumerate(arg[1:], 2):
        if f"-{letter}" in valued:
            return f"-{letter}", place == len(arg)
    return arg[:2], True


class OptionalValue(click.Option):
    """An option like Slurm's -I[s]: `bare` is its value when none is attached."""

    def __init__(self, *args: Any, bare: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bare = bare


class Group(_Globals, click.Group):
    """`table`: name -> (module:function, one line for the help); `aliases`: other name -> name."""

    def __init__(
        self,
        *args: Any,
        table: dict[str, tuple[str, str]],
        aliases: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table = table
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, function = entry[0].partition(":")
        command = getattr(__import__(module, fromlist=[function]), function)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None:
            import difflib

            near = difflib.get_close_matches(args[0], [*self.table, *self.aliases], n=1)
            hint = f"did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them"
            raise bad_request(f"{ctx.command_path} has no command {args[0]!r}", hint)
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = {name: alias for alias, name in self.aliases.items()}
        rows = [
            (f"{name} ({others[name]})" if name in others else name, summary)
            for name, (_, summary) in self.table.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def session_of(context: click.Context) -> Session:
    session = context.find_root().obj
    assert isinstance(session, Session)
    return session
