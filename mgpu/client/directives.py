"""The options that a script holds itself: its `#SBATCH` and `#MGPU` lines.

As Slurm reads them: each at the beginning of a line, words as a shell would split them, up to the first line that is
neither empty nor a comment. Of an option given twice the later counts; `#MGPU` beats `#SBATCH`, which a script may keep
for clusters with Slurm. Nothing is passed over in silence.
"""

from __future__ import annotations

from mgpu.client.http import bad_request
from mgpu.client.option import Option, by_flag
from mgpu.client.options import OF_ONE_COMMAND, OF_SUBMIT, job_options
from mgpu.client.slurm import OPTIONS, Said, settle
from mgpu.lean.typing import Any, Iterator, Mapping, NamedTuple

TAGS = ("#SBATCH", "#MGPU")  # the later one counts more


class Directives(NamedTuple):
    """`layers`: options by key, those that count more behind the others."""

    layers: list[dict[str, Any]]
    notices: list[str]


class _Line(NamedTuple):
    number: int
    tag: str
    words: list[str]
    where: str


def read(name: str, text: str) -> Directives:
    """`name`: of the script. Raises MasterError (bad_request)."""
    notices: list[str] = []
    ours = [option for option in job_options(*OF_SUBMIT) if option.key not in OF_ONE_COMMAND]
    options = by_flag([*OPTIONS, *ours])
    said: dict[str, dict[str, Said]] = {tag: {} for tag in TAGS}
    for line in _lines(name, text, notices):
        said[line.tag].update(_options(line, options, notices))
    layers = []
    for tag, found in said.items():
        settled, more = settle(found, ("ntasks_per_node",) if tag == "#MGPU" else ())
        layers.append(settled)
        notices += more
    return Directives(layers, notices)


def _lines(name: str, text: str, notices: list[str]) -> Iterator[_Line]:
    """Those that are read; of those that stand too late it is said."""
    late = False
    for number, line in enumerate(text.split("\n"), 1):
        tag = next((tag for tag in TAGS if line.startswith(tag)), "")
        if tag and late:
            notices.append(f"{name}:{number}: this {tag} line is not read: it stands behind the first command")
        elif tag:
            where = f"{name}:{number}: {tag}"
            yield _Line(number, tag, _words(line[len(tag) :], where), where)
        elif line.strip() and not line.startswith("#"):
            late = True


def _words(text: str, where: str) -> list[str]:
    """As a shell splits it; `#` at the beginning of a word begins a comment."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    letters = iter(text)
    for letter in letters:
        if quote and letter == quote:
            quote = ""
        elif letter == "\\" and quote != "'":
            word = (word or "") + next(letters, "")
        elif not quote and letter in "'\"":
            quote, word = letter, word or ""
        elif not quote and letter.isspace():
            words += [] if word is None else [word]
            word = None
        elif not quote and letter == "#" and word is None:
            break
        else:
            word = (word or "") + letter
    if quote:
        raise bad_request(f"{where}: a {quote} is opened and not closed", "close it")
    return words if word is None else [*words, word]


def _options(line: _Line, options: Mapping[str, Option], notices: list[str]) -> dict[str, Said]:
    rest = list(line.words)
    found: dict[str, Said] = {}
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        option = _known(flag, options) if word.startswith("-") else None
        if option is None:
            notices.append(f"{line.where}: {_unknown(flag if word.startswith('-') else word, options)}")
            while rest and not rest[0].startswith("-"):  # what may be its value
                rest.pop(0)
            continue
        where = f"{line.where} {flag}"
        if not option.metavar and value and not word.startswith("--"):  # switches in one word
            rest.insert(0, f"-{value}")
            equals = ""
        found[option.key] = Said(_value(option, bool(equals), value, rest, where), where)
    return found


def _value(option: Option, attached: bool, value: str, rest: list[str], where: str) -> str | bool:
    if not option.metavar:
        if attached:
            raise bad_request(f"{where} takes no value", "leave the value out")
        return True
    if attached:
        return value
    if option.bare and not option.takes(rest):
        return option.bare
    if not rest:
        raise bad_request(f"{where} needs a value ({option.metavar})", "write it behind the option")
    return rest.pop(0)


def _known(flag: str, options: Mapping[str, Option]) -> Option | None:
    """A long one may be cut short, as long as it is clear which is meant."""
    if flag in options or not flag.startswith("--"):
        return options.get(flag)
    meant = {option.key: option for name, option in options.items() if name.startswith(flag) and len(flag) > 3}
    return next(iter(meant.values())) if len(meant) == 1 else None


def _unknown(word: str, options: Mapping[str, Option]) -> str:
    import difflib

    near = difflib.get_close_matches(word, options, n=1)
    return f"there is no option {word!r}: it is passed over" + (f" (did you mean {near[0]}?)" if near else "")
