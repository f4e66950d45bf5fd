"""The older system's limits of following a job, put into a command line."""

from __future__ import annotations

from mgpu.cli.main import ALIASES
from mgpu.cli.syntax import GLOBAL_OPTIONS, by_flag
from mgpu.client.older import DEFAULTS
from mgpu.lean.typing import Mapping, Sequence

FOLLOWING = ("srun", "submit")


def with_defaults(words: Sequence[str], environ: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """The older defaults in front of the command's own options, where neither a variable nor the user's own file says
    otherwise: what is typed later counts."""
    place = behind_command(words)
    if not place or _named(words, place) not in FOLLOWING:
        return list(words)
    said = {key for key in DEFAULTS if environ.get(f"MGPU_{key.upper()}") or key in own}
    added = [f"--{key.replace('_', '-')}={value}" for key, value in DEFAULTS.items() if key not in said]
    return [*words[:place], *added, *words[place:]]


def behind_command(words: Sequence[str]) -> int:
    """The place behind the command's name, which stands before any option of its own; 0 = there is none."""
    everywhere = by_flag(GLOBAL_OPTIONS)
    skip = False
    for place, word in enumerate(words, 1):
        if skip:
            skip = False
        elif not word.startswith("-"):
            return place
        else:
            option = everywhere.get(word.partition("=")[0])
            if option is None:
                return 0
            skip = bool(option.metavar) and "=" not in word
    return 0


def _named(words: Sequence[str], place: int) -> str:
    return ALIASES.get(words[place - 1], words[place - 1])
