"""mgpu_client: submit, queue and cancel, and all that is there today; without a verb it submits. Its queue, and
mgpu_queue, have the nodes under the jobs."""

from __future__ import annotations

from mgpu.cli.main import ALIASES, COMMANDS
from mgpu.cli.older.defaults import behind_command
from mgpu.cli.syntax import GLOBAL_OPTIONS, Group, by_flag
from mgpu.lean.typing import Sequence

EXAMPLES = """
Examples:
  mgpu_client submit --gpus 1 --interactive "python train.py"
  mgpu_client --host head --port 8080 submit --gpus 2 "python train.py"
  mgpu_client --gpus 2 "python train.py"          without a verb: submit
  mgpu_client submit --gpus 2 --node-gpu-ids "node001:0,1" "python train.py"
  mgpu_client queue
  mgpu_client cancel 17

--host and --port: there over TCP, with a token (docs/remote.md); else the
master of this machine. What became of each word of the older system:
docs/from-the-old-system.md.
"""
CLIENT = Group("mgpu_client", "Submit jobs, see the queue, cancel: as `mgpu` does.", COMMANDS, ALIASES, EXAMPLES)
AGAIN = ("--watch", "-i", "--iterate")


def meant(words: Sequence[str]) -> list[str]:
    """With the verb that may be left out: what begins with an option of a job, or is a command line in one word."""
    place = behind_command(words)
    if place:
        word = words[place - 1]
        if len(word.split()) > 1:
            return [*words[: place - 1], "submit", *words[place - 1 :]]
        return with_nodes(words) if ALIASES.get(word, word) == "queue" else list(words)
    before = _globals_of(words)
    rest = words[before:]
    if not rest or not _of_a_job(rest[0]):
        return list(words)
    return [*words[:before], "submit", *rest]


def with_nodes(words: Sequence[str]) -> list[str]:
    """`queue` as it was there; a look that is taken again and again is at the jobs alone."""
    return [*words, *(() if any(word.startswith(AGAIN) for word in words) else ("--with-nodes",))]


def _globals_of(words: Sequence[str]) -> int:
    """How many of the first words are global options and their values."""
    everywhere = by_flag(GLOBAL_OPTIONS)
    place = 0
    while place < len(words):
        flag, equals, _ = words[place].partition("=")
        option = everywhere.get(flag)
        if option is None:
            break
        place += 2 if option.metavar and not equals else 1
    return min(place, len(words))


def _of_a_job(word: str) -> bool:
    """Loaded only for a line without a verb."""
    from mgpu.cli.submit import submit

    flag = word.partition("=")[0] if word.startswith("--") else word[:2]
    return flag in by_flag([*submit.options, *submit.strangers()])
