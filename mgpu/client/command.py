"""What a job is to run, from the words that somebody gave: those of a program, a shell's line, a script, many lines."""

from __future__ import annotations

import os
import stat
import sys

from mgpu.client.http import bad_request
from mgpu.lean.typing import Any, Iterator, Mapping

SCRIPT_LIMIT_B = 4 << 20
SCRIPT_ENDINGS = (".sh", ".bash", ".slurm", ".sbatch", ".py")


def surprises(named: str, command: Mapping[str, Any]) -> Iterator[str]:
    """What a submission does not mean, though it looks so. `named`: its first word."""
    if command["form"] == "shell" and named.endswith(SCRIPT_ENDINGS) and not named.split()[1:]:
        yield f"{named} is no file here: it is run as a shell command line on the node"
    words = command["words"]
    if command["form"] == "argv" and len(words) == 1 and " " in words[0].strip():
        from shlex import quote

        word = quote(words[0])
        yield f"{word} is taken for the name of one program; as a command line it is: sh -c {word}"


def command_of(words: list[str], dashed: bool, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """As the wire has it. `dashed`: whether `--` stood before the words. Raises MasterError (bad_request)."""
    for option in ("wrap", "each_line"):
        if given.get(option) and words:
            named = f"--{option.replace('_', '-')}"
            raise bad_request(f"{named} gives the command, and so does {words[0]!r}", "leave out one of them")
    if given.get("wrap"):
        return {"form": "shell", "words": [given["wrap"]]}
    if given.get("each_line"):
        return lines(given["each_line"])
    if kind != "srun" and not dashed and (words[:1] == ["-"] or (not words and comes_through(0))):
        return piped(words[1:])
    if not words:
        name = "srun" if kind == "srun" else "submit"
        raise bad_request(f"no command: what should {name} run?", f"mgpu {name} --help")
    return argv(words) if kind == "srun" or dashed else batch_command(words)


def argv(words: list[str]) -> dict[str, Any]:
    return {"form": "argv", "words": words}


def batch_command(words: list[str]) -> dict[str, Any]:
    """Without `--`: a file is a script, one other word a shell's command line, several are an argv."""
    if os.path.isfile(words[0]):
        content = _content(words[0])
        if b"\0" not in content:  # a program is not a script: its path is run on the node
            return script(words[0], words[1:], content)
    return {"form": "shell", "words": words} if len(words) == 1 and not os.path.isfile(words[0]) else argv(words)


def comes_through(descriptor: int) -> bool:
    """A pipe, a file or a socket: somebody gives something there, and it is no terminal."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _content(name: str) -> bytes:
    """`-` = of stdin. A byte over the limit is enough to tell that it is too long."""
    if name == "-":
        return sys.stdin.buffer.read(SCRIPT_LIMIT_B + 1)
    with open(name, "rb") as file:
        return file.read(SCRIPT_LIMIT_B + 1)


def piped(arguments: list[str]) -> dict[str, Any]:
    """The script on stdin, as sbatch takes one."""
    content = _content("-")
    if not content.strip():
        raise bad_request("no command, and no script on stdin", "mgpu submit --help")
    return script("stdin", arguments, content)


def lines(name: str) -> dict[str, Any]:
    """Commands, one a line; `-` = stdin."""
    content = _content(name)
    if len(content) > SCRIPT_LIMIT_B:
        raise bad_request(f"--each-line {name}: more than 4 MiB", "split it")
    shown = "stdin" if name == "-" else os.path.basename(name)
    return {"form": "lines", "words": [], "script": content.decode(errors="surrogateescape"), "script_name": shown}


def script(path: str, arguments: list[str], content: bytes) -> dict[str, Any]:
    name = os.path.basename(path)
    if len(content) > SCRIPT_LIMIT_B:
        raise bad_request(f"{path} is over 4 MiB", "a script should be smaller: let it call a program")
    if name.endswith(".py") and not content.startswith(b"#!"):
        raise bad_request(
            f"{path} has no #! line, so a shell would run it", f"add one, or: mgpu submit -- python {path}"
        )
    text = content.decode(errors="surrogateescape")
    return {"form": "script", "words": arguments, "script": text, "script_name": name}
