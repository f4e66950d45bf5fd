"""The commands of the older system under their names there: mgpu_client, mgpu_srun, mgpu_queue, mgpu_cancel. They are
today's, but that following a job ends by itself, as it did there; the job goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from mgpu.cli.main import ALIASES, main
from mgpu.cli.syntax import GLOBAL_OPTIONS, by_flag
from mgpu.client.http import MasterError
from mgpu.client.own_config import load_own_config
from mgpu.lean_typing import NoReturn

DEFAULTS = {
    "session_timeout": "7200",
    "connection_timeout": "30",
    "max_wait_time": "300",
    "max_consecutive_timeouts": "30",
}
FOLLOWING = ("srun", "submit")


def client() -> NoReturn:
    _run([])


def srun() -> NoReturn:
    _run(["srun"])


def queue() -> NoReturn:
    _run(["queue"])


def cancel() -> NoReturn:
    _run(["cancel"])


def _run(command: list[str]) -> NoReturn:
    words = [*command, *sys.argv[1:]]
    try:
        own: Mapping[str, str] = load_own_config(os.environ).options
    except MasterError:  # the command says so itself
        own = {}
    main(with_defaults(words, os.environ, own))


def with_defaults(words: Sequence[str], environ: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """The older defaults in front of the command's own options, where neither a variable nor the user's own file says
    otherwise: what is typed later counts."""
    place = _behind_command(words)
    said = {key for key in DEFAULTS if environ.get(f"MGPU_{key.upper()}") or key in own}
    added = [f"--{key.replace('_', '-')}={value}" for key, value in DEFAULTS.items() if key not in said]
    return [*words[:place], *(added if place else ()), *words[place:]]


def _behind_command(words: Sequence[str]) -> int:
    """The place behind the name of a command that follows a job; 0 = there is none."""
    valued = {flag for flag, option in by_flag(GLOBAL_OPTIONS).items() if option.metavar}
    skip = False
    for place, word in enumerate(words, 1):
        if skip or word.startswith("-"):
            skip = not skip and word in valued
            continue
        return place if ALIASES.get(word, word) in FOLLOWING else 0
    return 0
