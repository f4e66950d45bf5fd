"""Where completion and manual pages are installed: files of ours in the user's own folders, each with a mark by which
it is known again. What bears no mark is somebody else's, and is left alone."""

from __future__ import annotations

import os
import pkgutil
import shutil

from mgpu.client.http import MasterError
from mgpu.lean.typing import Iterable, Iterator, Mapping

MARK = "mgpu completion install"  # in the first lines of each
MARKED_B = 400
SHELLS = ("bash", "zsh", "fish")
BASH_LOADERS = ("/usr/share/bash-completion/bash_completion", "/usr/local/share/bash-completion/bash_completion")


def script(shell: str) -> str:
    found = pkgutil.get_data("mgpu.cli.completion", f"shells/mgpu.{shell}")
    assert found is not None
    return found.decode()


def install(shells: Iterable[str]) -> tuple[list[str], list[str]]:
    """What was done, a line for each place, and what is still to be typed. `shells` none: those that are here. Raises
    MasterError."""
    from mgpu.cli.manual import pages

    made = pages()  # of a client in a single file they cannot be made, and then nothing is written
    wanted = list(dict.fromkeys(shells)) or [shell for shell in SHELLS if shutil.which(shell)]
    written = [f"{_write(place_of(shell), script(shell))}: completion for {shell}" for shell in wanted]
    written.append(_write_pages(made))
    advice = [line for line in (*map(advice_for, wanted), advice_for_man()) if line]
    return written, advice


def uninstall() -> list[str]:
    """What was removed."""
    places = [*(place_of(shell) for shell in SHELLS), *_pages_there()]
    removed = []
    for place in places:
        if _is_ours(place):
            os.unlink(place)
            removed.append(f"{place}: removed")
    return removed


def data_home() -> str:
    """As the shells and man look for it."""
    named = os.environ.get("XDG_DATA_HOME", "")
    return named if os.path.isabs(named) else os.path.expanduser("~/.local/share")


def place_of(shell: str) -> str:
    if shell == "bash":
        named = os.environ.get("BASH_COMPLETION_USER_DIR", "").split(":")[0]
        folder = named if os.path.isabs(named) else os.path.join(data_home(), "bash-completion")
        return os.path.join(folder, "completions", "mgpu")
    if shell == "zsh":
        return os.path.join(data_home(), "zsh", "site-functions", "_mgpu")
    return os.path.join(data_home(), "fish", "vendor_completions.d", "mgpu.fish")


def pages_folder() -> str:
    """man looks beside the folders of PATH: ~/.local/bin has ~/.local/share/man, whatever XDG_DATA_HOME says."""
    return os.path.expanduser("~/.local/share/man/man1")


def advice_for(shell: str) -> str:
    """The line that the shell's start-up file needs, "" = none."""
    place = place_of(shell)
    if shell == "bash" and not any(map(os.path.exists, BASH_LOADERS)):
        return f"bash: the package bash-completion is not here; add to ~/.bashrc: . {_shown(place)}"
    if shell == "zsh":
        return f"zsh: before compinit in ~/.zshrc, once: fpath=({_shown(os.path.dirname(place))} $fpath)"
    return ""


def advice_for_man() -> str:
    """The same of man, which looks in what MANPATH names, and beside the folders of PATH."""
    folder = os.path.dirname(pages_folder())
    looked_in = os.environ.get("MANPATH", "").split(":")
    beside = os.path.expanduser("~/.local/bin") in os.environ.get("PATH", "").split(":") and "" in looked_in
    if beside or folder in looked_in or shutil.which("man") is None:
        return ""
    return f"man: it does not look there; add to the shell's start-up file: export MANPATH={_shown(folder)}:$MANPATH"


def _shown(path: str) -> str:
    """For a start-up file."""
    import shlex

    return shlex.quote(path)


def _write_pages(made: Mapping[str, str]) -> str:
    """`made`: by file name."""
    folder = pages_folder()
    for name, text in made.items():
        _write(os.path.join(folder, name), text)
    for place in _pages_there():  # of commands that are no more
        if os.path.basename(place) not in made and _is_ours(place):
            os.unlink(place)
    return f"{folder}: {len(made)} manual pages, as of: man mgpu"


def _pages_there() -> Iterator[str]:
    folder = pages_folder()
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return (os.path.join(folder, name) for name in names if name.startswith("mgpu") and name.endswith(".1"))


def _is_ours(place: str) -> bool:
    try:
        with open(place, "rb") as file:
            return MARK.encode() in file.read(MARKED_B)
    except OSError:
        return False


def _write(place: str, text: str) -> str:
    """The place. Raises MasterError for what is there and not ours."""
    if os.path.lexists(place) and not _is_ours(place):
        raise MasterError("error", f"{place} is not ours, and is left alone", "move it away, then once more")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    unfinished = f"{place}.{os.getpid()}"
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, place)
    return place
