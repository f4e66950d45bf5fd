"""The little that --ship asks of git, in a way that runs nothing of the repository: no hooks, no monitor, no locks."""

from __future__ import annotations

import os
import shlex
import subprocess

from mgpu.client.http import MasterError

TIMEOUT_S = 300.0
SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
# What names another repository than the one that a folder lies in (git rev-parse --local-env-vars).
ELSEWHERE = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR",
}  # fmt: skip


def top_of(folder: bytes) -> bytes | None:
    """Of the work tree that it lies in; None = in none. Raises MasterError where git does not trust it, or is not
    there for what is one."""
    try:
        found = _git(folder, "rev-parse", "--show-toplevel")
    except FileNotFoundError as error:
        if _has_repository(folder):
            raise _failed(folder, "there is no git here to read the repository with", "install git") from error
        return None
    if found.returncode == 0:
        return found.stdout.rstrip(b"\n")
    if b"not a git repository" in found.stderr:
        return None
    if b"dubious ownership" in found.stderr:
        repository = [*_words(found).split("'"), ""][1] or os.fsdecode(folder)
        trust = f"if you trust its owner: git config --global --add safe.directory {shlex.quote(repository)}"
        raise _failed(folder, "git does not trust the repository, which belongs to somebody else", trust)
    raise _failed(folder, _words(found), "mend that, or name another folder: --ship=DIR")


def listed(folder: bytes) -> list[bytes]:
    """Below it, and from there: what is tracked, and what is new and not ignored. Raises MasterError."""
    return _told(folder, "ls-files", "-co", "--exclude-standard", "-z").split(b"\0")[:-1]


def commit_of(folder: bytes) -> str:
    """The commit that is checked out, "" = there is none yet."""
    found = _git(folder, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    return found.stdout.decode().strip() if found.returncode == 0 else ""


def is_dirty(folder: bytes) -> bool:
    """Below it something is not as in that commit. Raises MasterError."""
    return bool(_told(folder, "status", "--porcelain", "-z", "--untracked-files=normal", "--", "."))


def _told(folder: bytes, *words: str) -> bytes:
    found = _git(folder, *words)
    if found.returncode:
        raise _failed(folder, _words(found))
    return found.stdout


def _git(folder: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    command = ["git", *SAFE, "-C", os.fsdecode(folder), *words]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**environ, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"},
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(folder, f"git took more than {TIMEOUT_S:.0f} s") from error


def _has_repository(folder: bytes) -> bool:
    while True:
        if os.path.lexists(os.path.join(folder, b".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _words(found: subprocess.CompletedProcess[bytes]) -> str:
    lines = found.stderr.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else f"git ended with {found.returncode}"


def _failed(folder: bytes, why: str, hint: str = "") -> MasterError:
    return MasterError("bad_request", f"--ship: {os.fsdecode(folder)}: {why}", hint)
