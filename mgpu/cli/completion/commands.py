"""mgpu completion: what shells offer when Tab is pressed, and its installation."""

from __future__ import annotations

import sys

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Group, Option, Words, command
from mgpu.lean.typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mgpu.cli.completion.offers import Offer

INSTALL_EXAMPLES = """
Examples:
  mgpu completion install           for the shells that are here
  mgpu completion install zsh
  man mgpu; man mgpu-srun           what came with it
"""
BASH_EXAMPLES = """
Examples:
  eval "$(mgpu completion bash)"    in this shell alone
  mgpu completion install           for good
"""
ZSH_EXAMPLES = """
Examples:
  eval "$(mgpu completion zsh)"     in this shell alone, after compinit
  mgpu completion install           for good
"""
FISH_EXAMPLES = """
Examples:
  mgpu completion fish | source     in this shell alone
  mgpu completion install           for good
"""
COMMANDS = {
    "install": ("mgpu.cli.completion.commands:install", "Install it for your shells, and the manual pages."),
    "uninstall": ("mgpu.cli.completion.commands:uninstall", "Take away what install wrote."),
    "bash": ("mgpu.cli.completion.commands:bash", "Print the script for bash."),
    "zsh": ("mgpu.cli.completion.commands:zsh", "Print the script for zsh."),
    "fish": ("mgpu.cli.completion.commands:fish", "Print the script for fish."),
    "candidates": ("mgpu.cli.completion.commands:candidates", "What could stand next on a line: the scripts ask."),
}

completion = Group(
    "completion",
    "What bash, zsh and fish offer when Tab is pressed, and the manual pages.",
    COMMANDS,
    examples=INSTALL_EXAMPLES,
)


@command(has_json=False, examples=BASH_EXAMPLES)
def bash(session: Session, /) -> None:
    """Print the script for bash."""
    _print_script("bash")


@command(has_json=False, examples=ZSH_EXAMPLES)
def zsh(session: Session, /) -> None:
    """Print the script for zsh."""
    _print_script("zsh")


@command(has_json=False, examples=FISH_EXAMPLES)
def fish(session: Session, /) -> None:
    """Print the script for fish."""
    _print_script("fish")


def _print_script(shell: str) -> None:
    from mgpu.cli.completion.places import script

    print(script(shell), end="")


@command(Argument("shells", "[bash|zsh|fish]...", "*"), examples=INSTALL_EXAMPLES)
def install(session: Session, /, shells: tuple[str, ...]) -> None:
    """Install completion for your shells, and the manual pages, under ~/.local/share.

    Nothing else is written: where a shell has to be told, the line for its start-up file is printed. Again, it brings
    what was written up to date.
    """
    from mgpu.cli.completion import places

    unknown = [shell for shell in shells if shell not in places.SHELLS]
    if unknown:
        raise bad_request(f"{unknown[0]!r} is no shell that is known here", "bash, zsh or fish")
    written, advice = places.install(shells)
    if session.json:
        session.print_json({"written": written, "advice": advice})
        return
    for line in (*written, *advice):
        print(line)


@command(examples="\nExample:\n  mgpu completion uninstall\n")
def uninstall(session: Session, /) -> None:
    """Remove what `mgpu completion install` wrote, and that alone."""
    from mgpu.cli.completion import places

    removed = places.uninstall()
    if session.json:
        session.print_json({"removed": removed})
        return
    for line in removed:
        print(line)
    if not removed:
        print("nothing of it is installed")


@command(
    Option("--line", "TEXT", "The line up to the cursor, as it was typed: of bash."),
    Option("--replaced", "TEXT", "What bash replaces of it."),
    words=True,
    has_json=False,
    examples="\nExample:\n  mgpu completion candidates -- mgpu queue --st\n",
)
def candidates(session: Session, /, words: Words, line: str | None, replaced: str | None) -> None:
    """Print what could stand next on a command line: whom the shell is to ask (files, folders or commands, behind how
    much of the word), then a candidate in each line, and behind a tab what is said of it.

    The words are those of the line, the last one being typed. No master is started, and none is waited for.
    """
    from mgpu.cli.completion.line import read, written
    from mgpu.cli.completion.living import names
    from mgpu.cli.completion.offers import offer
    from mgpu.cli.main import CLI

    if line is not None:
        typed = read(line)
        found = offer(CLI, typed.words[1:], typed.current, names)
        _tell(found, [(written(word, typed, replaced or ""), about) for word, about in found.found if _sound(word)])
    elif words.words:
        found = offer(CLI, words.words[1:-1], words.words[-1], names)
        _tell(found, [(word, about) for word, about in found.found if _sound(word)])


def _tell(found: Offer, rows: list[tuple[str, str]]) -> None:
    from mgpu.wording.letters import clean

    lines = [f"{found.by_shell}\t{found.prefix}", *(f"{word}\t{clean(about)}" for word, about in rows)]
    sys.stdout.write("\n".join(lines) + "\n")


def _sound(word: str) -> bool:
    """Nothing that would be a line or a key of its own in a terminal."""
    return word.isprintable() and bool(word)
