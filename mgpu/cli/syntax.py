"""What a command line may hold, as data. Two read it: `plain` the lines that need no more than that, in a fraction of
the time; `click_reader` all others, for help and for what is to be said of a mistake."""

from __future__ import annotations

from mgpu.cli.session import Session, bad_request
from mgpu.client.option import Option, by_flag
from mgpu.lean.typing import Any, Callable, Iterable, Mapping, Sequence

__all__ = ["Option", "by_flag"]  # which commands take from here, beside what is of the command line alone


class Argument:
    """`nargs`: 1, "?" = it may be left out, "*" = any number, as a tuple."""

    def __init__(self, key: str, metavar: str = "", nargs: int | str = 1) -> None:
        self.key = key
        self.metavar = metavar
        self.nargs = nargs


class Command:
    """`words` True: everything from the first word that is no option belongs to the job and is left as it is; the
    function gets it as `words`. `has_json` False: --json is refused. `strangers`: options that the help does not list
    and few lines hold, made when one does."""

    def __init__(
        self,
        function: Callable[..., int | None],
        parameters: Iterable[Option | Argument],
        words: bool,
        has_json: bool,
        examples: str,
        strangers: Callable[[], Sequence[Option]],
    ) -> None:
        given = list(parameters)
        self.name = function.__name__
        self.help = function.__doc__ or ""
        self.function = function
        self.options = [each for each in given if isinstance(each, Option)]
        self.arguments = [each for each in given if isinstance(each, Argument)]
        self.words = words
        self.has_json = has_json
        self.examples = examples
        self.strangers = strangers

    def run(self, session: Session, given: Mapping[str, Any]) -> int:
        """The exit status. Raises MasterError."""
        if session.json and not self.has_json:
            session.json = False
            raise bad_request(f"{self.name} has no --json", "leave it out")
        return self.function(session, **given) or 0


def no_strangers() -> Sequence[Option]:
    return ()


def command(
    *parameters: Option | Argument,
    words: bool = False,
    has_json: bool = True,
    examples: str = "",
    strangers: Callable[[], Sequence[Option]] = no_strangers,
) -> Callable[[Callable[..., int | None]], Command]:
    """Makes a command of a function of the session and of what is given. Its docstring is the help."""
    return lambda function: Command(function, parameters, words, has_json, examples, strangers)


class Group:
    """`table`: name -> (module:command, one line for the help); `aliases`: other name -> name."""

    def __init__(
        self,
        name: str,
        help: str,
        table: Mapping[str, tuple[str, str]],
        aliases: Mapping[str, str] | None = None,
        examples: str = "",
    ) -> None:
        self.name = name
        self.help = help
        self.table = table
        self.aliases = aliases or {}
        self.examples = examples

    def get(self, name: str) -> Command | Group | None:
        """Imported only when it is asked for."""
        entry = self.table.get(self.aliases.get(name, name))
        if entry is None:
            return None
        module, _, variable = entry[0].partition(":")
        found = getattr(__import__(module, fromlist=[variable]), variable)
        assert isinstance(found, (Command, Group))
        return found


class Words:
    """The job's words, and whether `--` stood before them."""

    def __init__(self, words: list[str], dashed: bool) -> None:
        self.words = words
        self.dashed = dashed


class Reading:
    """What a command line says. `common`: the global options that were given, by key."""

    def __init__(self, command: Command, given: dict[str, Any], common: dict[str, Any]) -> None:
        self.command = command
        self.given = given
        self.common = common


GLOBAL_OPTIONS = [
    Option("--config", "FILE", "The cluster's configuration."),
    Option("--state-dir", "DIR", "Where the master keeps all."),
    Option("--master", "URL", "The master: its socket, ssh://user@head, or https://head:port.", key="master_url"),
    Option("--host", "H", "Its machine, reached over TCP with a token.", key="master_host"),
    Option("--port", "P", "Its port there (8080).", key="master_port"),
    Option("--json", "", "JSON instead of text."),
    Option("-v --verbose", "", "Say what is used."),
]


def split(args: Sequence[str], options: Mapping[str, Option]) -> tuple[list[str], Words]:
    """What stands before the job's words, and these. A value that may be left out is taken only when attached."""
    valued = {flag: option for flag, option in options.items() if option.metavar}
    before: list[str] = []
    position = 0
    while position < len(args):
        arg = args[position]
        if arg == "--":
            return before, Words(list(args[position + 1 :]), True)
        if len(arg) < 2 or arg[0] != "-":
            break
        position += 1
        name, alone = last_option(arg, valued)
        option = valued.get(name)
        if option is None or not alone:
            before.append(arg)
        elif option.bare and not option.takes(args[position : position + 1]):
            _no_number_behind(arg, args[position : position + 1])
            before.append(arg + ("=" if arg.startswith("--") else "") + option.bare)
        else:
            before += [arg, *args[position : position + 1]]
            position += 1
    return before, Words(list(args[position:]), False)


def _no_number_behind(arg: str, following: Sequence[str]) -> None:
    """No program is called 5: whoever writes `-I 5` means five seconds, and would wait for a job that fails."""
    if following and following[0].isdigit():
        attached = arg + ("=" if arg.startswith("--") else "") + following[0]
        raise bad_request(f"{arg} {following[0]}: a value of {arg} is written without a blank", f"write {attached}")


def last_option(arg: str, valued: Mapping[str, Option]) -> tuple[str, bool]:
    """The option that a value would belong to, and whether `arg` holds none for it: -QG2 -> (-G, False)."""
    if arg.startswith("--"):
        name, equals, _ = arg.partition("=")
        return name, not equals
    for place, letter in enumerate(arg[1:], 2):
        if f"-{letter}" in valued:
            return f"-{letter}", place == len(arg)
    return arg[:2], True
