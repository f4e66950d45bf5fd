"""What can stand next on a command line, told from the declarations of the commands."""

from __future__ import annotations

from mgpu.cli.completion.values import COMMANDS, FILES, FOLDERS, FREE, JOBS, NODES, SIGNALS, Value, value_of
from mgpu.cli.syntax import GLOBAL_OPTIONS, Argument, Command, Group, Option, by_flag, last_option
from mgpu.lean.typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Sequence

# of jobs, those that ended too
LOOK_BACK = {"history", "logs", "requeue", "show", "wait", "why"}
HELP = ("-h", "--help")


class Ask(NamedTuple):
    """What the master is asked for: `kind` as in values; `ended`: of jobs, those that ended too; `common`: the global
    options of the line."""

    kind: str
    ended: bool
    common: dict[str, Any]


class Offer(NamedTuple):
    """`by_shell`: files, folders or commands, which the shell finds itself, behind `prefix` of the word; `found`:
    whole words, with what is said of each."""

    by_shell: str = ""
    found: tuple[tuple[str, str], ...] = ()
    prefix: str = ""


if TYPE_CHECKING:
    Names = Callable[[Ask], Iterable[tuple[str, str]]]


class _Line:
    """What the words before say. `waiting`: the option whose value is next; `perhaps`: one whose value may be left out;
    `job_words`: how many words the job has, -1 = none can come yet; `over`: no more options, since `--` was there."""

    def __init__(self, root: Group) -> None:
        self.found: Group | Command = root
        self.known = by_flag(GLOBAL_OPTIONS)
        self.common: dict[str, Any] = {}
        self.given: set[str] = set()
        self.positional: list[str] = []
        self.waiting: Option | None = None
        self.perhaps: Option | None = None
        self.job_words = -1
        self.over = False
        self.lost = False  # there is no such command

    def enter(self, name: str) -> None:
        found = self.found.get(name) if isinstance(self.found, Group) else None
        if found is None:
            self.lost = True
            return
        self.found = found
        if isinstance(found, Command):
            self.known = {**self.known, **by_flag(found.options)}

    def take(self, word: str) -> None:
        perhaps, self.perhaps = self.perhaps, None
        if perhaps is not None and perhaps.takes([word]):
            return
        if self.waiting is not None:
            self._keep(self.waiting, word)
            self.waiting = None
        elif self.job_words >= 0:
            self.job_words += 1
        elif word == "--" and isinstance(self.found, Command):
            self.over = True
            self.job_words = 0 if self.found.words else -1
        elif len(word) > 1 and word[0] == "-" and not self.over:
            self._take_option(word)
        elif isinstance(self.found, Group):
            self.enter(word)
        elif self.found.words:
            self.job_words = 1
        else:
            self.positional.append(word)

    def _take_option(self, word: str) -> None:
        if word.partition("=")[0] not in self.known and isinstance(self.found, Command):
            self.known = {**by_flag(self.found.strangers()), **self.known}
        flag, alone = last_option(word, {flag: option for flag, option in self.known.items() if option.metavar})
        option = self.known.get(flag)
        if option is None:
            return
        self.given.add(option.key)
        if not option.metavar:
            self._keep(option, True)
        elif not alone:
            self._keep(option, word.partition("=")[2] if word.startswith("--") else word[word.index(flag[1]) + 1 :])
        elif option.bare:
            self.perhaps = option
        else:
            self.waiting = option

    def _keep(self, option: Option, value: Any) -> None:
        if option in GLOBAL_OPTIONS:
            self.common[option.key] = value


def offer(root: Group, words: Sequence[str], current: str, names: Names) -> Offer:
    """`words`: those behind `mgpu` and before the one that is typed now."""
    line = _Line(root)
    for word in words:
        line.take(word)
    if line.lost:
        return Offer()
    if line.waiting is not None:
        return _values(line, value_of(line.waiting) or FREE, current, "", names)
    if line.job_words >= 0:
        return Offer(by_shell=_first_word(line.found) if line.job_words == 0 else FILES)
    if current.startswith("-") and not line.over:
        flag, equals, value = current.partition("=")
        if not equals:
            return Offer(found=tuple(_flags(line, current)))
        option = line.known.get(flag)
        known = value_of(option) if option is not None and option.metavar else None
        return _values(line, known or FREE, value, f"{flag}=", names)
    if isinstance(line.found, Group):
        return Offer(found=tuple(_commands(line.found, current)))
    return _arguments(line, line.found, current, names)


def _first_word(found: Group | Command) -> str:
    """Of a job: what submit is given is a script, as a rule."""
    return COMMANDS if found.name == "srun" else FILES


def _commands(group: Group, current: str) -> Iterable[tuple[str, str]]:
    """Other names only when one is being typed."""
    found = [(name, summary) for name, (_, summary) in group.table.items() if name.startswith(current)]
    aliases = group.aliases.items() if current and not found else ()
    return found + [(alias, group.table[name][1]) for alias, name in aliases if alias.startswith(current)]


def _flags(line: _Line, current: str) -> Iterable[tuple[str, str]]:
    own = line.found.options if isinstance(line.found, Command) else []
    taken = {flag for option in own for flag in option.flags}
    everywhere = [option for option in GLOBAL_OPTIONS if taken.isdisjoint(option.flags)]
    if isinstance(line.found, Command) and not line.found.has_json:
        everywhere = [option for option in everywhere if option.key != "json"]
    for option in (*own, *everywhere):
        if option.key in line.given and not option.repeated:
            continue
        for flag in option.flags:
            if flag.startswith(current):
                yield flag, option.help
    for flag in HELP:
        if flag.startswith(current):
            yield flag, "Show the help, and exit."


def _arguments(line: _Line, found: Command, current: str, names: Names) -> Offer:
    place = len(line.positional)
    arguments = list(found.arguments)
    if arguments and place >= len(arguments) and arguments[-1].nargs == "*":
        place = len(arguments) - 1
    if found.words:  # the job's first, unless it is an option
        return Offer(by_shell=_first_word(found))
    if place >= len(arguments):
        return Offer(found=tuple(_flags(line, "-"))) if not current and not line.over else Offer()
    value = _of_argument(line, arguments[place])
    answer = _values(line, value, current, "", names)
    if arguments[place].key == "targets" and line.positional:
        also = tuple((name, "") for name in SIGNALS if name.startswith(current.upper()) and current)
        answer = answer._replace(found=(*answer.found, *also))
    typed = set(line.positional) if arguments[place].nargs == "*" else set()
    return answer._replace(found=tuple(each for each in answer.found if each[0] not in typed))


def _of_argument(line: _Line, argument: Argument) -> Value:
    if argument.key == "name" and line.positional[:1] == ["job"]:  # mgpu show job
        return Value(JOBS)
    if argument.key == "name" and argument.metavar in ("", "ID|NAME"):
        return Value(NODES)
    if argument.key == "nodes":
        return Value(NODES)
    return value_of(argument) or FREE


def _values(line: _Line, value: Value, current: str, prefix: str, names: Names) -> Offer:
    """`current`: the value as far as it is typed; `prefix`: what stands before it in its word."""
    if value.kind in (FILES, FOLDERS):
        return Offer(by_shell=value.kind, prefix=prefix)
    kept, piece = "", current
    if value.between and value.between in current:
        kept, _, piece = current.rpartition(value.between)
        kept += value.between
    found: Iterable[tuple[str, str]] = [(choice, "") for choice in value.choices]
    if value.kind:
        found = names(Ask(value.kind, line.found.name in LOOK_BACK, line.common))
    upper = not any(choice.startswith(piece) for choice, _ in found) if value.choices else False
    wanted = piece.upper() if upper else piece
    already = set(kept.split(value.between)) if kept else set()
    return Offer(
        found=tuple(
            (f"{prefix}{kept}{name}", about) for name, about in found if name.startswith(wanted) and name not in already
        )
    )
